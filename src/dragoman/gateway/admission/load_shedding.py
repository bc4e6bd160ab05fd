"""The failures of requests that are refused before any work, with the time after which to retry."""

from __future__ import annotations

import random
import time

from dragoman.core.model import Failure
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.counters import Decision
from dragoman.gateway.admission.semaphore import QueuedSemaphore
from dragoman.gateway.request import AttemptFailed
from dragoman.http.server import Headers, MemoryFull
from dragoman.serving.server import ProtocolServer, RateLimitStatus


class LoadShed(AttemptFailed):
    """`ExchangeRecord.shed` says which limit it was, for the access log and the metrics."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure, retry=True)  # another target may have room


def over_limit(caller: Caller, decision: Decision) -> LoadShed:
    allowance, where = caller.allowance, f"for the key {caller.name!r}" if caller.name else "here"
    if decision.rate and decision.refused == "rate":
        wait = decision.rate.wait
        problem = f"at most {allowance.requests_per_minute} requests a minute {where}; again in {wait:.1f} s"
        return LoadShed(Failure("rate_limit", problem, 429, retry_after=wait))
    problem = f"at most {allowance.concurrency} requests at a time {where}. Wait until one has ended"
    return LoadShed(Failure("rate_limit", problem, 429, retry_after=_soon()))


def quota_headers(caller: Caller, decision: Decision, server: ProtocolServer) -> Headers:
    """The rate limit headers that the client's SDK reads."""
    if not (rate := decision.rate):
        return []
    quota = RateLimitStatus(caller.allowance.requests_per_minute, rate.remaining, rate.reset, time.time())
    return [(name.encode(), value.encode()) for name, value in server.encode_quota(quota).items()]


def gateway_busy(semaphore: QueuedSemaphore) -> LoadShed:
    return LoadShed(_describe_overload("the gateway", semaphore))


def memory_full() -> LoadShed:
    return LoadShed(Failure("overloaded", str(MemoryFull()), 503, retry_after=_soon()))


def provider_busy(name: str, semaphore: QueuedSemaphore) -> LoadShed:
    return LoadShed(_describe_overload(f"the provider {name}", semaphore))


def _describe_overload(who: str, semaphore: QueuedSemaphore) -> Failure:
    held, waiting = semaphore.held, semaphore.waiting
    problem = f"{who} is busy: {held} requests are running and {waiting} are waiting. Try again soon"
    return Failure("overloaded", problem, 503, retry_after=_soon())


def _soon() -> float:
    """Seconds, with jitter, so that clients do not retry together."""
    return round(1 + random.random(), 3)
