"""Semaphore with a bounded queue, round-robin between callers.

    request   a permit is free       -> held
              the queue has room     -> waiting
              it is full             -> refused, or the newest permit of the longest queue is (displace)
    waiting   a permit comes free    -> held       (callers take turns)
              displaced, timed out   -> released
    held      leave                  -> released   (the next one waiting is held)

It has neither clock nor event loop: waiters are woken by a callback, so sequences can be tested as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct


class Permit(Struct, eq=False):
    """`leave` may be called in any state and more than once."""

    _semaphore: QueuedSemaphore
    caller: str
    state: Literal["held", "waiting", "released"]
    wake: Callable[[], object] = bool  # called when the state changes from waiting

    def leave(self) -> None:
        self._semaphore.release(self)


class QueuedSemaphore:
    """At most `capacity` permits are held and `queue` wait. None waits while one is free."""

    def __init__(self, capacity: int, queue: int) -> None:
        self.capacity, self.queue = capacity, queue
        self.held = self.waiting = 0
        self._queues: dict[str, dict[Permit, None]] = {}  # by caller, in the order of their turns

    def resize(self, capacity: int, queue: int) -> None:
        """A smaller capacity is reached as permits are released; a larger one wakes waiters at once."""
        self.capacity, self.queue = capacity, queue
        while self._queues and self.held < capacity:
            self.held += 1
            self._grant_next()

    @property
    def full(self) -> bool:
        return self.held >= self.capacity

    def request(self, caller: str) -> Permit | None:
        """A permit, held or waiting; None where the queue is full."""
        if self.held < self.capacity:
            self.held += 1
            return Permit(self, caller, "held")
        if self.waiting >= self.queue and not self.displace(caller):
            return None
        permit = Permit(self, caller, "waiting")
        self._queues.setdefault(caller, {})[permit] = None
        self.waiting += 1
        return permit

    def displace(self, caller: str) -> bool:
        """Remove the newest permit of the longest queue, if the queue of `caller` is shorter."""
        longest = max(self._queues.values(), key=len) if self._queues else None
        if longest is None or len(longest) <= len(self._queues.get(caller, ())) + 1:
            return False
        newest = next(reversed(longest))
        self._dequeue(newest)
        newest.wake()
        return True

    def release(self, permit: Permit) -> None:
        if permit.state == "waiting":
            self._dequeue(permit)
        elif permit.state == "held":
            permit.state = "released"
            self.free()

    def free(self) -> None:
        """One that was held comes free."""
        if self._queues and self.held <= self.capacity:
            self._grant_next()
        else:
            self.held -= 1

    def _grant_next(self) -> None:
        """The caller that was served goes behind the others."""
        caller, queue = next(iter(self._queues.items()))
        permit = next(iter(queue))
        self._dequeue(permit)
        if queue:
            self._queues[caller] = self._queues.pop(caller)
        permit.state = "held"
        permit.wake()

    def _dequeue(self, permit: Permit) -> None:
        queue = self._queues[permit.caller]
        del queue[permit]
        if not queue:
            del self._queues[permit.caller]
        self.waiting -= 1
        permit.state = "released"


async def wait_for_permit(permit: Permit, seconds: float) -> bool:
    """Wait until `permit` is held; False where it was displaced or timed out."""
    if permit.state == "waiting":
        loop = asyncio.get_running_loop()
        changed = loop.create_future()
        permit.wake = lambda: changed.done() or changed.set_result(None)
        timer = loop.call_later(seconds, _time_out, permit)
        try:
            await changed
        except BaseException:  # cancelled, perhaps just when it was granted
            permit.leave()
            raise
        finally:
            timer.cancel()
    return permit.state == "held"


def _time_out(permit: Permit) -> None:
    if permit.state == "waiting":
        permit.leave()
        permit.wake()
