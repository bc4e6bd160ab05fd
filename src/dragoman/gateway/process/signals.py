"""Signals that come before their handlers wait for them. Without a handler, SIGHUP and SIGUSR2 end a process,
and whoever sees that the gateway listens may send one while it still starts."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

_OF_THE_GATEWAY = ("SIGHUP", "SIGUSR2")


@contextmanager
def hold_signals(*names: str) -> Generator[None]:
    """Those signals, or the gateway's own, wait until `release_signals` or the end of the block. A process
    that is started meanwhile inherits that."""
    if sys.platform == "win32":
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _numbers(names))
    try:
        yield
    finally:
        release_signals(*names)


def release_signals(*names: str) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _numbers(names))


def _numbers(names: tuple[str, ...]) -> list[signal.Signals]:
    return [signal.Signals[name] for name in names or _OF_THE_GATEWAY]
