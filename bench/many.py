"""What `agenerate_many` costs for each call, beside clients that only send, read and parse JSON.

All keep `CONCURRENCY` connections to one loopback server busy from one thread. The bare client is httpx, with
which such loops are usually written; the sockets alone, without an HTTP client, are shown for comparison.
"""

import asyncio
import json
import subprocess
import sys
from importlib import import_module
from time import perf_counter
from typing import Any

from bench.bars import line
from bench.client import REQUEST, SERVER
from dragoman import Provider, agenerate_many

CALLS, CONCURRENCY, TURNS = 3000, 16, 3
TIMES = 2.0
BARE, OURS = "httpx", "agenerate_many"


def show_many() -> None:
    print(f"\n{CALLS} calls over loopback, {CONCURRENCY} at a time; wall clock per call, best of {TURNS}")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline())
            contenders = {"sockets alone": sockets, BARE: bare, OURS: ours}
            times = {name: [asyncio.run(run(port)) for _ in range(TURNS)] for name, run in contenders.items()}
        finally:
            server.terminate()
    best = {name: min(taken) for name, taken in times.items()}
    for name, taken in best.items():
        print(f"{name:24}{taken * 1e6:10.0f} µs{taken / best[BARE]:9.1f} x bare")
    print(line("agenerate_many, times the bare call", best[OURS] / best[BARE], TIMES, at_most=True))


async def bare(port: int) -> float:
    httpx: Any = import_module("httpx2")
    calls, url = iter(range(CALLS)), f"http://127.0.0.1:{port}/v1/chat/completions"

    async def work(client: Any) -> None:
        for _ in calls:
            (await client.post(url, json=REQUEST)).json()

    async with httpx.AsyncClient() as client:
        started = perf_counter()
        await asyncio.gather(*(work(client) for _ in range(CONCURRENCY)))
        return (perf_counter() - started) / CALLS


async def sockets(port: int) -> float:
    calls = iter(range(CALLS))

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in calls:
            body = json.dumps(REQUEST).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answered = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answered.split(b"content-length: ")[1].split(b"\r")[0])
            json.loads(await reader.readexactly(length))
        writer.close()

    started = perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return (perf_counter() - started) / CALLS


async def ours(port: int) -> float:
    provider = Provider("bench", protocol="openai-chat", base_url=f"http://127.0.0.1:{port}/v1", api_key="k")
    prompts = ("What is the weather in NYC?" for _ in range(CALLS))
    started = perf_counter()
    replies = agenerate_many(prompts, provider.model("m"), concurrency=CONCURRENCY)
    assert len([reply async for reply in replies if reply.result]) == CALLS
    return (perf_counter() - started) / CALLS


if __name__ == "__main__":
    show_many()
