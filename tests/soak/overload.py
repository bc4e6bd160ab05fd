"""Four times as many requests as a gateway can take: who is not served is turned away, and nobody hangs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dragoman.http.client import Client, IdleConnections
from soak import processes
from soak.accounts import read_journal, statuses
from soak.clients import Outcome, perform
from soak.plans import PROVIDERS, Plan, good
from soak.processes import Process
from soak.running import run, settle

PAUSE = 0.2  # seconds that the upstream takes for each answer
ROOM = 20  # exchanges at a time; as many more may wait
SHARE = ROOM // len(PROVIDERS)
TOO_MUCH = 4
SHED = (429, 503, 529)
LEAST = 0.5  # of what was done without the rush must be done in it, by a machine that may have other work


class Limited(Struct, frozen=True):
    """A way to give a gateway room for ROOM exchanges."""

    name: str
    limits: str = ""
    each: str = ""


WAYS = (
    Limited("limits.in_flight", limits=f"in_flight = {ROOM}\nqueue = {ROOM}\nqueue_seconds = 5"),
    Limited(
        "max_concurrency of each provider",
        each=f"max_concurrency = {SHARE}\nqueue = {SHARE}\nqueue_seconds = 5",
    ),
)


class Overloaded(Struct, frozen=True, kw_only=True):
    way: str
    capacity: float  # exchanges a second, measured with as many at a time as there is room for
    outcomes: list[Outcome]
    seconds: float
    busiest: int
    slowest: dict[str, float]  # what -> seconds, of 99 in 100
    afterwards: list[Outcome]
    problems: list[str]

    @property
    def answered(self) -> float:
        """Each second."""
        return sum(outcome.what == "answered" for outcome in self.outcomes) / self.seconds


def overload(way: Limited, seconds: float, folder: Path) -> Overloaded:
    with (
        processes.upstream(PAUSE) as upstream,
        processes.gateway(folder, upstream, way.limits, way.each) as gateway,
    ):
        calm, capacity = asyncio.run(_calm(gateway))
        timed, took = asyncio.run(_rush(gateway, capacity * TOO_MUCH, seconds))
        problems = settle(gateway, upstream)
        busiest = processes.asked(upstream)["busiest"]
        afterwards = asyncio.run(run(good(60, first=100_000), gateway.url, len(PROVIDERS)))
        problems += settle(gateway, upstream)
        metrics = processes.metrics(gateway)
    outcomes = [outcome for outcome, _ in timed]
    times = {
        what: sorted(each for outcome, each in timed if outcome.what == what)
        for what in ("answered", "refused")
    }
    found = Overloaded(
        way=way.name,
        capacity=capacity,
        outcomes=outcomes,
        seconds=took,
        busiest=busiest,
        slowest={what: each[len(each) * 99 // 100] if each else 0.0 for what, each in times.items()},
        afterwards=afterwards,
        problems=problems,
    )
    stories = [
        Counter(str(outcome.status) for outcome in [*calm, *outcomes, *afterwards]),
        Counter(str(line["status"]) for line in read_journal(folder / "journal")),
        statuses(metrics),
    ]
    return replace(found, problems=[*problems, *wrong(found), *_differing(stories)])


async def _calm(gateway: Process) -> tuple[list[Outcome], float]:
    """No more than there is room for, and how many of them a second."""
    first = await run(good(ROOM * 2, first=200_000), gateway.url, SHARE)  # of what is made once and kept
    began = time.perf_counter()
    outcomes = await run(good(ROOM * 5, first=300_000), gateway.url, ROOM)
    answered = sum(outcome.what == "answered" for outcome in outcomes)
    return first + outcomes, answered / (time.perf_counter() - began)


async def _rush(gateway: Process, rate: float, seconds: float) -> tuple[list[tuple[Outcome, float]], float]:
    """Requests at a steady rate, whatever becomes of them."""
    client = Client(IdleConnections(1000))
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def one(number: int, plan: Plan) -> tuple[Outcome, float]:
        await asyncio.sleep(began + number / rate - loop.time())
        at = time.perf_counter()
        return await perform(plan, client, gateway.url), time.perf_counter() - at

    prompts = enumerate(good(int(rate * seconds)))
    timed = await asyncio.gather(*(one(number, plan) for number, plan in prompts))
    took = loop.time() - began
    await client.close()
    return timed, took


def wrong(found: Overloaded) -> Iterator[str]:
    """Everyone is served, or turned away with a time to come back; the upstream gets no more than it may."""
    for outcome in found.outcomes:
        turned_away = outcome.what == "refused" and outcome.status in SHED and outcome.retry_after
        if outcome.what != "answered" and not turned_away:
            yield f"{found.way}: {outcome.what} {outcome.status} {outcome.note}"
    if not any(outcome.what == "refused" for outcome in found.outcomes):
        yield f"{found.way}: nobody was turned away"
    if found.busiest > ROOM:
        yield f"{found.way}: {found.busiest} at a time reached the upstream, of {ROOM}"
    if found.answered < LEAST * found.capacity:
        yield f"{found.way}: only {found.answered:.0f} answers a second, of {found.capacity:.0f}"
    for outcome in found.afterwards:
        if outcome.what != "answered":
            yield f"{found.way}: afterwards {outcome.what} {outcome.status} {outcome.note}"


def _differing(stories: list[Counter[str]]) -> Iterator[str]:
    if stories[0] != stories[1] or stories[1] != stories[2]:
        yield f"the clients, the journal and the metrics differ: {[dict(story) for story in stories]}"
