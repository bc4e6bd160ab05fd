"""`python -m bench.gateway.features --postgres URL --postmaster PID`: what each feature costs a request.

A gateway for each feature, with all of them on one PostgreSQL. They take turns round by round, the smallest
figure of each counts: CPU of the gateway, and CPU of the database. `--replicas 3`: what a request costs at
as many gateways that are not full, beside one that is as busy as each of them, and beside one with all the
clients.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.gateway.bodies import request_body, small
from bench.gateway.pairs import PATHS, WHOLE
from bench.gateway.processes import OTHERS, TESTED, cpu_microseconds, free_port, running, wait_for
from bench.gateway.requests import BenchRequest, send
from bench.gateway.upstream import Upstream, serving
from bench.gateway.wrk import Seen, load

CONNECTIONS = 16
PAUSE = (
    60  # milliseconds between two requests of a connection, where gateways are compared: 260 a second each
)
SESSIONS = 64
KEY = '[keys.k]\nkey = "k"\n'


class Feature(NamedTuple):
    """`settings` of the gateway, the credentials of its provider, and what its client sends in turn."""

    settings: str
    bodies: list[bytes]
    path: str = PATHS["openai-chat"]
    credentials: str = 'api_key = "k"'


class Gateway(NamedTuple):
    """`folder`: what it and its load write."""

    pid: int
    port: int
    folder: Path


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


def measured(
    database: str, postmaster: int, rounds: int, seconds: float, replicas: int
) -> dict[str, list[Cost]]:
    """At one gateway that is full; and where there are replicas, at all of them, at one that is as busy as
    each of them, and at one with the clients of all."""
    os.sched_setaffinity(0, {OTHERS})
    best: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        upstream = stack.enter_context(serving(place))
        started = [
            (name, feature, [start(stack, place, feature, upstream) for _ in range(replicas)])
            for name, feature in features(database).items()
        ]
        for number in range(rounds):
            for name, feature, gateways in started:
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
                costs = [take(feature, gateways[:1], CONNECTIONS, postmaster, seconds)]
                if replicas > 1:
                    compared = (
                        (gateways, CONNECTIONS),
                        (gateways[:1], CONNECTIONS),
                        (gateways[:1], CONNECTIONS * replicas),
                    )
                    costs += [take(feature, *each, postmaster, seconds, PAUSE) for each in compared]
                before = best.get(name, costs)
                best[name] = [*map(smallest, costs, before)]
    return best


def smallest(one: Cost, other: Cost) -> Cost:
    return Cost(min(one.gateway, other.gateway), min(one.database, other.database))


def start(stack: ExitStack, place: Path, feature: Feature, upstream: Upstream) -> Gateway:
    port = free_port()
    folder = place / str(port)
    folder.mkdir()
    file = folder / "dragoman.toml"
    file.write_text(configuration(feature, upstream))
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(file), "--port", str(port)]
    process = stack.enter_context(running(command, folder / "out", core=TESTED))
    wait_for(port, 60)
    return Gateway(process.pid, port, folder)


def take(
    feature: Feature,
    gateways: Sequence[Gateway],
    connections: int,
    postmaster: int,
    seconds: float,
    pause: int = 0,
) -> Cost:
    """`connections` to each of the gateways, at the same time."""
    for gateway in gateways:
        status, answer = send(BenchRequest(gateway.port, feature.path, feature.bodies[0]))
        assert status == 200, answer

    def ask(gateway: Gateway) -> Seen:
        request = BenchRequest(gateway.port, feature.path, feature.bodies[0])
        return load(gateway.folder, request, connections, seconds, feature.bodies[1:], pause)

    pids = [gateway.pid for gateway in gateways]
    before = sum(map(cpu_microseconds, pids)), cpu_microseconds(postmaster)
    with ThreadPoolExecutor(len(gateways)) as pool:
        count = sum(seen.count for seen in pool.map(ask, gateways))
    spent = sum(map(cpu_microseconds, pids)) - before[0], cpu_microseconds(postmaster) - before[1]
    return Cost(spent[0] / count, spent[1] / count)


def table(costs: dict[str, list[Cost]], replicas: int) -> Iterator[str]:
    several = f" {replicas} gateways | … that share its clients |" * (replicas > 1)
    yield f"| µs of CPU for one request | gateway | more | PostgreSQL |{several}"
    yield "|---|---:|---:|---:|" + "---:|---:|" * (replicas > 1)
    plain = next(iter(costs.values()))[0]
    for name, (one, *rest) in costs.items():
        ratios = ""
        if rest:
            ratios = "".join([f" {rest[0].gateway / each.gateway:.2f} × |" for each in rest[1:]])
        more = one.gateway - plain.gateway
        yield f"| {name} | {one.gateway:.0f} | {more:+.0f} | {one.database:.0f} |{ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL")
    parser.add_argument("--postmaster", required=True, type=int, metavar="PID")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--replicas", type=int, default=1)
    given = parser.parse_args()
    costs = measured(given.postgres, given.postmaster, given.rounds, given.seconds, given.replicas)
    print("\n".join(table(costs, given.replicas)))


if __name__ == "__main__":
    main()
