"""Generate: read the client's request, find its targets, and relay the first usable answer."""

from __future__ import annotations

from dragoman.gateway.handlers.keep_alive import KeepAlive, KeepAliveTicker
from dragoman.gateway.handlers.receive import RequestReader
from dragoman.gateway.handlers.relay import failed_stream, loss_header, relay
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.attempts import Attempts
from dragoman.gateway.upstreams.sending import AttemptFailed


class GenerateHandler:
    def __init__(self, reader: RequestReader, attempts: Attempts, keep_alives: KeepAliveTicker) -> None:
        self._reader, self._attempts, self._keep_alives = reader, attempts, keep_alives

    async def answer(self, request: GatewayRequest) -> None:
        """Raises AttemptFailed where no target answers and nothing went out yet."""
        targets = await self._reader.read(request)
        if not request.stream:
            await self._attempts.run(request, targets, relay)
            return
        writer = request.writer
        request.keep_alive = keep_alive = KeepAlive(
            writer,
            b"\n" if request.route.array else request.client.keep_alive,  # between two entries of an array
            lambda: writer.begin(request.content_type, loss_header(request.losses)),
            request.client.keep_alive_events,
        )
        self._keep_alives.add(keep_alive)
        try:
            await self._attempts.run(request, targets, relay)
        except AttemptFailed as error:
            await keep_alive.settle()
            if not writer.begun:
                raise
            request.record.failure = error.failure
            await writer.end(failed_stream(request, error.failure))
        finally:
            self._keep_alives.remove(keep_alive)
