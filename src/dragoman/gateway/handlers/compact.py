"""Compaction at upstreams that have none: by an endpoint of its own, or before a request whose input is long.

The summary itself is an ordinary exchange with the model (`transforms/compaction.py`), with its attempts,
fallbacks and limits. A provider that compacts itself gets the client's request as it is.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.fields import Body
from dragoman.core.model import Compaction, Foreign, Wire
from dragoman.gateway.conversations.turn_writer import stores_turns
from dragoman.gateway.handlers.count_tokens import estimate
from dragoman.gateway.handlers.relay import loss_header, relay_whole
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.jobs.replay import CapturedResponse
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.attempts import Attempts, ask, http_status, url_at
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.client import Transport, TransportError
from dragoman.http.client.retries import unreachable

_STAYING = 4  # a fourth of the threshold may be messages that stay beside the summary


class Compactor:
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    async def compact_history(self, request: RoutedRequest) -> tuple[RoutedRequest, Foreign | None]:
        """The request without what an earlier summary replaced. Where the rest of its input has more tokens
        than its threshold, a new summary replaces that too, and is the first part of the reply.

        A request for a provider that compacts itself is not changed.
        """
        arrived, compaction, writer = request.arrived, request.compaction, request.turn_writer
        codec, client = arrived.protocol_server.compaction, arrived.client
        assert codec, "only protocols with compaction come here"
        if any(stores_turns(client.name, target.provider) for target in request.targets):
            return request, None
        body = writer.body if writer else request.body
        staying = max(compaction.threshold // _STAYING, 1) if compaction and compaction.threshold else 0
        wire = await run_for(len(body.data), codec.since_summary, codec.without(body.wire), staying)
        made: Foreign | None = None
        if compaction and compaction.threshold:
            tokens = await run_for(len(body.data), estimate, client, wire)
            asked = Compaction(instructions=compaction.instructions)
            if tokens <= compaction.threshold:
                compaction = None
            elif compaction.pause:
                compaction = asked  # the reply is the summary
            else:
                reply = await self.summary(request, _body(arrived, wire), asked)
                part = codec.part_of(reply)
                assert part, "a summary that succeeded has one"
                made = Foreign(client.name, part)
                wire, compaction = codec.compacted(wire, part, staying), None
        body = _body(arrived, wire)
        if writer:
            writer.body = body
        return replace(request, body=body, compaction=compaction), made

    async def summary(self, request: RoutedRequest, body: Body, compaction: Compaction) -> Wire:
        """The reply to `request` with `body` as a whole reply in its protocol, which holds nothing but a
        summary. Its tokens count for `request`."""
        answer, record = CapturedResponse(), request.arrived.record
        arrived = replace(request.arrived, writer=answer)
        inner = replace(
            request, arrived=arrived, body=body, compaction=compaction, stream=False, turn_writer=None
        )
        await self._attempts.run(inner, relay_whole)
        record.end_exchange()
        record.spent, record.usage, record.first = record.usage, None, None
        return jsontext.decode(answer.body)


class CompactHandler:
    """An endpoint that answers with the next context window."""

    def __init__(self, reader: RequestReader, compactor: Compactor, transport: Transport) -> None:
        self._reader, self._compactor, self._transport = reader, compactor, transport

    async def answer(self, request: GatewayRequest) -> None:
        codec = request.protocol_server.compaction
        assert codec, "only protocols with compaction have this route"
        routed = await self._reader.read(request)
        if stores_turns(request.client.name, routed.targets[0].provider):
            await self._forward(request, routed.targets[0], routed.body)
            return
        wire = codec.without(routed.body.wire)
        reply = await self._compactor.summary(routed, _body(request, wire), Compaction())
        request.record.first_byte()
        await request.writer.json(200, codec.encode_reply(wire, reply), loss_header(request.record.losses))
        routed.release()

    async def _forward(self, request: GatewayRequest, target: Target, given: Body) -> None:
        """To a provider with an endpoint of its own."""
        provider, http = target.provider, request.client.http
        body = jsontext.encode({**given.wire, "model": target.model})
        path = f"{http.path(target.model, False)}/compact"
        headers = {"content-type": "application/json", **http.headers}
        request.record.target = target
        try:
            outgoing = OutgoingRequest("POST", url_at(provider, path), headers, body)
            status, answer = await ask(self._transport, request, provider, outgoing)
        except TransportError as error:
            raise AttemptFailed(unreachable(provider.name, error)) from error
        await request.writer.whole(http_status(status), answer)


def _body(request: GatewayRequest, wire: Wire) -> Body:
    return Body(jsontext.encode(wire), request.client.name, wire=wire)
