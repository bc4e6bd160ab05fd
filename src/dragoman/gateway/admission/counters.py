"""Requests per minute and concurrency of each key, counted in this process.

The rate limit is GCRA: a bucket that holds a minute's worth of requests and refills evenly, kept as one
number, the time at which it is full again. That number is all that processes have to share. The workers of a
host (host_counters) and gateways on one database (postgres_counters) count by the same two methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.gateway.admission.authentication import Caller

MINUTE = 60.0
_EPSILON = 1e-6  # seconds; sums of fractions are not exact


class RateLimitState(Struct, frozen=True):
    """In seconds: `wait` until a request may come, 0 where this one may; `reset` until the bucket is full."""

    wait: float
    remaining: int
    reset: float


class Decision(Struct, frozen=True):
    """Why a request is refused; empty: it is not. `rate` is there where the key has a rate limit."""

    refused: Literal["", "rate", "concurrency"] = ""
    rate: RateLimitState | None = None


class Counters(Protocol):
    """`lease` identifies an exchange, which counts until it leaves. `rated`: also against the rate limit."""

    async def enter(self, caller: Caller, lease: str, rated: bool) -> Decision: ...

    def leave(self, caller: Caller, lease: str) -> None: ...

    async def close(self) -> None: ...


class ProcessCounters:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now

    async def enter(self, caller: Caller, lease: str, rated: bool) -> Decision:
        allowance = caller.allowance
        if 0 < allowance.concurrency <= caller.inside:
            return Decision("concurrency")
        rate = None
        if rated and allowance.requests_per_minute:
            caller.full_at, rate = take(caller.full_at, self._now(), allowance.requests_per_minute)
            if rate.wait:
                return Decision("rate", rate)
        caller.inside += 1
        return Decision("", rate)

    def leave(self, caller: Caller, lease: str) -> None:
        caller.inside -= 1

    async def close(self) -> None:
        """Holds no resource."""


def take(full_at: float, now: float, per_minute: int) -> tuple[float, RateLimitState]:
    """One request at `now`: the new `full_at`, and whether the request may pass."""
    each = MINUTE / per_minute
    after = max(full_at, now) + each
    wait = after - now - MINUTE
    if wait > _EPSILON:
        return full_at, RateLimitState(wait, 0, full_at - now)
    return after, rate_of(after - now, per_minute)


def rate_of(reset: float, per_minute: int) -> RateLimitState:
    """The state of a bucket that is full in `reset` seconds."""
    return RateLimitState(0.0, int((MINUTE - reset + _EPSILON) * per_minute / MINUTE), reset)
