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

from dragoman.core.codec import KeepAliveEvents
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.http.server import ResponseWriter

_TICKS = 2  # of silence make a keep-alive due


class KeepAliveStream:
    """One stream. `message` is what is sent, `begin` sends the status where nothing went out before.

    Where the protocol has keep-alive `events`, one of them is sent once the answer has started: `first` and
    `last` are the pieces of it that went out, `sent` counts the events among them.
    """

    __slots__ = ("_begin", "busy", "events", "first", "last", "message", "quiet", "sending", "sent", "writer")

    def __init__(
        self,
        writer: ResponseWriter,
        message: bytes,
        begin: Callable[[], Awaitable[None]],
        events: KeepAliveEvents | None = None,
    ) -> None:
        self.writer, self.message, self._begin, self.events = writer, message, begin, events
        self.first: bytes = b""
        self.last: bytes = b""
        self.sent = 0
        self.busy, self.quiet = False, 0
        self.sending: asyncio.Task[None] | None = None

    async def send(self) -> None:
        if not self.writer.begun:
            await self._begin()
        if not self.writer.ended:
            await self.writer.piece(self._event() or self.message)

    def _event(self) -> bytes:
        event = self.events.event(self.first, self.last) if self.events and self.first else b""
        if event:
            self.last, self.sent = event, self.sent + 1
        return event

    def renumbered(self, piece: bytes) -> bytes:
        """A piece of the answer, with its numbers after those of the keep-alives."""
        piece = self.events.renumber(piece, self.sent) if self.sent and self.events else piece
        self.first, self.last = self.first or piece, piece
        return piece

    async def settle(self) -> None:
        """Wait for a keep-alive that is being written, so that nothing overtakes it."""
        if self.sending:
            await self.sending


class KeepAliveTicker:
    """All streams under way."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.every = policy.keep_alive_every / _TICKS  # seconds from tick to tick
        self._first = max(round(policy.keep_alive_after / self.every), 1)  # ticks before the status is sent
        self._streams: set[KeepAliveStream] = set()

    def add(self, stream: KeepAliveStream) -> None:
        self._streams.add(stream)

    def remove(self, stream: KeepAliveStream) -> None:
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

    async def _send(self, stream: KeepAliveStream) -> None:
        """In a task of its own: one client that does not read must not delay the others."""
        try:
            await stream.send()
        finally:
            stream.sending = None
