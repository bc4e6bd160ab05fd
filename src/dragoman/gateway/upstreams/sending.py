"""One request to one upstream: address, headers, authentication (by the protocol's `Http`), and what an error
answer means."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from dragoman import __version__
from dragoman.core import jsontext
from dragoman.core.codec import Codec, OutgoingRequest
from dragoman.core.model import Failure
from dragoman.gateway.request import GatewayRequest
from dragoman.http.client import ConnectFailed, Reply, TimedOut, Timeouts, Transport, TransportError
from dragoman.http.client.retries import RETRYABLE, read_failure, unreachable
from dragoman.profiles import ProviderSettings
from dragoman.protocols import upstream

LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_USER_AGENT = {"user-agent": f"dragoman/{__version__}"}  # some providers refuse requests without one


class AttemptFailed(Exception):
    """The upstream gave no answer that a client could use.

    `retry`: the same request may succeed later. `reachable`: the provider answered something. `body`: the
    error as the upstream wrote it, where the client speaks the same protocol and gets it unchanged.
    """

    def __init__(
        self, failure: Failure, retry: bool = False, reachable: bool = True, body: bytes = b""
    ) -> None:
        self.failure, self.retry, self.reachable, self.body = failure, retry, reachable, body
        super().__init__(failure.message)


def send(
    transport: Transport,
    request: GatewayRequest,
    provider: ProviderSettings,
    path: str,
    headers: dict[str, str],
    body: bytes,
    method: str = "POST",
    timeouts: Timeouts | None = None,
) -> Coroutine[Any, Any, Reply]:
    """Send a request to `path` of the provider. To `headers` are added: the client's that belong to a body of
    the same protocol, the key's and the provider's."""
    url = provider.base_url.rstrip("/") + path
    sent = {**headers, **_USER_AGENT}
    forwarded = request.protocol_server.forwards
    if forwarded and request.client.name == provider.protocol:
        given = request.incoming.headers
        sent |= {name: given[name] for name in forwarded if name in given}
    if key := request.key if provider.passthrough else provider.api_key:
        outgoing = OutgoingRequest(method, url, headers, body)
        sent |= upstream(provider.protocol).http.authenticate(key, outgoing)
    if provider.headers:
        sent |= provider.headers
    return transport.send(method, url, sent, body, timeouts or provider.timeouts)


def unreachable_provider(provider: ProviderSettings, error: TransportError) -> AttemptFailed:
    """A server that hung up on this request may serve the next one."""
    reachable = not isinstance(error, ConnectFailed | TimedOut)
    return AttemptFailed(unreachable(provider.name, error), retry=True, reachable=reachable)


async def refusal(reply: Reply, codec: Codec, client: Codec) -> AttemptFailed:
    """An answer that is an error of `codec`; it keeps its body for a client of the same protocol."""
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    finally:
        reply.close()
    if (
        300 <= reply.status < 400
    ):  # a redirect is not followed: it would carry the prompt and the key elsewhere
        where = reply.headers.get("location", "")
        return AttemptFailed(Failure("server", f"the upstream redirects to {where!r}; set its base_url", 502))
    failure = read_failure(codec, http_status(reply.status), body, reply.headers)
    readable = client is codec and _is_error(body, codec, failure)
    return AttemptFailed(failure, retry=failure.kind in RETRYABLE, body=body if readable else b"")


def http_status(status: int) -> int:
    """The status of an upstream as a client may get it: 600 to 999 parse as a status, but are none."""
    return status if 200 <= status < 600 else 502


def _is_error(body: bytes, codec: Codec, failure: Failure) -> bool:
    """Whether the client can be given `body` as it is: an error of its protocol, and one at whose words it
    compacts where that is needed."""
    value = jsontext.decode_object(body.decode("utf-8", "replace"))
    if value is None or "error" not in value or codec.decode_error(value, 0) is None:
        return False
    if failure.kind != "context_too_long":
        return True
    given, own = value["error"], codec.encode_error(failure)[1]["error"]
    return jsontext.is_object(given) and all(
        given.get(key) == own[key] for key in own if own[key] is not None
    )
