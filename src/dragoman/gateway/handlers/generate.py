"""Generate: relay the first usable answer of the request's targets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.gateway.handlers.relay import (
    KeepAliveTicker,
    StreamedReply,
    failed_stream,
    opened_stream,
    overdue,
    relay_whole,
)
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.request import AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.attempts import Attempts, Relay

if TYPE_CHECKING:
    from dragoman.gateway.handlers.compact import Compactor

Accept = Callable[[RoutedRequest], Awaitable[None]]


class GenerateHandler:
    """`timeout`: seconds that one request may take in all; 0: any time. `accept` answers requests that are
    run in the background."""

    def __init__(
        self,
        reader: RequestReader,
        attempts: Attempts,
        keep_alives: KeepAliveTicker,
        compactor: Compactor,
        accept: Accept,
        timeout: float = 0,
    ) -> None:
        self._reader, self._attempts, self._keep_alives = reader, attempts, keep_alives
        self._compactor, self._accept, self._timeout = compactor, accept, timeout

    async def answer(self, request: GatewayRequest) -> None:
        """Raises AttemptFailed where no target answers and nothing went out yet."""
        routed = await self._reader.read(request)
        try:
            if routed.deferred:
                await self._accept(routed)
            elif routed.stream:
                await self._stream(routed)
            else:
                await self._run(routed, None)
        finally:
            if routed.conversation:
                await routed.conversation.release()
            routed.release()

    async def _stream(self, request: RoutedRequest) -> None:
        arrived = request.arrived
        opening = partial(opened_stream, request) if arrived.client.keep_alive_events else None
        reply = StreamedReply(arrived, opening)
        self._keep_alives.add(reply)
        try:
            await self._run(request, reply)
        except AttemptFailed as error:
            await reply.settle()
            if not arrived.writer.begun:
                raise
            arrived.record.failure = error.failure
            await arrived.writer.end(failed_stream(arrived, error.failure, reply))
        finally:
            self._keep_alives.remove(reply)

    def _run(self, request: RoutedRequest, reply: StreamedReply | None) -> Coroutine[Any, Any, None]:
        relay = reply.relay if reply else relay_whole
        if self._timeout and not request.arrived.background_run:
            return self._run_until(request, reply, relay)
        if request.compaction:
            return self._attempt(request, relay)
        return self._attempts.run(request, relay)

    async def _run_until(self, request: RoutedRequest, reply: StreamedReply | None, relay: Relay) -> None:
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                if reply:
                    reply.timeout = timeout
                await self._attempt(request, relay)
        except TimeoutError:
            raise AttemptFailed(overdue(self._timeout)) from None

    async def _attempt(self, request: RoutedRequest, relay: Relay) -> None:
        if request.compaction and request.compaction.threshold:
            request = await self._compactor.compact_history(request)
        await self._attempts.run(request, relay)
