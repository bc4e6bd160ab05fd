"""The three parts of a soak. Each gives what it measured and what was wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from soak import accounts, idle, processes
from soak.clients import Outcome
from soak.plans import FAULTS, good, plans, socket_plans
from soak.processes import Process, Vitals, vitals
from soak.running import run, settle

# What may come on top of the warm-up's, from there to the end
MEMORY = 8.0  # MB: less than half a kB for each exchange of a whole soak; an allocator is never quite still
HANDLES = 1  # files and sockets: the connection that asks may be closing just now


class Stage(Struct, frozen=True):
    """How both processes were at one moment."""

    name: str
    gateway: Vitals
    upstream: float  # MB


class Mixed(Struct, frozen=True, kw_only=True):
    outcomes: list[Outcome]
    stages: list[Stage]
    seconds: float
    lines: int
    counted: int
    tries: int
    asked: int
    problems: list[str]


def mixed(
    count: int,
    at_a_time: int,
    seed: int,
    folder: Path,
    faults: tuple[str, ...] = FAULTS,
    timeout: float = 6,
    tell: Callable[[str], object] = str,
) -> Mixed:
    """Exchanges of every kind; nothing may grow from the end of the warm-up (a tenth) to the end."""
    with processes.upstream() as upstream, processes.gateway(folder, upstream, timeout=timeout) as gateway:
        stages = [_stage("start", gateway, upstream)]
        outcomes: list[Outcome] = []
        problems: list[str] = []
        began, done = time.perf_counter(), 0
        for name, share in (("warm-up", 0.1), ("half", 0.5), ("end", 1.0)):
            part = int(count * share) - done
            exchanges = plans(part, seed + done, done, faults)
            sockets = socket_plans(part // 8, seed + done, done, faults)
            outcomes += asyncio.run(run(exchanges, gateway.url, at_a_time, sockets))
            done += part
            problems += settle(gateway, upstream)
            stages.append(_stage(name, gateway, upstream))
            tell(f"{name}: {len(outcomes):,} exchanges, {time.perf_counter() - began:.0f} s")
        seconds = time.perf_counter() - began
        metrics, asked = processes.metrics(gateway), processes.asked(upstream)["asked"]
    journal = accounts.read_journal(folder / "journal")
    problems += accounts.disagreements(outcomes, journal, metrics, asked)
    return Mixed(
        outcomes=outcomes,
        stages=stages,
        seconds=seconds,
        lines=len(journal),
        counted=accounts.total(metrics, "dragoman_requests_total"),
        tries=accounts.total(metrics, "dragoman_tries_total"),
        asked=sum(asked.values()),
        problems=problems + growth(stages),
    )


def _stage(name: str, gateway: Process, upstream: Process) -> Stage:
    return Stage(name, vitals(gateway), processes.memory(upstream.pid))


def growth(stages: list[Stage]) -> list[str]:
    _, warm, *_, end = [stage.gateway for stage in stages]
    grown = {
        "memory, MB": (end.memory - warm.memory, MEMORY),
        "open files": (end.files - warm.files, HANDLES),
        "sockets": (end.sockets - warm.sockets, HANDLES),
        "connections that are counted and not there": (warm.sockets - end.sockets, HANDLES),
        "tasks": (end.tasks - warm.tasks, 0),
    }
    return [f"{what}: {more:+g}" for what, (more, most) in grown.items() if more > most]


class Held(Struct, frozen=True):
    limit: idle.Limit
    held: int
    each: float  # kB
    seconds: float
    outcomes: list[Outcome]
    problems: list[str]


def idle_connections(count: int, exchanges: int, folder: Path) -> Held:
    limit = idle.allowed(count)
    with processes.upstream() as upstream, processes.gateway(folder, upstream) as gateway:
        return asyncio.run(_hold(limit, exchanges, gateway, upstream))


async def _hold(limit: idle.Limit, exchanges: int, gateway: Process, upstream: Process) -> Held:
    await run(good(40), gateway.url, 8)
    before = processes.memory(gateway.pid)
    began = time.perf_counter()
    connections = await idle.hold(gateway, limit.connections)
    each = (processes.memory(gateway.pid) - before) * 1024 / limit.connections
    outcomes = await run(good(exchanges, 1000), gateway.url, 8)
    held = sum(connection.open for connection in connections)
    seconds = time.perf_counter() - began
    for connection in connections:
        connection.transport.close()
    problems = [f"{outcome.what}: {outcome.note}" for outcome in outcomes if outcome.what != "answered"]
    if held < limit.connections:
        problems.append(f"{limit.connections - held} idle connections were closed")
    return Held(limit, held, each, seconds, outcomes, problems + settle(gateway, upstream))
