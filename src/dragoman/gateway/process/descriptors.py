"""An open file that goes along to the processes started with it, and is gone when all of them are."""

from __future__ import annotations

from multiprocessing.reduction import DupFd
from typing import Any


class SharedDescriptor:
    """`number` is what the system knows it by, in this process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.number),)


def _received(handed: Any) -> SharedDescriptor:
    return SharedDescriptor(handed.detach())
