"""One upstream call: send, judge the answer, and say whether another try makes sense."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman import __version__
from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.model import Failure
from dragoman.exchange import Exchange
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.client import ConnectFailed, Reply, TimedOut, Transport, TransportError
from dragoman.http.client.retries import RETRYABLE, read_failure, unreachable
from dragoman.profiles import Provider
from dragoman.protocols import server, upstream

LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_AGENT = {"user-agent": f"dragoman/{__version__}"}  # some providers turn away who has no name


class AttemptFailed(Exception):
    """The upstream gave no answer that a client could use.

    `retry`: the same request may go well later. `reachable`: the provider answered something. `body`: what
    it said, where the client speaks the same protocol and may read it as it is.
    """

    def __init__(
        self, failure: Failure, retry: bool = False, reachable: bool = True, body: bytes = b""
    ) -> None:
        self.failure, self.retry, self.reachable, self.body = failure, retry, reachable, body
        super().__init__(failure.message)


async def send(
    transport: Transport, target: Target, exchange: Exchange, body: bytes, headers: Mapping[str, str]
) -> Reply:
    """The answer of the upstream, if it is one; otherwise raises AttemptFailed."""
    provider = target.provider
    url = provider.base_url.rstrip("/") + exchange.path
    try:
        reply = await transport.send("POST", url, {**exchange.headers, **headers}, body, provider.timeouts)
    except TransportError as error:
        dead = isinstance(error, ConnectFailed | TimedOut)  # what hung up on this request may serve the next
        raise AttemptFailed(unreachable(provider.name, error), retry=True, reachable=not dead) from error
    if reply.status < 300:
        return reply
    raise await _refusal(reply, exchange)


async def _refusal(reply: Reply, exchange: Exchange) -> AttemptFailed:
    """What an answer that is an error says."""
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    finally:
        reply.close()
    if reply.status < 400:  # nobody follows redirects with a prompt and a key in hand
        where = reply.headers.get("location", "")
        return AttemptFailed(Failure("server", f"the upstream redirects to {where!r}; set its base_url", 502))
    failure = read_failure(exchange.upstream, reply.status, body, reply.headers)
    readable = exchange.client is exchange.upstream and _is_error(body, exchange.upstream)
    return AttemptFailed(failure, retry=failure.kind in RETRYABLE, body=body if readable else b"")


def _is_error(body: bytes, speaker: Codec) -> bool:
    value = jsontext.decode_object(body.decode("utf-8", "replace"))
    return value is not None and "error" in value and speaker.decode_error(value, 0) is not None


def headers_for(provider: Provider, client: str, client_key: str, asked: Mapping[str, str]) -> dict[str, str]:
    """The key, the provider's own headers, and those of the client that belong to a forwarded body."""
    key = client_key if provider.passthrough else provider.api_key
    headers = {**_AGENT, **(upstream(provider.protocol).http.auth(key) if key else {})}
    if client == provider.protocol:
        headers |= {name: asked[name] for name in server(client).forwards if name in asked}
    return headers | provider.headers if provider.headers else headers
