"""`python -m bench.gateway.recording`: what recording every exchange for the inspector adds to a request.

Two gateways run side by side, one with `[inspector] enabled`; they take turns, and the smallest CPU time per
request of each is compared. CPU time includes the recorder's own thread.
"""

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

from bench.gateway.bodies import large, request_body, small
from bench.gateway.contenders.base import default_endpoint
from bench.gateway.contenders.ours import DRAGOMAN
from bench.gateway.pairs import ANTHROPIC_CHAT, CHAT_CHAT, STREAM, WHOLE, Kind, Pair
from bench.gateway.processes import cpu_microseconds, free_port, memory_kb, running, wait_for
from bench.gateway.requests import BenchRequest
from bench.gateway.upstream import Upstream, serving

CASES: tuple[tuple[str, Pair, Kind, bool], ...] = (
    ("forwarded", CHAT_CHAT, WHOLE, False),
    ("translated", ANTHROPIC_CHAT, WHOLE, False),
    ("translated stream", ANTHROPIC_CHAT, STREAM, False),
    ("forwarded, 150 kB", CHAT_CHAT, WHOLE, True),
    ("translated, 150 kB", ANTHROPIC_CHAT, WHOLE, True),
)
INSPECTOR = "[inspector]\nenabled = true\n"
SETTLE_SECONDS = 0.4  # the recorder works on after the last reply


def request_to(port: int, pair: Pair, kind: Kind, is_large: bool) -> BenchRequest:
    usual = default_endpoint(pair, kind)
    body = request_body(pair.client, f"{usual.model}:m", kind, large() if is_large else small())
    return BenchRequest(port, usual.path, body)


def cpu_per_request(pid: int, one: BenchRequest, count: int) -> float:
    connection = HTTPConnection("127.0.0.1", one.port, timeout=60)
    before = cpu_microseconds(pid)
    for _ in range(count):
        connection.request("POST", one.path, one.body, one.all_headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"answered with {answer.status}")
    time.sleep(SETTLE_SECONDS)
    connection.close()
    return (cpu_microseconds(pid) - before) / count


def started(stack: ExitStack, place: Path, upstream: Upstream, inspector: str) -> tuple[int, int]:
    """Port and process of a gateway."""
    place.mkdir()
    port = free_port()
    start = DRAGOMAN.start(place, port, upstream)
    config = place / "dragoman.toml"
    config.write_text(inspector + config.read_text())
    process = stack.enter_context(running(start.command, place / "log", start.env))
    wait_for(port)
    return port, process.pid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=400)
    chosen = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        upstream = stack.enter_context(serving(place))
        gateways = [started(stack, place / str(len(text)), upstream, text) for text in ("", INSPECTOR)]
        print(f"{'':22}{'off':>8}{'on':>8}   µs of CPU per request")
        for title, pair, kind, is_large in CASES:
            best = [float("inf"), float("inf")]
            for _ in range(chosen.rounds):
                for index, (port, pid) in enumerate(gateways):
                    spent = cpu_per_request(pid, request_to(port, pair, kind, is_large), chosen.requests)
                    best[index] = min(best[index], spent)
            off, on = best
            print(f"{title:22}{off:8.0f}{on:8.0f}   {on / off - 1:+.0%}", flush=True)
        print("memory", *[f"{memory_kb(pid) // 1024} MB" for _, pid in gateways])


if __name__ == "__main__":
    main()
