"""Keep-alives toward clients whose upstream is silent: one ticker for all streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.gateway.answers import Answer

EVERY = 10.0  # seconds of silence; SDKs give up after minutes, proxies between us and them much earlier


class Pings:
    """Streams under way, and when each of them last said something."""

    def __init__(self, now: Callable[[], float], every: float = EVERY) -> None:
        self._now, self._every = now, every
        self._ping: dict[Answer, bytes] = {}
        self._last: dict[Answer, float] = {}

    def watch(self, answer: Answer, ping: bytes) -> None:
        self._ping[answer] = ping
        self._last[answer] = self._now()

    def passed(self, answer: Answer, data: bytes) -> None:
        """Between two frames only: a forwarded piece may end inside one, and then silence is safer."""
        self._last[answer] = self._now() if data.endswith((b"\n\n", b"\r\n\r\n")) else float("inf")

    def forget(self, answer: Answer) -> None:
        self._ping.pop(answer, None)
        self._last.pop(answer, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every / 4)
            await self.tick()

    async def tick(self) -> None:
        limit = self._now() - self._every
        for answer in [answer for answer, last in self._last.items() if last < limit]:
            self._last[answer] = self._now()
            try:
                await answer.piece(self._ping[answer])
            except Exception:
                pass
