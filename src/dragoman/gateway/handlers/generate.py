"""Generate: relay the first usable answer of the request's targets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.core.model import Foreign
from dragoman.gateway.handlers.hosted import may_declare_hosted, play, start_run
from dragoman.gateway.handlers.relay import (
    KeepAliveTicker,
    StreamedReply,
    fail_stream,
    open_stream,
    overdue,
    relay_whole,
)
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.handlers.rounds import open_rounds, pin
from dragoman.gateway.request import AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.attempts import Attempts
from dragoman.hosted.loop import HostedTools
from dragoman.serving.conversations import CompactionCodec
from dragoman.transforms.rounds import RoundJoiner

if TYPE_CHECKING:
    from dragoman.gateway.handlers.compact import Compactor

Accept = Callable[[RoutedRequest], Awaitable[None]]


class GenerateHandler:
    """`timeout`: seconds that one request may take in all; 0: any time. `accept` answers requests that are
    run in the background."""

    def __init__(
        self,
        reader: RequestReader,
        rounds: RoundRunner,
        keep_alives: KeepAliveTicker,
        accept: Accept,
        timeout: float = 0,
    ) -> None:
        self._reader, self._rounds, self._keep_alives = reader, rounds, keep_alives
        self._accept, self._timeout = accept, timeout
        self._run: Callable[[RoutedRequest, StreamedReply | None], Coroutine[Any, Any, object]]
        self._run = self._run_until if timeout else rounds.run

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
        opening = partial(open_stream, request) if arrived.client.keep_alive_events else None
        reply = StreamedReply(arrived, opening)
        self._keep_alives.add(reply)
        try:
            await self._run(request, reply)
        except AttemptFailed as error:
            await reply.settle()
            if not arrived.writer.begun:
                raise
            if reply.fail:
                await reply.fail(error.failure)
                return
            arrived.record.failure = error.failure
            await arrived.writer.end(fail_stream(arrived, error.failure, reply))
        finally:
            self._keep_alives.remove(reply)

    async def _run_until(self, request: RoutedRequest, reply: StreamedReply | None) -> None:
        if request.arrived.background_run:
            await self._rounds.run(request, reply)
            return
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                if reply:
                    reply.timeout = timeout
                await self._rounds.run(request, reply)
        except TimeoutError:
            raise AttemptFailed(overdue(self._timeout)) from None


class RoundRunner:
    """`hosted`: tools that are executed here, where the upstream has none."""

    def __init__(self, attempts: Attempts, compactor: Compactor, hosted: HostedTools | None = None) -> None:
        self._attempts, self._compactor, self._hosted = attempts, compactor, hosted

    def run(self, request: RoutedRequest, reply: StreamedReply | None) -> Coroutine[Any, Any, object]:
        """In one round, unless the request asks for something that takes more."""
        codec = request.arrived.protocol_server.compaction
        if codec and _concerns_summaries(request, codec):
            return self._take_rounds(request, reply, codec)
        if self._hosted and may_declare_hosted(request):
            return self._take_rounds(request, reply)
        return self._attempts.run(request, reply.relay if reply else relay_whole)

    async def _take_rounds(
        self, request: RoutedRequest, reply: StreamedReply | None, codec: CompactionCodec | None = None
    ) -> None:
        """A summary first, where the input is too long: it is the first part of the reply. Then the rounds
        of tools that this gateway executes."""
        summary: Foreign | None = None
        if codec:
            request, summary = await self._compactor.compact_history(request)
        run = await start_run(self._hosted, request) if self._hosted else None
        if summary is None and run is None:
            await self._attempts.run(request, reply.relay if reply else relay_whole)
            return
        arrived, record = request.arrived, request.arrived.record
        joiner = RoundJoiner(run)
        if summary:
            joiner.lead(summary)
            request = pin(request)
        if codec and record.spent:
            joiner.add_summary(record.spent, codec.counts_summary)
            record.spent = None if codec.counts_summary else record.spent
        rounds = open_rounds(self._attempts, arrived, joiner, reply)
        try:
            await rounds.end(await (play(run, rounds, request) if run else rounds.send(request)))
        finally:  # the first rounds are paid for, whatever became of the last one
            record.usage, record.calls = joiner.usage, joiner.calls


def _concerns_summaries(request: RoutedRequest, codec: CompactionCodec) -> bool:
    """Whether a summary may be due, or the request may hold an earlier one."""
    if request.compaction and request.compaction.threshold:
        return True
    body = request.turn_writer.body if request.turn_writer else request.body
    return bool(codec.marker) and body.sealed is not False and codec.marker in body.data
