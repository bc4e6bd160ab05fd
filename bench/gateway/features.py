"""`python -m bench.gateway.features --postgres URL --postmaster PID`: what each feature costs a request.

A gateway for each feature, with all of them on one PostgreSQL. They take turns round by round, the smallest
figure of each counts: CPU of the gateway, and CPU of the database.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.gateway.bodies import request_body, small
from bench.gateway.pairs import PATHS, WHOLE
from bench.gateway.processes import OTHERS, TESTED, cpu_microseconds, free_port, running, wait_for
from bench.gateway.requests import BenchRequest, send
from bench.gateway.upstream import Upstream, serving
from bench.gateway.wrk import load

CONNECTIONS = 16
SESSIONS = 64
KEY = '[keys.k]\nkey = "k"\n'


class Feature(NamedTuple):
    """`settings` of the gateway, the credentials of its provider, and what its client sends in turn."""

    settings: str
    bodies: list[bytes]
    path: str = PATHS["openai-chat"]
    credentials: str = 'api_key = "k"'


class Cost(NamedTuple):
    """Microseconds of CPU for one request."""

    gateway: float
    database: float


def chat(**more: str) -> bytes:
    return json.dumps({**json.loads(request_body("openai-chat", "up:m", WHOLE, small())), **more}).encode()


def responses(store: bool) -> bytes:
    wire = json.loads(request_body("openai-responses", "up:m", WHOLE, small()))
    return json.dumps({**wire, "store": store}).encode()


def features(database: str) -> dict[str, Feature]:
    store, answers = f'[store]\nurl = "{database}"\n' + KEY, PATHS["openai-responses"]
    pool = 'api_keys = ["a", "b", "c", "d", "e"]'
    sessions = [chat(prompt_cache_key=f"session-{number}") for number in range(SESSIONS)]
    return {
        "Chat, forwarded": Feature(KEY, [chat()]),
        "with a rate and a concurrency of its key": Feature(
            store + "requests_per_minute = 100_000_000\nconcurrency = 1000\n", [chat()]
        ),
        "with a budget in tokens": Feature(store + "tokens_per_day = 1_000_000_000_000\n", [chat()]),
        "with a pool of 5 keys, one gateway": Feature(KEY, sessions, credentials=pool),
        "with a pool of 5 keys, sessions shared": Feature(store, sessions, credentials=pool),
        "Responses over Chat, not stored": Feature(store, [responses(store=False)], answers),
        "Responses over Chat, stored": Feature(store, [responses(store=True)], answers),
    }


def configuration(feature: Feature, upstream: Upstream) -> str:
    url = f"{upstream.base('openai-chat', WHOLE)}/v1"
    provider = f'[providers.up]\nprotocol = "openai-chat"\nbase_url = "{url}"\n{feature.credentials}\n'
    return provider + feature.settings


def measured(database: str, postmaster: int, rounds: int, seconds: float) -> dict[str, Cost]:
    os.sched_setaffinity(0, {OTHERS})
    best: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        upstream = stack.enter_context(serving(place))
        started = [
            (name, feature, *start(stack, place, number, feature, upstream))
            for number, (name, feature) in enumerate(features(database).items())
        ]
        for number in range(rounds):
            for name, feature, pid, port in started:
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
                cost = take(place, feature, pid, port, postmaster, seconds)
                before = best.get(name, cost)
                best[name] = Cost(min(cost.gateway, before.gateway), min(cost.database, before.database))
    return best


def start(
    stack: ExitStack, place: Path, number: int, feature: Feature, upstream: Upstream
) -> tuple[int, int]:
    port, file = free_port(), place / f"{number}.toml"
    file.write_text(configuration(feature, upstream))
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(file), "--port", str(port)]
    process = stack.enter_context(running(command, place / f"{number}.out", core=TESTED))
    wait_for(port, 60)
    return process.pid, port


def take(place: Path, feature: Feature, pid: int, port: int, postmaster: int, seconds: float) -> Cost:
    request = BenchRequest(port, feature.path, feature.bodies[0])
    status, answer = send(request)
    assert status == 200, answer
    before = cpu_microseconds(pid), cpu_microseconds(postmaster)
    seen = load(place, request, CONNECTIONS, seconds, feature.bodies[1:])
    spent = cpu_microseconds(pid) - before[0], cpu_microseconds(postmaster) - before[1]
    return Cost(spent[0] / seen.count, spent[1] / seen.count)


def table(costs: dict[str, Cost]) -> Iterator[str]:
    yield "| µs of CPU for one request | gateway | more | PostgreSQL |"
    yield "|---|---:|---:|---:|"
    plain = next(iter(costs.values()))
    for name, cost in costs.items():
        yield f"| {name} | {cost.gateway:.0f} | {cost.gateway - plain.gateway:+.0f} | {cost.database:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL")
    parser.add_argument("--postmaster", required=True, type=int, metavar="PID")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    print("\n".join(table(measured(given.postgres, given.postmaster, given.rounds, given.seconds))))


if __name__ == "__main__":
    main()
