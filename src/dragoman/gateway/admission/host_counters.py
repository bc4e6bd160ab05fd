"""Counters of keys shared by the workers of one host, in a file that all of them map.

A kernel file lock makes each decision atomic and is released when its holder dies. Each worker counts in a
slot of its own; slots of dead workers are cleared.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.counters import Decision, take
from dragoman.gateway.observability.metrics_page import is_alive
from dragoman.gateway.process.descriptors import SharedDescriptor

_CELL = 8  # bytes; every cell is a double, which counts exactly up to 2**53


@contextmanager
def counting_file(keys: int, workers: int) -> Generator[SharedDescriptor]:
    """An unnamed file. Two slots for each worker, since a new one may start before a dead one is noticed."""
    with tempfile.TemporaryFile() as file:
        slots = 2 * workers
        file.truncate((max(keys, 1) + 1) * (slots + 1) * _CELL)  # without keys there is one caller
        yield SharedDescriptor(file.fileno())


class HostCounters:
    """Row 0 of the cells holds the process of each slot; row n + 1 of key n its `full_at`, then what each
    slot has under way."""

    def __init__(
        self, file: SharedDescriptor, workers: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now  # time.monotonic is the same for all processes of a host
        self._file = os.dup(file.number)
        self._cells = memoryview(mmap.mmap(self._file, 0)).cast("d")
        self._slots = 2 * workers
        with self._lock():
            self._slot = next(slot for slot in range(1, self._slots + 1) if not self._is_alive(slot))
            self._clear(self._slot)
            self._cells[self._slot] = os.getpid()

    async def enter(self, caller: Caller, lease: str, rated: bool) -> Decision:
        allowance, row = caller.allowance, self._row(caller)
        with self._lock():
            if allowance.concurrency and self._is_full(row, allowance.concurrency):
                return Decision("concurrency")
            rate = None
            if rated and allowance.requests_per_minute:
                self._cells[row], rate = take(self._cells[row], self._now(), allowance.requests_per_minute)
                if rate.wait:
                    return Decision("rate", rate)
            self._cells[row + self._slot] += 1
        caller.inside += 1
        return Decision("", rate)

    def leave(self, caller: Caller, lease: str) -> None:
        """Only this process writes this cell, so no lock is needed."""
        self._cells[self._row(caller) + self._slot] -= 1
        caller.inside -= 1

    async def close(self) -> None:
        """The map stays open for exchanges that still leave."""
        self._clear(self._slot)
        os.close(self._file)

    def _row(self, caller: Caller) -> int:
        return (caller.number + 1) * (self._slots + 1)

    def _is_full(self, row: int, most: int) -> bool:
        """Dead workers are looked for only when the limit seems reached."""
        if sum(self._cells[row + 1 : row + 1 + self._slots]) < most:
            return False
        for slot in range(1, self._slots + 1):
            if self._cells[slot] and not self._is_alive(slot):
                self._clear(slot)
        return sum(self._cells[row + 1 : row + 1 + self._slots]) >= most

    def _clear(self, slot: int) -> None:
        for row in range(0, len(self._cells), self._slots + 1):
            self._cells[row + slot] = 0

    def _is_alive(self, slot: int) -> bool:
        pid = int(self._cells[slot])
        return pid != 0 and is_alive(pid)

    @contextmanager
    def _lock(self) -> Generator[None]:
        import fcntl  # Windows has none, and runs one worker

        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
