"""The providers' own lists of models, all fetched at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.errors import DragomanError, UpstreamError
from dragoman.core.fields import read_body
from dragoman.http.client import Client, Timeouts, Transport, TransportError
from dragoman.http.client.retries import read_failure
from dragoman.profiles import Provider
from dragoman.protocols import server, upstream

_TIMEOUTS = Timeouts(connect=5, first_byte=20, idle=20)
_LARGEST = 16 * 1024 * 1024

Listed = dict[str, "tuple[str, ...] | str"]


def live(providers: Iterable[Provider]) -> Listed:
    """For each provider the names of its models, or a text that says why there are none."""

    async def ask_all() -> Listed:
        client = Client()
        try:
            asked = list(providers)
            answers = await asyncio.gather(*(_answer(client, provider) for provider in asked))
            return {provider.name: answer for provider, answer in zip(asked, answers, strict=True)}
        finally:
            await client.close()

    return asyncio.run(ask_all())


async def models_of(transport: Transport, provider: Provider) -> tuple[str, ...]:
    """The names in the provider's own list."""
    codec = upstream(provider.protocol)
    url = provider.base_url.rstrip("/") + server(provider.protocol).models_path
    headers = codec.http.headers
    if provider.api_key:
        outgoing = OutgoingRequest("GET", url, headers, b"")
        headers = headers | codec.http.authenticate(provider.api_key, outgoing)
    reply = await transport.send("GET", url, headers | provider.headers, b"", _TIMEOUTS)
    try:
        body = await reply.read(_LARGEST)
    finally:
        reply.close()
    if reply.status >= 400:
        raise UpstreamError(read_failure(codec, reply.status, body, reply.headers))
    value = jsontext.decode(body)
    bare = {"data": value} if jsontext.is_array(value) else None  # Together answers with a bare array
    return server(provider.protocol).decode_models(bare or read_body(body, provider.protocol))


async def _answer(transport: Transport, provider: Provider) -> tuple[str, ...] | str:
    try:
        return await models_of(transport, provider)
    except (DragomanError, TransportError, ValueError) as error:
        return " ".join(str(error).split())
