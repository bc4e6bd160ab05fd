"""What a key has under way and how fast it asks, counted in this process.

Workers of one host and replicas of a gateway count elsewhere, by the same two methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.gateway.admission.callers import Caller
from dragoman.gateway.admission.rate_limit import RateLimitState, take


class Decision(Struct, frozen=True):
    """Whether a request may pass, and if not, why. `rate` is known where the key has one."""

    refused: Literal["", "rate", "concurrency"] = ""
    rate: RateLimitState | None = None


class Counters(Protocol):
    """`lease` names an exchange; one that may pass counts until it leaves. `rated`: against the rate, too."""

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
        """Nothing is open."""
