"""The calls of one round, side by side: each in a task, bounded in time, number and size of its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from dragoman.core.hosted import HostedResult
from dragoman.core.model import Media, Text
from dragoman.hosted.executor import CallLimits, failure

Work = Callable[[], Awaitable[HostedResult]]
_CUT = "\n[The result was longer; the rest was cut.]"


class RunningCalls:
    """`spent`: seconds in which calls ran, of all rounds so far."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.calls_at_once)
        self._tasks: dict[str, asyncio.Task[HostedResult]] = {}  # by the id of a call
        self._began = 0.0
        self.spent = 0.0

    def start(self, id: str, work: Work) -> None:
        if not self._tasks:
            self._began = time.monotonic()
        self._tasks[id] = asyncio.get_running_loop().create_task(self.bound(work))

    async def result(self, id: str) -> HostedResult:
        return await self._tasks[id]

    def end_round(self) -> None:
        if self._tasks:
            self.spent += time.monotonic() - self._began
        self._tasks = {}

    def cancel(self) -> list[asyncio.Task[HostedResult]]:
        """Nobody waits for the results any more."""
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        return tasks

    @property
    def is_over_time(self) -> bool:
        return self.spent >= self._limits.seconds_in_all

    async def bound(self, work: Work) -> HostedResult:
        """`work` within the limits of a call. It raises nothing but CancelledError."""
        async with self._slots:
            left = min(self._limits.seconds, max(self._limits.seconds_in_all - self.spent, 0.0))
            try:
                async with asyncio.timeout(left):
                    result = await work()
            except TimeoutError:
                return failure("timeout", f"the tool took longer than {left:g} s")
            except Exception:
                return failure("unavailable", "the tool could not be run")
        return _cut(result, self._limits.result_bytes)


def _cut(result: HostedResult, most: int) -> HostedResult:
    """With at most so many bytes of text; media that do not fit are left out."""
    size = sum(len(part.text.encode()) for part in result.content if isinstance(part, Text))
    if size <= most:
        return result
    content: list[Text | Media] = []
    for part in result.content:
        if isinstance(part, Text) and most > 0:
            data = part.text.encode()
            text = part.text if len(data) <= most else data[:most].decode("utf-8", "ignore") + _CUT
            content.append(replace(part, text=text))
            most -= len(data)
    return replace(result, content=tuple(content))
