"""The calls of one round, side by side: each in a task, bounded in time, number and size of its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from msgspec.structs import replace

from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.model import Media, Text
from dragoman.hosted.executor import CallLimits, failure

Work = Callable[[], Awaitable[HostedResult]]
CUT = "\n[The result was longer; the rest was cut.]"


class RunningCalls:
    """The time in all is that in which at least one call runs: the model's own is not counted."""

    def __init__(self, limits: CallLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._slots = asyncio.Semaphore(limits.calls_at_once)
        self._tasks: dict[str, asyncio.Task[HostedResult]] = {}  # by the id of a call
        self._active = 0
        self._began = self._spent = 0.0  # when the first active call began, and seconds before that

    def start(self, id: str, work: Work) -> None:
        self._tasks[id] = asyncio.get_running_loop().create_task(self.bound(work))

    async def result(self, id: str) -> HostedResult:
        return await self._tasks[id]

    def end_round(self) -> None:
        self._tasks = {}

    def cancel(self) -> list[asyncio.Task[HostedResult]]:
        """Nobody waits for the results any more."""
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        return tasks

    @property
    def _left(self) -> float:
        running = self._clock() - self._began if self._active else 0.0
        return self._limits.seconds_in_all - self._spent - running

    @property
    def is_over_time(self) -> bool:
        return self._left <= 0

    async def bound(self, work: Work) -> HostedResult:
        """`work` within the limits of a call. It raises nothing but CancelledError."""
        async with self._slots:
            if self.is_over_time:
                return failure("timeout", "the tools of this reply have used up their time")
            left = min(self._limits.seconds, self._left)
            try:
                with self._count_time():
                    async with asyncio.timeout(left):
                        return _cut(await work(), self._limits.result_bytes)
            except TimeoutError:
                return failure("timeout", f"the tool took longer than {left:.3g} s")
            except Exception:
                return failure("unavailable", "the tool could not be run")

    @contextmanager
    def _count_time(self) -> Generator[None]:
        if not self._active:
            self._began = self._clock()
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            if not self._active:
                self._spent += self._clock() - self._began


def _cut(result: HostedResult, most: int) -> HostedResult:
    """With at most so many bytes of text, for the model and in what the client is shown of its sources; media
    that do not fit are left out."""
    left, sources = most, list[FoundSource]()
    for source in result.sources:
        text = _beginning(source.text, left)
        sources.append(source if text is source.text else replace(source, text=text))
        left -= len(text.encode())
    size = sum(len(part.text.encode()) for part in result.content if isinstance(part, Text))
    if size <= most:
        return replace(result, sources=tuple(sources))
    content: list[Text | Media] = []
    for part in result.content:
        if isinstance(part, Text) and most > 0:
            text = _beginning(part.text, most)
            content.append(part if text is part.text else replace(part, text=text + CUT))
            most -= len(part.text.encode())
    return replace(result, content=tuple(content), sources=tuple(sources))


def _beginning(text: str, most: int) -> str:
    """As much of `text` as has so many bytes."""
    data = text.encode()
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore")
