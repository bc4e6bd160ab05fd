"""Input tokens of a request: counted by the upstream where it can, otherwise estimated and marked as such."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.core.token_estimate import estimate_tokens
from dragoman.gateway.handlers.relay import Asked
from dragoman.gateway.upstreams.routing import Target
from dragoman.gateway.upstreams.sending import headers_for
from dragoman.http.client import Transport, TransportError
from dragoman.http.server import ResponseWriter

ESTIMATED = [(b"x-dragoman-estimate", b"true")]
_PATIENCE = 10.0  # seconds; an estimate now is better than a count later
_LARGEST = 1024 * 1024


async def answer_count(
    asked: Asked, target: Target, transport: Transport | None, answer: ResponseWriter
) -> None:
    """Without a transport the upstream is left in peace."""
    counted = await _counted(asked, target, transport) if transport else None
    if counted is None:
        await answer.json(200, asked.serves.encode_count(estimate(asked.client, asked.body.wire)), ESTIMATED)
    else:
        await answer.whole(200, counted)


async def _counted(asked: Asked, target: Target, transport: Transport) -> bytes | None:
    """What an upstream of the client's own protocol says; None where there is none, or it cannot tell."""
    provider, path = target.provider, asked.serves.count_path
    if provider.protocol != asked.client.name or provider.dialect or path is None:
        return None
    in_body = asked.client.http.model_in_body
    body = jsontext.encode({**asked.body.wire, "model": target.model}) if in_body else asked.body.data
    headers = {"content-type": "application/json", **asked.client.http.headers}
    headers |= headers_for(provider, asked.client.name, asked.key, asked.headers)
    timeouts = replace(provider.timeouts, first_byte=_PATIENCE, idle=_PATIENCE)
    url = provider.base_url.rstrip("/") + path(target.model)
    try:
        reply = await transport.send("POST", url, headers, body, timeouts)
        try:
            told = await reply.read(_LARGEST)
        finally:
            reply.close()
    except TransportError:
        return None
    return told if reply.status == 200 and jsontext.decode_object(told.decode("utf-8", "replace")) else None


def estimate(codec: Codec, wire: Wire) -> int:
    """The body of a count may lack the conversation; Gemini's holds the request inside a field of its own."""
    nested = wire.get("generateContentRequest")
    body = {**nested, **wire} if jsontext.is_object(nested) else wire
    return estimate_tokens(codec.decode_request({codec.turns: [], **body}, Losses()))
