"""One upstream call: send, judge the answer, and say whether another try makes sense.

Retries happen only before the first byte has reached the client. What is retryable is told by the
status; how long to wait by `Retry-After`, else by a backoff with jitter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.failures import kind_of
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure
from dragoman.gateway.routing import Target
from dragoman.protocols import codec
from dragoman.transport import ConnectFailed, Reply, TimedOut, Transport, TransportError

LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_RETRYABLE = frozenset({"rate_limit", "server", "overloaded", "timeout", "truncated"})


class Refused(Exception):
    """The upstream gave no answer that a client could use; `retry` says whether it may later."""

    def __init__(self, failure: Failure, retry: bool, reachable: bool = True) -> None:
        self.failure, self.retry, self.reachable = failure, retry, reachable
        super().__init__(failure.message)


class Call(Struct, frozen=True):
    """What goes to an upstream."""

    target: Target
    path: str
    headers: dict[str, str]
    body: bytes


async def send(transport: Transport, call: Call, client_key: str) -> Reply:
    """The answer of the upstream, if it is one; otherwise raises Refused."""
    provider = call.target.provider
    speaker = codec(provider.protocol)
    key = client_key if provider.passthrough else provider.api_key
    headers = {**call.headers, **(speaker.http.auth(key) if key else {}), **provider.headers}
    try:
        reply = await transport.send(
            "POST", provider.base_url.rstrip("/") + call.path, headers, call.body, provider.timeouts
        )
    except TransportError as error:
        raise Refused(_unreachable(provider.name, error), retry=True, reachable=False) from error
    if reply.status < 400:
        return reply
    raise await _refusal(reply, speaker)


async def _refusal(reply: Reply, speaker: Codec) -> Refused:
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    failure = read_failure(speaker, reply.status, body, reply.headers)
    return Refused(failure, retry=failure.kind in _RETRYABLE)


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


def _unreachable(name: str, error: TransportError) -> Failure:
    match error:
        case ConnectFailed():
            return Failure("overloaded", f"provider {name} is not reachable: {error}", 503)
        case TimedOut():
            return Failure("timeout", f"provider {name}: {error}", 504)
        case _:
            return Failure("server", f"provider {name}: {error}", 502)
