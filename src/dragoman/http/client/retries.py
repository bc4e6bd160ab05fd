"""How an upstream says no, and whether and when to ask again.

What is retryable is told by the kind of failure; how long to wait by `Retry-After`, else by a backoff
with jitter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.failures import kind_of
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, FailureKind
from dragoman.core.transport import ConnectFailed, TimedOut, TransportError

RETRYABLE: frozenset[FailureKind] = frozenset({"rate_limit", "server", "overloaded", "timeout", "truncated"})


def read_failure(speaker: Codec, status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an error answer says, whatever its body looks like."""
    failure = None
    try:
        value = jsontext.decode(body)
        value = value[0] if is_array(value) and len(value) == 1 else value
        failure = speaker.decode_error(value, status) if is_object(value) else None
    except ValueError:
        pass
    if failure is None:
        text = body[:500].decode("utf-8", "replace").strip()
        failure = Failure(
            kind_of(status), f"the upstream answered {status}{': ' + text if text else ''}", status
        )
    wait = retry_after(headers)
    if failure.retry_after is None and wait is not None:
        failure = Failure(failure.kind, failure.message, failure.status, failure.code, wait)
    return failure


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; the other form of the header, a date, is left to the backoff."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(float(headers[name]) * scale, 0.0)
        except (KeyError, ValueError):
            continue
    return None


def backoff(attempt: int, asked: float | None) -> float:
    """Seconds before try number `attempt` + 1; nobody waits longer than half a minute."""
    if asked is not None:
        return min(asked, 30.0)
    return min(0.25 * 2**attempt, 8.0) * random.uniform(0.5, 1.0)


def unreachable(name: str, error: TransportError) -> Failure:
    """The failure that stands for an upstream which gave no answer."""
    match error:
        case ConnectFailed():
            return Failure("overloaded", f"provider {name} is not reachable: {error}", 503)
        case TimedOut():
            return Failure("timeout", f"provider {name}: {error}", 504)
        case _:
            return Failure("server", f"provider {name}: {error}", 502)
