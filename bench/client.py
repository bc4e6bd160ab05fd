"""What `generate` costs beside the bare HTTP call, the vendor's SDK and LiteLLM, on one loopback server.

Wall clock, because most of a call is waiting. Each contender has a process of its own, because some leave
threads behind that work on after a call; they take turns, and the best median of each is shown.
"""

import http.client
import json
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from time import perf_counter
from typing import Any

from bench.bars import line

Ask = Callable[[], str]
TURNS, CALLS, WARM = 2, 200, 10
BARE, OURS, PEER = "bare http.client", "dragoman.generate", "litellm.completion"
FLOORS, SHARE = 3.0, 10.0
PROMPT = "What is the weather in NYC?"
TOOL: dict[str, Any] = {
    "name": "get_weather",
    "description": "Get the current weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": PROMPT}],
    "tools": [{"type": "function", "function": TOOL}],
}
SERVER = """
import asyncio, json
called = {"name": "get_weather", "arguments": '{"city":"NYC"}'}
call = {"id": "call_1", "type": "function", "function": called}
message = {"role": "assistant", "content": None, "tool_calls": [call]}
body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}}).encode()
head = f"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
head = head.encode()

async def serve(reader, writer):
    while request := (await reader.readuntil(b"\\r\\n\\r\\n")).lower():
        await reader.readexactly(int(request.split(b"content-length: ")[1].split(b"\\r")[0]))
        writer.write(head + body)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def show_client() -> None:
    print("\nOne call over loopback, Chat, a tool declared and called; wall clock, best median")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout
            times = measure(int(server.stdout.readline()))
        finally:
            server.terminate()
    for name, taken in times.items():
        print(f"{name:24}{taken * 1e6:10.0f} µs{taken / times[BARE]:9.1f} x bare")
    if OURS in times:
        print(line("generate, times the bare call", times[OURS] / times[BARE], FLOORS, at_most=True))
    if OURS in times and PEER in times:
        print(line("generate, LiteLLM over ours", times[PEER] / times[OURS], SHARE))


def measure(port: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(TURNS):
        for name in CONTENDERS:
            command = [sys.executable, "-m", "bench.client", name, str(port)]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode:
                print(f"{name:24}   fails: {ran.stderr.strip().splitlines()[-1][:60]}")
            else:
                best[name] = min(float(ran.stdout.split()[-1]), best.get(name, 1e9))
    return best


def median(ask: Ask) -> float:
    assert all(ask() == '{"city":"NYC"}' for _ in range(WARM))
    taken: list[float] = []
    for _ in range(CALLS):
        start = perf_counter()
        ask()
        taken.append(perf_counter() - start)
    return statistics.median(taken)


def bare(port: int) -> Ask:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask() -> str:
        headers = {"content-type": "application/json", "authorization": "Bearer k"}
        connection.request("POST", "/v1/chat/completions", json.dumps(REQUEST), headers)
        reply = json.loads(connection.getresponse().read())
        return reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]

    return ask


def ours(port: int) -> Ask:
    from dragoman import Provider, Tool, generate

    provider = Provider("bench", protocol="openai-chat", base_url=f"http://127.0.0.1:{port}/v1", api_key="k")
    model, tool = provider.model("m"), Tool(**TOOL)
    return lambda: generate(PROMPT, model, tools=[tool]).tool_calls[0]["function"]["arguments"]


def sdk(port: int) -> Ask:
    made: Any = import_module("openai").OpenAI(api_key="k", base_url=f"http://127.0.0.1:{port}/v1")
    return lambda: made.chat.completions.create(**REQUEST).choices[0].message.tool_calls[0].function.arguments


def litellm(port: int) -> Ask:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the network while importing
    peer: Any = import_module("litellm")
    with suppress(AttributeError):
        peer.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    request = {**REQUEST, "model": "openai/m", "api_key": "k", "api_base": f"http://127.0.0.1:{port}/v1"}
    return lambda: peer.completion(**request).choices[0].message.tool_calls[0].function.arguments


CONTENDERS: dict[str, Callable[[int], Ask]] = {
    BARE: bare,
    OURS: ours,
    "openai SDK": sdk,
    PEER: litellm,
}

if __name__ == "__main__":
    name, port = sys.argv[1:]
    print(median(CONTENDERS[name](int(port))))
