"""Semaphore with a bounded queue, round-robin between callers.

Neither clock nor loop: whoever waits is woken by a callback, so sequences of events can be tested as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct


class Permit(Struct, eq=False):
    """One visit. `leave` may be said at any time and more than once: it gives back what is held."""

    _gate: QueuedSemaphore
    who: str
    state: Literal["inside", "waiting", "out"]
    wake: Callable[[], object] = bool  # called when waiting is over, one way or the other

    def leave(self) -> None:
        self._gate.left(self)


class QueuedSemaphore:
    """At most `capacity` are inside and `queue` wait. Nobody waits while there is room."""

    def __init__(self, capacity: int, queue: int) -> None:
        self.capacity, self.queue = capacity, queue
        self.inside = self.waiting = 0
        self._lines: dict[str, dict[Permit, None]] = {}  # of each caller; the first one is next

    @property
    def full(self) -> bool:
        return self.inside >= self.capacity

    def ask(self, who: str) -> Permit | None:
        """Inside at once, or in line; None where the line is full, too."""
        if self.inside < self.capacity:
            self.inside += 1
            return Permit(self, who, "inside")
        if self.waiting >= self.queue and not self.displace(who):
            return None
        ticket = Permit(self, who, "waiting")
        self._lines.setdefault(who, {})[ticket] = None
        self.waiting += 1
        return ticket

    def displace(self, who: str) -> bool:
        """Whoever came last of those with the longest line goes, if `who` has a shorter one."""
        longest = max(self._lines.values(), key=len) if self._lines else None
        if longest is None or len(longest) <= len(self._lines.get(who, ())) + 1:
            return False
        newest = next(reversed(longest))
        self._forget(newest)
        newest.wake()
        return True

    def left(self, ticket: Permit) -> None:
        if ticket.state == "waiting":
            self._forget(ticket)
        elif ticket.state == "inside":
            ticket.state = "out"
            if self._lines:
                self._admit_next()
            else:
                self.inside -= 1

    def _admit_next(self) -> None:
        """The place of who left passes on; the line that moved goes behind the others."""
        who, line = next(iter(self._lines.items()))
        ticket = next(iter(line))
        self._forget(ticket)
        if line:
            self._lines[who] = self._lines.pop(who)
        ticket.state = "inside"
        ticket.wake()

    def _forget(self, ticket: Permit) -> None:
        line = self._lines[ticket.who]
        del line[ticket]
        if not line:
            del self._lines[ticket.who]
        self.waiting -= 1
        ticket.state = "out"


async def acquired(ticket: Permit, seconds: float) -> bool:
    """Wait until `ticket` is admitted; False where that did not happen in time."""
    if ticket.state == "waiting":
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        ticket.wake = lambda: over.done() or over.set_result(None)
        timer = loop.call_later(seconds, _give_up, ticket)
        try:
            await over
        except BaseException:  # cancelled, perhaps in the moment of being let in
            ticket.leave()
            raise
        finally:
            timer.cancel()
    return ticket.state == "inside"


def _give_up(ticket: Permit) -> None:
    if ticket.state == "waiting":
        ticket.leave()
        ticket.wake()
