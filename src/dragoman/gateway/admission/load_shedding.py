"""What a client is told whose request is not taken: why, in its protocol's words, and when to come back."""

from __future__ import annotations

import random
import time

from dragoman.core.model import Failure
from dragoman.core.server import ProtocolServer, RateLimitStatus
from dragoman.gateway.admission.callers import Caller
from dragoman.gateway.admission.counters import Decision
from dragoman.gateway.admission.semaphore import QueuedSemaphore
from dragoman.gateway.upstreams.sending import AttemptFailed
from dragoman.http.server import Headers


class LoadShed(AttemptFailed):
    """Refused before anything was done for it. `reason` is what the log and the metrics call it."""

    def __init__(self, reason: str, failure: Failure) -> None:
        super().__init__(failure, retry=True)  # another target may have room
        self.reason = reason


def over_limit(caller: Caller, verdict: Decision) -> LoadShed:
    """A key beyond what it may do."""
    allowance, where = caller.allowance, f"for the key {caller.name!r}" if caller.name else "here"
    if verdict.rate and verdict.refused == "rate":
        wait = verdict.rate.wait
        problem = f"at most {allowance.requests_per_minute} requests a minute {where}; again in {wait:.1f} s"
        return LoadShed("rate", Failure("rate_limit", problem, 429, retry_after=wait))
    problem = f"at most {allowance.concurrency} requests at a time {where}, and so many are under way"
    return LoadShed("concurrency", Failure("rate_limit", problem, 429, retry_after=_soon()))


def quota_headers(caller: Caller, verdict: Decision, serves: ProtocolServer) -> Headers:
    """What is left to a key, as the client's SDK reads it."""
    if not (rate := verdict.rate):
        return []
    quota = RateLimitStatus(caller.allowance.requests_per_minute, rate.remaining, rate.reset, time.time())
    return [(name.encode(), value.encode()) for name, value in serves.encode_quota(quota).items()]


def gateway_busy(door: QueuedSemaphore) -> LoadShed:
    return LoadShed("gateway", _overloaded("the gateway", door))


def provider_busy(name: str, gate: QueuedSemaphore) -> LoadShed:
    return LoadShed("provider", _overloaded(f"the provider {name}", gate))


def _overloaded(who: str, gate: QueuedSemaphore) -> Failure:
    problem = f"{who} is busy: {gate.inside} requests are under way and {gate.waiting} wait; try again soon"
    return Failure("overloaded", problem, 503, retry_after=_soon())


def _soon() -> float:
    """Seconds; not the same for everybody, so that they do not come back together."""
    return round(1 + random.random(), 3)
