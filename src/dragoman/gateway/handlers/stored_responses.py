"""What was kept, asked for by its id: retrieved, deleted, or its input listed.

An id that the store does not know belongs to the provider that stores conversations of this
protocol, where
there is exactly one.
"""

from __future__ import annotations

from urllib.parse import urlencode

from dragoman.core import jsontext
from dragoman.core.model import Failure
from dragoman.core.stored_turns import ConversationError, TurnCodec
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.stored_turns import StoredTurns
from dragoman.gateway.conversations.turn_writer import stores_turns
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.sending import AttemptFailed, headers_for
from dragoman.http.client import Transport, TransportError
from dragoman.http.client.retries import unreachable
from dragoman.profiles import Provider

_LARGEST = 64 * 1024 * 1024
_UNREPLAYED = Failure(
    "bad_request", "stream: a kept response is not streamed again; retrieve it whole", 400, "not_streamed"
)


class StoredResponsesHandler:
    def __init__(self, config: Config, keeping: StoredTurns, transport: Transport) -> None:
        self._config, self._keeping, self._transport = config, keeping, transport

    async def answer(self, visit: GatewayRequest, kept: TurnCodec) -> None:
        protocol, owner, served, answer = visit.client.name, visit.owner, visit.served, visit.answer
        reply = await self._keeping.reply(protocol, owner, served.id)
        if reply is None and (provider := self._provider(protocol)):
            await self._passed_on(visit, kept, provider)
        elif reply is None:
            raise ConversationError(kept.absent(served.id))
        elif served.action == "delete":
            await self._keeping.delete(owner, served.id)
            await answer.json(200, kept.deleted(served.id))
        elif served.action == "items":
            turns = await self._keeping.past(protocol, owner, served.id)
            if not turns:  # something before it was deleted
                raise ConversationError(kept.absent(served.id))
            await answer.json(200, kept.page(turns, visit.query))
        elif served.stream:
            raise ConversationError(_UNREPLAYED)
        else:
            await answer.json(200, reply)

    def _provider(self, protocol: str) -> Provider | None:
        able = [provider for provider in self._config.providers.values() if stores_turns(protocol, provider)]
        return able[0] if len(able) == 1 else None

    async def _passed_on(self, visit: GatewayRequest, kept: TurnCodec, provider: Provider) -> None:
        client, served = visit.client, visit.served
        asked = urlencode({name: value for name, value in visit.query.items() if name != "key"})
        url = provider.base_url.rstrip("/") + kept.path(served.id, served.action == "items")
        method = "DELETE" if served.action == "delete" else "GET"
        told = {**client.http.headers, **headers_for(provider, client.name, visit.key, visit.headers)}
        try:
            reply = await self._transport.send(
                method, f"{url}?{asked}" if asked else url, told, b"", provider.timeouts
            )
            try:
                body = await reply.read(_LARGEST)
            finally:
                reply.close()
        except TransportError as error:
            raise AttemptFailed(unreachable(provider.name, error)) from error
        if not jsontext.is_complete(body.decode("utf-8", "replace")):
            raise AttemptFailed(
                Failure("server", f"{provider.name} answered with something that is no JSON", 502)
            )
        await visit.answer.whole(reply.status, body)
