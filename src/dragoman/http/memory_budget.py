"""The memory that the buffers of one process may hold together, counted where the buffers are.

It bounds what many clients hold at once; what a single one may hold is bounded where it is buffered (the
table in docs/explanation/robustness.md). Beyond the limit new requests are refused, request bodies under way
too, and upstreams are read only as fast as their replies are taken.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
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

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 0) -> None:  # 0: none
        self.limit, self.used = limit or sys.maxsize, 0


UNLIMITED = MemoryBudget()


def default_limit(workers: int = 1) -> int:
    """Half of the memory of this machine or container, shared by the workers; 0 where that is not known."""
    sizes: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # "max" where the container has no limit
        sizes.append(int(Path(_CGROUP).read_text()))
    return max(min(sizes) // 2 // workers, 64 * _MB) if sizes else 0
