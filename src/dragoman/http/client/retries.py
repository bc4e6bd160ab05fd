"""Upstream failures: how they are read, which are retryable, and how long to wait before a retry.

The kind of failure decides whether to retry; `Retry-After`, else a backoff with jitter, decides when.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime

from dragoman.core.codec import Codec, OutgoingRequest
from dragoman.core.errors import UpstreamError
from dragoman.core.failures import bounded_wait, read_error_body
from dragoman.core.model import Failure, FailureKind
from dragoman.core.transport import (
    ConnectFailed,
    CredentialFailed,
    Reply,
    TimedOut,
    Timeouts,
    Transport,
    TransportError,
)

_LARGEST_ERROR = 1024 * 1024  # bytes of an error body that are read
RETRYABLE: frozenset[FailureKind] = frozenset({"rate_limit", "server", "overloaded", "timeout", "truncated"})


def read_failure(codec: Codec, status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """The failure in an error reply, whatever its body looks like."""
    failure = read_error_body(codec.decode_error, status, body)
    wait = retry_after(headers)
    if failure.retry_after is None and wait is not None:
        failure = Failure(failure.kind, failure.message, failure.status, failure.code, wait)
    return failure


async def send_once(
    transport: Transport, codec: Codec, name: str, request: OutgoingRequest, timeouts: Timeouts
) -> Reply | Failure:
    """The reply of the provider `name`, or how it failed."""
    try:
        reply = await transport.send(request.method, request.url, request.headers, request.body, timeouts)
    except TransportError as error:
        return unreachable(name, error)
    if reply.status < 400:
        return reply
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    return read_failure(codec, reply.status, body, reply.headers)


async def send_with_retries(
    attempt: Callable[[], Awaitable[Reply | Failure]],
    tries: int,
    is_too_long: Callable[[float], bool] = lambda wait: False,
) -> Reply:
    """Raises UpstreamError after `tries` attempts, for a failure that no retry helps, and where the wait
    before the next attempt is too long."""
    for number in range(tries):
        outcome = await attempt()
        if not isinstance(outcome, Failure):
            return outcome
        wait = backoff(number, outcome.retry_after)
        if outcome.kind not in RETRYABLE or number == tries - 1 or is_too_long(wait):
            raise UpstreamError(outcome)
        await asyncio.sleep(wait)
    raise AssertionError("there is at least one try")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from either form of the header: a number or an HTTP date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if value := headers.get(name):
            try:
                return bounded_wait(float(value) * scale)
            except ValueError:
                continue
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        return bounded_wait(date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def backoff(attempt: int, retry_after: float | None) -> float:
    """Seconds before attempt number `attempt` + 1, at most 30. `retry_after`: what the upstream requests."""
    if retry_after is not None:
        return min(retry_after, 30.0)
    return min(0.25 * 2**attempt, 8.0) * random.uniform(0.5, 1.0)


def unreachable(name: str, error: TransportError) -> Failure:
    """The failure of an upstream that gave no reply."""
    match error:
        case ConnectFailed():
            return Failure("overloaded", f"Provider {name!r} is not reachable: {error}", 503)
        case CredentialFailed():
            return Failure("overloaded", f"Provider {name!r}: {error}", 503)
        case TimedOut():
            return Failure("timeout", f"Provider {name!r}: {error}", 504)
        case _:
            return Failure("server", f"Provider {name!r}: {error}", 502)
