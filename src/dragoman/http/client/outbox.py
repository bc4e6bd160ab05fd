"""Writing together: what one turn of the loop has to say goes out at its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Write = Callable[[bytes], object]
_LARGE = 16 * 1024  # bytes: worth a write of its own
_FEW = 2  # writes of a turn
_MANY = 256  # writes: somebody goes on without a look at whether they arrive


class Outbox:
    """Of one loop; the connections of a busy server share it.

    A write between two requests costs more than the system call: the kernel leaves its own traces in the
    caches, and a peer on this machine is woken each time. Writes in a row share that. Where few are served,
    nobody waits: after a quiet turn the first write goes out at once.
    """

    __slots__ = ("_busy", "_puts", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._puts = 0  # in this turn
        self._busy = False  # the turn before had several
        self._waiting: deque[tuple[Write, bytes]] = deque()

    def put(self, write: Write, data: bytes) -> None:
        """`write` is called with `data` now, or before the loop waits for anything; in the order of puts."""
        self._puts += 1
        if self._puts == 1:
            self.loop.call_soon(self._end)
            if not self._busy:
                write(data)
                return
        self._waiting.append((write, data))
        if len(data) > _LARGE or len(self._waiting) > _MANY:
            self.send()

    def send(self) -> None:
        """All that waits, now."""
        waiting = self._waiting
        while waiting:
            write, data = waiting.popleft()
            write(data)

    def _end(self) -> None:
        """The turn does."""
        self._busy = self._puts > _FEW
        self._puts = 0
        try:
            self.send()
        finally:
            if self._waiting:  # somebody's write failed; the others go on
                self.loop.call_soon(self._end)
