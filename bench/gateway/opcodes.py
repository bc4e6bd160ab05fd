"""`python -m bench.gateway.opcodes`: how many bytecodes of Python a whole request takes, pair by pair.

The number does not depend on the load of the machine, so it shows whether a change affects the hot path.
`--pair anthropic:openai-chat` lists the functions.
"""

import argparse
import os
import sys
import tempfile
import threading
from asyncio import Runner
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from msgspec.structs import replace

from bench.gateway.bodies import large, request_body, small
from bench.gateway.contenders.base import default_endpoint
from bench.gateway.contenders.ours import provider
from bench.gateway.pairs import PAIRS, UPSTREAMS, WHOLE, Pair
from bench.gateway.requests import BenchRequest
from bench.gateway.upstream import Upstream, serving
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import bind
from dragoman.http.server import HttpServer

WARM, COUNTED = 5, 10


class Spent:
    """Bytecodes and calls by function, while it is switched on."""

    def __init__(self) -> None:
        self.opcodes, self.calls = Counter[str](), Counter[str]()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code
        name = f"{code.co_filename.rpartition('dragoman/')[2]}:{code.co_firstlineno} {code.co_qualname}"
        if event == "call":
            self.calls[name] += 1
        elif event == "opcode":
            self.opcodes[name] += 1
        return self.trace


def spent(config: str, request: Callable[[int], BenchRequest]) -> Spent:
    """What the requests after the first few took. The tracer sits in the thread of the gateway."""
    settings = replace(load(config, {}), port=0)
    listening, counts = bind(settings), Spent()
    server = HttpServer(Gateway(settings, AccessLog(lambda line: None)), 1)
    failed = list[int]()

    def send_all() -> None:
        one = request(listening.getsockname()[1])
        connection = HTTPConnection("127.0.0.1", one.port, timeout=60)
        for place in range(WARM + COUNTED):
            if place == WARM:
                server.loop.call_soon_threadsafe(sys.settrace, counts.trace)
            connection.request("POST", one.path, one.body, one.all_headers)
            answer = connection.getresponse()
            answer.read()
            failed.extend([answer.status] if answer.status != 200 else [])
            if place == WARM:  # a tracer sees what begins after it
                counts.opcodes.clear()
                counts.calls.clear()
        server.loop.call_soon_threadsafe(sys.settrace, None)
        server.end_soon()

    async def serve() -> None:
        server.loop.call_later(0.2, threading.Thread(target=send_all).start)
        await server.run(listening)

    with Runner(loop_factory=uvloop.new_event_loop) as runner:
        server.loop = runner.get_loop()
        runner.run(serve())
    if failed:
        raise SystemExit(f"answered with {failed[0]}")
    return counts


def counted(upstream: Upstream, pair: Pair, is_large: bool) -> Spent:
    usual = default_endpoint(pair, WHOLE)
    body = request_body(pair.client, f"{usual.model}:m", WHOLE, large() if is_large else small())
    config = "".join(provider(upstream, name, WHOLE) for name in UPSTREAMS)
    return spent(config, lambda port: BenchRequest(port, usual.path, body))


def show(counts: Spent, most: int) -> None:
    rounds = COUNTED - 1
    files = Counter[str]()
    for name, number in counts.opcodes.items():
        files[name.partition(":")[0]] += number
    for name, number in files.most_common(most):
        print(f"{number / rounds:8.0f}         {name}")
    print("\nbytecodes  calls  function")
    for name, number in counts.opcodes.most_common(most):
        print(f"{number / rounds:8.0f} {counts.calls[name] / rounds:6.1f}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pair", default="", help="client:upstream, to list its functions")
    parser.add_argument("--top", type=int, default=60)
    parser.add_argument("--large", action="store_true", help="the request of 150 kB")
    chosen = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as upstream:
        for pair in PAIRS:
            if chosen.pair in ("", f"{pair.client}:{pair.upstream}"):
                counts = counted(upstream, pair, chosen.large)
                print(f"{sum(counts.opcodes.values()) / (COUNTED - 1):8.0f}  {pair.title}", flush=True)
                if chosen.pair:
                    show(counts, chosen.top)


if __name__ == "__main__":
    main()
