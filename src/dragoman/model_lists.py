"""The list of models that a provider itself publishes, for the gateway and the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.errors import UpstreamError
from dragoman.core.fields import read_body
from dragoman.http.client import Timeouts, Transport
from dragoman.http.client.retries import read_failure
from dragoman.profiles import http_url
from dragoman.protocols import server, upstream

_TIMEOUTS = Timeouts(connect=5, first_byte=20, idle=20)
_LARGEST = 16 * 1024 * 1024


async def fetch_model_names(
    transport: Transport,
    protocol: str,
    base_url: str,
    authenticate: Callable[[OutgoingRequest], Awaitable[dict[str, str]]],
) -> tuple[str, ...]:
    """`authenticate` returns the headers that the provider needs beside those of its protocol."""
    codec = upstream(protocol)
    url = http_url(base_url.rstrip("/")) + server(protocol).models_path
    headers = codec.http.headers | await authenticate(OutgoingRequest("GET", url, codec.http.headers, b""))
    reply = await transport.send("GET", url, headers, b"", _TIMEOUTS)
    try:
        body = await reply.read(_LARGEST)
    finally:
        reply.close()
    if reply.status >= 400:
        raise UpstreamError(read_failure(codec, reply.status, body, reply.headers))
    value = jsontext.decode(body)
    bare = {"data": value} if jsontext.is_array(value) else None  # Together answers with a bare array
    return server(protocol).decode_models(bare or read_body(body, protocol))
