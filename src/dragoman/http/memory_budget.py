"""The memory that the buffers of one process may hold together, counted where the buffers are.

It bounds what many clients hold at once, and what one key takes from the others (`MemoryShare`). What a
single connection may hold is bounded where it is buffered (the table in docs/explanation/robustness.md).
Beyond the limit new requests are refused, request bodies under way too, and upstreams are read only as fast
as their replies are taken.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

from dragoman.core.errors import DragomanError

_MB = 1024 * 1024
_CGROUP = "/sys/fs/cgroup/memory.max"
BODY_WEIGHT = 4  # a body that is parsed and translated takes between three and four times its size


class MemoryFull(DragomanError):
    """The buffers of the process hold as much as they may."""

    def __init__(self) -> None:
        super().__init__("the gateway holds as much memory as it may (server.memory_mb); try again soon")


class MemoryBudget:
    """`used` and `limit` are in bytes. It is full where `used >= limit`, which is compared in place: a call
    costs more than everything else here."""

    __slots__ = ("beyond", "common", "limit", "overdrawn_by", "shared", "shares", "used")

    def __init__(self, limit: int = 0) -> None:  # 0: none
        self.limit: int = limit or sys.maxsize
        self.used: int = 0
        self.shares: tuple[MemoryShare, ...] = ()
        self.common = self.limit  # what is no part of a share
        self.shared = self.beyond = 0  # what shares hold, and what of it is more than their parts
        self.overdrawn_by: object = None  # the one reply that may go beyond the limit

    @property
    def budget(self) -> MemoryBudget:
        return self

    def divide(self, shares: tuple[MemoryShare, ...]) -> None:
        """Half of the memory is divided among `shares`. The other half is for whoever needs it first."""
        for share in self.shares:
            share.resize(0)
        self.shares = shares
        for share in shares:
            share.resize(self.limit // 2 // len(shares))
        self.common: int = self.limit - sum(share.part for share in shares)


class MemoryShare:
    """What one caller holds of a budget, with the same two numbers. However much the others hold, a caller
    that holds less than its part is not refused, and all together hold no more than the budget's limit."""

    __slots__ = ("_budget", "_used", "part")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget, self._used, self.part = budget, 0, 0

    @property
    def budget(self) -> MemoryBudget:
        return self._budget

    @property
    def used(self) -> int:
        return self._used

    @used.setter
    def used(self, value: int) -> None:
        budget, change = self._budget, value - self._used
        budget.beyond -= self._beyond
        self._used = value
        budget.beyond += self._beyond
        budget.used += change
        budget.shared += change

    @property
    def limit(self) -> int:
        """Its part, and what nobody else holds of the common half."""
        budget = self._budget
        others = budget.beyond - self._beyond + budget.used - budget.shared
        return self.part + max(budget.common - others, 0)

    @property
    def _beyond(self) -> int:
        return max(self._used - self.part, 0)

    def resize(self, part: int) -> None:
        self._budget.beyond -= self._beyond
        self.part: int = part
        self._budget.beyond += self._beyond


UNLIMITED = MemoryBudget()
# Whose request the current task answers: what its upstream sends is counted there
CALLER_MEMORY: ContextVar[MemoryShare | None] = ContextVar("caller_memory", default=None)


def default_limit(workers: int = 1) -> int:
    """Half of the memory of this machine or container, shared by the workers; 0 where that is not known."""
    sizes: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # "max" where the container has no limit
        sizes.append(int(Path(_CGROUP).read_text()))
    return max(min(sizes) // 2 // workers, 64 * _MB) if sizes else 0
