"""Keep-alives toward clients whose upstream is silent: one ticker for all streams.

A stream is in one of these states:

    busy     a piece is being written; the ticker does nothing (a slow client may take long)
    quiet    nothing was written for `quiet` ticks; when enough have passed, a keep-alive is sent
    sending  a keep-alive is being written; the relay waits for it (`settle`) before its first bytes

The relay sets `busy` before each piece, and clears it and `quiet` after it; nothing else runs for each piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.http.server import ResponseWriter

_TICKS = 2  # of silence make a keep-alive due


class KeepAlive:
    """One stream. `message` is what is sent, `begin` sends the status where nothing went out before."""

    __slots__ = ("_begin", "busy", "message", "quiet", "sending", "writer")

    def __init__(self, writer: ResponseWriter, message: bytes, begin: Callable[[], Awaitable[None]]) -> None:
        self.writer, self.message, self._begin = writer, message, begin
        self.busy, self.quiet = False, 0
        self.sending: asyncio.Task[None] | None = None

    async def send(self) -> None:
        if not self.writer.begun:
            await self._begin()
        if not self.writer.ended:
            await self.writer.piece(self.message)

    async def settle(self) -> None:
        """Wait for a keep-alive that is being written, so that nothing overtakes it."""
        if self.sending:
            await self.sending


class KeepAliveTicker:
    """All streams under way."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.every = policy.keep_alive_every / _TICKS  # seconds from tick to tick
        self._first = max(round(policy.keep_alive_after / self.every), 1)  # ticks before the status is sent
        self._streams: set[KeepAlive] = set()

    def add(self, stream: KeepAlive) -> None:
        self._streams.add(stream)

    def remove(self, stream: KeepAlive) -> None:
        self._streams.discard(stream)
        if stream.sending:
            stream.sending.cancel()

    def __len__(self) -> int:
        return len(self._streams)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            self.tick()

    def tick(self) -> None:
        for stream in self._streams:
            stream.quiet += 1
            due = _TICKS if stream.writer.begun else self._first
            if stream.quiet >= due and not stream.busy and stream.sending is None:
                stream.quiet = 0
                stream.sending = asyncio.ensure_future(self._send(stream))

    async def _send(self, stream: KeepAlive) -> None:
        """In a task of its own: one client that does not read must not delay the others."""
        try:
            await stream.send()
        finally:
            stream.sending = None
