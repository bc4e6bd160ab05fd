"""Feeds a parser, or the routes of a gateway, with so many inputs, and tells what broke."""

from __future__ import annotations

import asyncio
import logging
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any

from msgspec import Struct

from fuzz import hostile, routes
from fuzz.parsers import Target
from gateway.stands import Stand, gateway

SLOWEST = 5.0  # seconds of this process's own time for one input; more is a hang
AT_A_TIME = 32  # requests


class Found(Struct):
    """What came of the inputs of one target. `bugs`: where it broke -> the first input that did."""

    inputs: int = 0
    refused: int = 0
    bugs: dict[str, Any] = {}
    times: Counter[str] = Counter()

    def broke(self, where: str, value: Any) -> None:
        self.bugs.setdefault(where, value)
        self.times[where] += 1


class Hung(BaseException):
    """An input that took too long."""


def fuzz_parser(target: Target, count: int, seed: int) -> Found:
    random, found = Random(f"{seed} {target.name}"), Found(bugs={}, times=Counter())
    for value in islice(target.inputs(random), count):
        found.inputs += 1
        try:
            with _in_time():
                target.read(value, random)
        except target.allowed:
            found.refused += 1
        except (Exception, Hung) as error:
            found.broke(_where(error), value)
    return found


@contextmanager
def _in_time() -> Iterator[None]:
    """Raises Hung in what takes longer."""

    def hung(number: int, frame: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "dragoman" in frame.filename]
    at = f"{frames[-1].filename.rpartition('dragoman/')[2]}:{frames[-1].lineno}" if frames else "the fuzzer"
    return (
        f"hang at {at}" if isinstance(error, Hung) else f"{type(error).__name__} at {at}: {str(error)[:80]}"
    )


def fuzz_routes(inputs: Callable[[Random], Iterator[routes.Sent]], count: int, seed: int) -> Found:
    """Bad requests to a gateway of its own, on a real port."""
    return _fuzz_gateway(routes.PROVIDERS, inputs, count, seed, blameless=True)


def fuzz_upstreams(count: int, seed: int) -> Found:
    """Good requests to a gateway whose upstream answers nonsense."""
    with hostile.hostile(seed) as url:
        return _fuzz_gateway(hostile.configuration(url), hostile.requests, count, seed, blameless=False)


def _fuzz_gateway(
    config: str, inputs: Callable[[Random], Iterator[routes.Sent]], count: int, seed: int, blameless: bool
) -> Found:
    """In the end nothing may be under way, and nothing may have crashed."""
    found, random = Found(bugs={}, times=Counter()), Random(f"{seed} {inputs.__name__}")
    with gateway(config) as stand, _overheard(found):
        asyncio.run(_fire(stand, islice(inputs(random), count), found, seed, blameless))
        for line in stand.lines:
            if '"crash"' in line:
                found.broke(f"crash {line.partition('crash')[2]}", line)
        found.refused = sum(
            isinstance(line["status"], int) and line["status"] >= 400 for line in stand.records
        )
    return found


async def _fire(
    stand: Stand, inputs: Iterator[routes.Sent], found: Found, seed: int, blameless: bool
) -> None:
    """What happens to one input does not depend on how fast others are answered: each has its own random."""
    port = int(stand.url.rpartition(":")[2])

    async def work() -> None:
        for sent in inputs:
            found.inputs += 1
            problem = await routes.fire(port, sent, Random(f"{seed} {found.inputs}"), blameless)
            if problem:
                found.broke(problem[:120], sent.data)

    await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
    until = asyncio.get_running_loop().time() + routes.SLOWEST
    while stand.gateway.access_log.metrics.in_flight:
        if asyncio.get_running_loop().time() > until:
            found.broke("exchanges do not end", stand.gateway.access_log.metrics.in_flight)
            return
        await asyncio.sleep(0.05)


@contextmanager
def _overheard(found: Found) -> Iterator[None]:
    """What the event loop complains about is a bug too."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            found.broke(f"log: {record.getMessage()[:60]}: {error}", "")

    listener, logger = Listener(), logging.getLogger("asyncio")
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
