"""Input tokens of a request: counted by the upstream where it can, otherwise estimated and marked as such."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec, OutgoingRequest
from dragoman.core.fields import Body
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.core.token_estimate import estimate_tokens
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.large_bodies import decode_object, run_for
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.attempts import Upstreams, ask, url_at
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.client import TransportError

ESTIMATED = [(b"x-dragoman-estimate", b"true")]
_TIMEOUT = 10.0  # seconds; an estimate now is better than a count later


class CountTokensHandler:
    def __init__(self, reader: RequestReader, upstreams: Upstreams) -> None:
        self._reader, self._upstreams = reader, upstreams

    async def answer(self, request: GatewayRequest) -> None:
        """A provider at its concurrency limit gets no request."""
        routed = await self._reader.read(request)
        target = routed.targets[0]
        counted = None
        if not self._upstreams.slots.full(target.provider):
            counted = await self._count_upstream(request, routed.body, target)
        if counted is None:
            tokens = await run_for(len(routed.body.data), _estimate, request.client, routed.body)
            await request.writer.json(200, request.protocol_server.encode_count(tokens), ESTIMATED)
        else:
            await request.writer.whole(200, counted)
        routed.release()

    async def _count_upstream(self, request: GatewayRequest, given: Body, target: Target) -> bytes | None:
        """The answer of an upstream of the client's own protocol; None where it cannot count."""
        provider, codec, path = target.provider, request.client, request.protocol_server.count_path
        if provider.protocol != codec.name or provider.dialect or path is None:
            return None
        body = given.data
        if codec.http.model_in_body:
            body = await run_for(len(body), _with_model, given, target.model)
        headers = {"content-type": "application/json", **codec.http.headers}
        timeouts = replace(provider.timeouts, first_byte=_TIMEOUT, idle=_TIMEOUT)
        try:
            outgoing = OutgoingRequest("POST", url_at(provider, path(target.model)), headers, body)
            status, counted = await ask(self._upstreams.transport, request, provider, outgoing, timeouts)
        except TransportError:
            return None
        is_count = status == 200 and jsontext.decode_object(counted.decode("utf-8", "replace"))
        return counted if is_count else None


def _with_model(body: Body, model: str) -> bytes:
    """Its fields are copied, not read: a call that reads 10 MB stops everybody for 70 ms, in a thread too."""
    fields = jsontext.split_object(body.data) if body.parsed is None else body.wire
    return jsontext.encode({**fields, "model": model})


def _estimate(codec: Codec, body: Body) -> int:
    wire = body.parsed
    return estimate(codec, decode_object(body.data, codec.name) if wire is None else wire)


def estimate(codec: Codec, wire: Wire) -> int:
    """The body of a count may lack the conversation; Gemini's holds the request inside a field of its own
    (ai.google.dev/api/tokens)."""
    nested = wire.get("generateContentRequest")
    body = {**nested, **wire} if jsontext.is_object(nested) else wire
    return estimate_tokens(codec.decode_request({codec.turns: [], **body}, Losses()))
