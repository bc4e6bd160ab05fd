"""One upstream call: send, judge the answer, and say whether another try makes sense.

Retries happen only before the first byte has reached the client.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.codec import Codec
from dragoman.core.model import Failure
from dragoman.gateway.routing import Target
from dragoman.protocols import codec
from dragoman.transport import Reply, Transport, TransportError
from dragoman.transport.retries import RETRYABLE, read_failure, unreachable

LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024


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
        raise Refused(unreachable(provider.name, error), retry=True, reachable=False) from error
    if reply.status < 400:
        return reply
    raise await _refusal(reply, speaker)


async def _refusal(reply: Reply, speaker: Codec) -> Refused:
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    failure = read_failure(speaker, reply.status, body, reply.headers)
    return Refused(failure, retry=failure.kind in RETRYABLE)
