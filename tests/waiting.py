"""Waiting in tests, and clocks that stand still: the one place where tests look at the time.

A busy machine may take long for anything. So a test waits until something holds and never measures how long
that took. LONG is the limit for what never happens. Where nothing may wait, the wait would be NEVER.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONG = 120.0  # seconds
NEVER = 86_400.0  # seconds: a wait that no test can sit out


def wait_until(holds: Callable[[], T], what: str = "it did not happen") -> T:
    """What `holds` gives as soon as that is true."""
    until = time.monotonic() + LONG
    while not (value := holds()):
        assert time.monotonic() < until, what
        time.sleep(0.005)
    return value


def finish(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What `function` gives; the test fails where it does not come to an end."""
    got: list[Any] = []

    def work() -> None:
        try:
            got.append((function(*args, **named), None))
        except BaseException as error:
            got.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONG)
    assert got, "it does not come to an end"
    value, error = got[0]
    if error:
        raise error
    return value


class StillClock:
    """A clock that only `sleep` moves."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now, self.slept = now, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
