"""Searches of clients that search by themselves, over the backends of `[hosted]`."""

from __future__ import annotations

from collections import Counter

from dragoman.core import jsontext
from dragoman.core.model import Failure, HostedKind
from dragoman.gateway.config import Config
from dragoman.gateway.handlers.request_reader import receive
from dragoman.gateway.large_bodies import read_wire
from dragoman.gateway.request import AttemptFailed, GatewayRequest
from dragoman.hosted.loop import HostedTools

_NONE = "This gateway has no web search. Set up a backend in [hosted.web_search] of its configuration."
_RUN_AS: dict[str, HostedKind] = {"search": "web_search", "open": "web_fetch", "find": "web_fetch"}


class SearchHandler:
    """`hosted`: what the gateway runs; None: nothing."""

    def __init__(self, config: Config, hosted: HostedTools | None) -> None:
        self._config, self._hosted = config, hosted

    async def answer(self, request: GatewayRequest) -> None:
        codec, hosted = request.protocol_server.search, self._hosted
        assert codec, "only protocols whose clients search have this route"
        data = await receive(request, self._config.max_body)
        if request.recording:
            request.recording.body = data
        asked = codec.decode(await read_wire(request.incoming, data, request.client.name))
        request.record.model = asked.model
        if hosted is None or not hosted.searches:
            raise AttemptFailed(Failure("not_found", _NONE, 404))
        output, sources = await hosted.searches.run(request.scope, asked)
        kinds = [_RUN_AS[command.kind] for command in asked.commands if command.kind in _RUN_AS]
        request.record.hosted = {**Counter(kinds)}
        request.record.first_byte()
        await request.writer.whole(200, jsontext.encode(codec.encode(output, sources)))
