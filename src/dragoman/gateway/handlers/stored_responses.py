"""Stored responses by id: retrieved, streamed again, deleted, or their input items listed.

An id that the store does not know belongs to the provider that stores conversations of this protocol, where
there is exactly one.
"""

from __future__ import annotations

from urllib.parse import urlencode

from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.framing import sse
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.stored_turns import StoredTurns
from dragoman.gateway.conversations.turn_writer import stores_turns
from dragoman.gateway.jobs.background import BackgroundResponses
from dragoman.gateway.request import AttemptFailed, GatewayRequest
from dragoman.gateway.upstreams.attempts import ask, http_status, url_at
from dragoman.http.client import Transport, TransportError
from dragoman.http.client.retries import unreachable
from dragoman.profiles import ProviderSettings
from dragoman.serving.conversations import ConversationError, TurnCodec


class StoredResponsesHandler:
    def __init__(
        self,
        config: Config,
        stored_turns: StoredTurns,
        transport: Transport,
        background: BackgroundResponses,
    ) -> None:
        self._config, self._stored_turns, self._transport = config, stored_turns, transport
        self._background = background

    async def answer(self, request: GatewayRequest) -> None:
        protocol, owner, id, writer = request.client.name, request.owner, request.route.id, request.writer
        codec = request.protocol_server.turn_codec
        assert codec, "only protocols with stored turns have these routes"
        if request.admission:
            await request.admission.acquire()
        if request.protocol_server.background and await self._background.answer(request):
            return
        response = await self._stored_turns.reply(request, id)
        if response is None and (provider := self._provider(protocol)):
            await self._forward(request, codec, provider)
        elif response is None:
            raise ConversationError(codec.unknown_item(id))
        elif request.route.action == "cancel" and request.protocol_server.background:
            raise ConversationError(request.protocol_server.background.not_background)
        elif request.route.action == "delete":
            await self._stored_turns.delete(owner, id)
            await writer.json(200, codec.encode_deleted(id))
        elif request.route.action == "items":
            turns = await self._stored_turns.past(request, id)
            if not turns:  # an earlier turn was deleted
                raise ConversationError(codec.unknown_item(id))
            await writer.json(200, codec.encode_items(turns, request.query))
        elif request.route.stream:
            await self._stream(request, codec, response)
        else:
            await writer.json(200, response)

    async def _stream(self, request: GatewayRequest, codec: TurnCodec, reply: Wire) -> None:
        """The events that spell a stored reply."""
        encoder = request.client.stream_encoder(Losses())
        response = request.client.decode_response(reply, Losses())
        frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
        printer = sse.Encoder()
        shown = codec.replayed(frames, reply, request.query)
        await request.writer.begin(request.content_type)
        await request.writer.end(b"".join(piece for frame in shown for piece in printer.feed(frame)))

    def _provider(self, protocol: str) -> ProviderSettings | None:
        able = [provider for provider in self._config.providers.values() if stores_turns(protocol, provider)]
        return able[0] if len(able) == 1 else None

    async def _forward(self, request: GatewayRequest, codec: TurnCodec, provider: ProviderSettings) -> None:
        route = request.route
        query = urlencode({name: value for name, value in request.query.items() if name != "key"})
        path = codec.upstream_path(route.id, route.action == "items")
        path += "/cancel" if route.action == "cancel" else ""
        path = f"{path}?{query}" if query else path
        method = {"delete": "DELETE", "cancel": "POST"}.get(route.action, "GET")
        headers = request.client.http.headers
        try:
            outgoing = OutgoingRequest(method, url_at(provider, path), headers, b"")
            status, body = await ask(self._transport, request, provider, outgoing)
        except TransportError as error:
            raise AttemptFailed(unreachable(provider.name, error)) from error
        if not jsontext.is_complete(body.decode("utf-8", "replace")):
            problem = f"{provider.name} answered with something that is no JSON"
            raise AttemptFailed(Failure("server", problem, 502))
        await request.writer.whole(http_status(status), body)
