"""The end of several processes."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.core.errors import DragomanError
from dragoman.gateway.config import Config
from dragoman.gateway.process.reload import ConfigReloader
from dragoman.gateway.process.workers import Workers
from waiting import NEVER, StillClock, finish


def workers_of(count: int, grace: int) -> Any:
    config = Config(grace=grace)
    reloader = ConfigReloader(config, lambda: config, bool)
    return Workers(lambda config: lambda started: None, reloader, count, socket.socket(), bool)


class Dying:
    """A worker that is seen alive once, and has ended when it is looked at again."""

    def __init__(self) -> None:
        self.sentinel, end = os.pipe()
        os.close(end)  # ready, as the sentinel of a process that has ended is
        self._seen, self.pid = 0, None  # nobody to send a signal to

    def is_alive(self) -> bool:
        self._seen += 1
        return self._seen == 1


class Dead:
    """A worker that has ended."""

    def __init__(self, exitcode: int) -> None:
        self.exitcode, self.sentinel, self.pid = exitcode, 0, 1

    def is_alive(self) -> bool:
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    clock = StillClock()
    monkeypatch.setattr("dragoman.gateway.process.workers.time", SimpleNamespace(monotonic=clock))
    return clock


def dies(workers: Any, exitcode: int, lived: float, clock: StillClock) -> float:
    """The pause after the death of one more worker."""
    workers._running = {Dead(exitcode): clock() - lived}
    workers._remove_the_dead()
    return max(workers._paused_until - clock(), 0.0)


def test_workers_that_are_killed_are_replaced_for_ever_and_ever_later(clock: StillClock) -> None:
    workers = workers_of(1, grace=1)
    pauses = [dies(workers, -9, 0.1, clock) for _ in range(20)]
    assert pauses[0] < 0.5 < pauses[5] < pauses[19] <= 10.0
    assert dies(workers, 1, 60.0, clock) <= 10.0
    for _ in range(20):  # it has served before, so it will again
        dies(workers, 1, 0.1, clock)


def test_workers_that_cannot_start_end_the_gateway(clock: StillClock) -> None:
    workers = workers_of(1, grace=1)
    for _ in range(5):
        dies(workers, 1, 0.1, clock)
    with pytest.raises(DragomanError, match="soon after their start"):
        dies(workers, 1, 0.1, clock)


def test_workers_that_end_at_once_are_not_waited_for() -> None:
    workers = workers_of(2, grace=int(NEVER))
    dying = Dying()
    workers._running = {dying: 0.0}
    signalled, signal_end = os.pipe()
    finish(workers._end, signalled)
    assert workers._listener.fileno() == -1, "connections would wait in a queue that nobody reads"
    for end in (signalled, signal_end, dying.sentinel):
        os.close(end)
