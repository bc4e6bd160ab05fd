"""Notices that a client leaves, and ends its exchange, which cancels the upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.gateway.answers import Answer

Receive = Callable[[], Awaitable[dict[str, Any]]]


class Presence:
    """Watches from a moment after the start on: an answer that is faster needs no watching."""

    __slots__ = ("_answer", "_loop", "_receive", "_task", "_timer", "_watcher", "gone")

    def __init__(self, receive: Receive, answer: Answer, looks_after: float) -> None:
        self._receive, self._answer = receive, answer
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer = self._loop.call_later(looks_after, self._look)
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    def close(self) -> None:
        self._timer.cancel()
        if self._watcher:
            self._watcher.cancel()

    def returned(self) -> bool:
        """Whether a cancellation was ours; then it ends here."""
        if self.gone and self._task:
            self._task.uncancel()
        return self.gone

    def _look(self) -> None:
        self._watcher = self._loop.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._task and not self._answer.ended:
            self.gone = True
            self._task.cancel()
