"""Keep-alives toward clients whose upstream is silent: one ticker for all streams.

A stream says when it speaks; the ticker counts the ticks between. Nothing here runs for each piece of a
stream but one assignment before and one after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.http.server import ResponseWriter

_TICKS = 2  # of silence make a ping


class KeepAlive:
    """One stream. `busy`: a piece is on its way, which a slow client may take long to take."""

    __slots__ = ("_begin", "answer", "busy", "ping", "quiet", "sending")

    def __init__(self, answer: ResponseWriter, ping: bytes, begin: Callable[[], Awaitable[None]]) -> None:
        self.answer, self.ping, self._begin = answer, ping, begin
        self.busy, self.quiet = False, 0
        self.sending: asyncio.Task[None] | None = None

    async def beat(self) -> None:
        """Begin the answer where it has not begun, and say that we are alive."""
        if not self.answer.begun:
            await self._begin()
        if not self.answer.ended:
            await self.answer.piece(self.ping)

    async def settle(self) -> None:
        """Wait for a ping under way, so that nothing overtakes it."""
        if self.sending:
            await self.sending


class KeepAliveTicker:
    """The streams under way."""

    def __init__(self, pace: RetryPolicy) -> None:
        self.every = pace.pings_every / _TICKS  # seconds from tick to tick
        self._commit = max(round(pace.commits_after / self.every), 1)
        self._pulses: set[KeepAlive] = set()

    def watch(self, pulse: KeepAlive) -> None:
        self._pulses.add(pulse)

    def forget(self, pulse: KeepAlive) -> None:
        self._pulses.discard(pulse)
        if pulse.sending:
            pulse.sending.cancel()

    def __len__(self) -> int:
        return len(self._pulses)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            self.tick()

    def tick(self) -> None:
        for pulse in self._pulses:
            pulse.quiet += 1
            due = _TICKS if pulse.answer.begun else self._commit
            if pulse.quiet >= due and not pulse.busy and pulse.sending is None:
                pulse.quiet = 0
                pulse.sending = asyncio.ensure_future(self._beat(pulse))

    async def _beat(self, pulse: KeepAlive) -> None:
        """In a task of its own: one client that does not read must not keep the others waiting."""
        try:
            await pulse.beat()
        finally:
            pulse.sending = None
