"""Generate: read the client's request, find its targets, and relay the first usable answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from dragoman.gateway.handlers.compact import Compactor
from dragoman.gateway.handlers.receive import RequestReader
from dragoman.gateway.handlers.relay import (
    KeepAliveStream,
    KeepAliveTicker,
    failed_stream,
    loss_header,
    opened_stream,
    overdue,
    relay,
)
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.attempts import Attempts
from dragoman.gateway.upstreams.routing import Target
from dragoman.gateway.upstreams.sending import AttemptFailed

_AFTER_STREAM = 0.1  # seconds, so that a stream can end itself


Accept = Callable[[GatewayRequest, tuple[Target, ...]], Awaitable[None]]


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
        targets = await self._reader.read(request)
        if request.deferred:
            await self._accept(request, targets)
            return
        if not request.stream:
            await self._run(request, targets)
            return
        writer = request.writer
        request.keep_alive = keep_alive = KeepAliveStream(
            writer,
            framing.keep_alive if (framing := request.framing) else request.client.keep_alive,
            lambda: writer.begin(request.content_type, loss_header(request.losses)),
            request.client.keep_alive_events,
            partial(opened_stream, request) if request.client.keep_alive_events else None,
        )
        self._keep_alives.add(keep_alive)
        try:
            await self._run(request, targets)
        except AttemptFailed as error:
            await keep_alive.settle()
            if not writer.begun:
                raise
            request.record.failure = error.failure
            await writer.end(failed_stream(request, error.failure))
        finally:
            self._keep_alives.remove(keep_alive)

    def _run(self, request: GatewayRequest, targets: tuple[Target, ...]) -> Coroutine[Any, Any, None]:
        timeout = 0 if request.background_run else self._timeout
        if timeout:
            return self._run_until(request, targets, timeout)
        if request.compaction:
            return self._attempt(request, targets)
        return self._attempts.run(request, targets, relay)

    async def _run_until(self, request: GatewayRequest, targets: tuple[Target, ...], timeout: float) -> None:
        now = asyncio.get_running_loop().time()
        request.deadline = now + timeout  # of a stream: it ends with an event of its protocol
        try:
            async with asyncio.timeout_at(request.deadline + _AFTER_STREAM):
                await self._attempt(request, targets)
        except TimeoutError:
            raise AttemptFailed(overdue(timeout)) from None

    async def _attempt(self, request: GatewayRequest, targets: tuple[Target, ...]) -> None:
        if request.compaction and request.compaction.threshold:
            await self._compactor.compact_history(request, targets)
        await self._attempts.run(request, targets, relay)
