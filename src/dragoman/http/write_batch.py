"""Writes of one event loop iteration, sent together at its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Write = Callable[[bytes], object]
_LARGE = 16 * 1024  # bytes: large enough for a write of its own
_FEW = 2  # writes of an iteration; above this the loop counts as busy
_MANY = 256  # queued writes: a producer that never awaits must not fill the queue


class WriteBatch:
    """Shared by all connections of a loop.

    A write between two requests costs more than its system call: the kernel evicts our caches, and a peer on
    the same machine is woken each time. Consecutive writes share that cost. Under low load nothing is
    delayed: after a quiet iteration the first write is sent at once.
    """

    __slots__ = ("_busy", "_count", "_queue", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._count = 0  # writes of this iteration
        self._busy = False  # the previous iteration had several
        self._queue: deque[tuple[Write, bytes]] = deque()

    def put(self, write: Write, data: bytes) -> None:
        """Call `write(data)` now or at the end of the iteration, in the order of calls."""
        self._count += 1
        if self._count == 1:
            self.loop.call_soon(self._end_iteration)
            if not self._busy:
                write(data)
                return
        self._queue.append((write, data))
        if len(data) > _LARGE or len(self._queue) > _MANY:
            self.flush()

    def flush(self) -> None:
        queue = self._queue
        while queue:
            write, data = queue.popleft()
            write(data)

    def _end_iteration(self) -> None:
        self._busy = self._count > _FEW
        self._count = 0
        if not self._queue:
            return
        try:
            self.flush()
        finally:
            if self._queue:  # a write raised; the others still go out
                self.loop.call_soon(self._end_iteration)
