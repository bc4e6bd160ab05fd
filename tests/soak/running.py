"""Many exchanges at a time, and a wait for what is left of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import count, cycle

from dragoman.http.client import Client, IdleConnections
from soak.clients import Outcome, perform
from soak.plans import CLIENTS, PROVIDERS, Plan, next_turn
from soak.processes import Process, asked, metrics
from soak.sockets import converse

_TURN = 1_000_000  # the second turn of exchange N is number N + _TURN
_NUMBERS = count(10_000_000)  # of those who keep others company
_PAUSE = 0.2  # seconds


async def run(plans: Iterable[Plan], url: str, at_a_time: int, sockets: Iterable[Plan] = ()) -> list[Outcome]:
    """All of them, and a second turn for calls of which somebody has a result. A quarter as many WebSocket
    connections play `sockets` beside them."""
    outcomes: list[Outcome] = []
    client, waiting = Client(IdleConnections(at_a_time)), iter(plans)

    async def work() -> None:
        for plan in waiting:
            outcome = await perform(plan, client, url)
            outcomes.append(outcome)
            again = next_turn(plan, plan.number + _TURN, outcome.reply) if outcome.reply else None
            if again:
                outcomes.append(await perform(again, client, url))

    sessions = iter(sockets)
    workers = [asyncio.ensure_future(work()) for _ in range(at_a_time)]
    workers += [
        asyncio.ensure_future(converse(sessions, url, outcomes)) for _ in range(max(1, at_a_time // 4))
    ]
    await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
    while not all(worker.done() for worker in workers):
        outcomes += await asyncio.gather(*(perform(plan, client, url) for plan in company()))
        await asyncio.wait(workers, timeout=_PAUSE)
    await asyncio.gather(*workers)
    await client.close()
    return outcomes


def company() -> list[Plan]:
    """A good exchange with each provider, so that who waits for one that hangs is not the last: to the
    gateway, a provider that only times out is down."""
    return [
        Plan(number=next(_NUMBERS), client=client, provider=provider, stream=False, calls=False)
        for client, provider in zip(cycle(CLIENTS), PROVIDERS, strict=False)
    ]


def settle(gateway: Process, upstream: Process, seconds: float = 30.0) -> list[str]:
    """Wait until nothing is under way on either side; what still is after that is a leak."""
    until = time.monotonic() + seconds
    while True:
        in_flight = metrics(gateway)["dragoman_in_flight", ()]
        under_way = asked(upstream)["under_way"]
        if not in_flight and not under_way:
            return []
        if time.monotonic() > until:
            return [f"under way after the end: {in_flight:g} in the gateway, {under_way} in the upstream"]
        time.sleep(0.1)
