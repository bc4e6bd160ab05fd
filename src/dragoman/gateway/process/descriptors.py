"""File descriptors: how many this process may hold, and those that it shares with its workers."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.reduction import DupFd
from typing import Any

_ENOUGH = 65_536


class SharedDescriptor:
    """A descriptor that can be passed to a worker process; `number` is its number in this process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, (DupFd(self.number),)


def _receive(handed: Any) -> SharedDescriptor:
    return SharedDescriptor(handed.detach())


def raise_limit() -> None:
    """The soft limit of open files is often 1024, which a few hundred streams exhaust."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
