"""Several processes that serve one socket: started together, replaced when they die, ended together."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread

from dragoman.core.errors import DragomanError

_SPAWN = multiprocessing.get_context("spawn")  # a fork would take threads and event loops half along
_SOON = 5.0  # seconds: a worker that dies earlier has not really served
_TOO_OFTEN = 6


class Workers:
    """`work` runs in each of `count` processes; it ends on SIGTERM, and has `grace` seconds to do so."""

    def __init__(self, work: Callable[[], None], count: int, grace: float) -> None:
        self._work, self._count, self._grace = work, count, grace
        self._alive, self._ours = _SPAWN.Pipe(duplex=False)  # ends with this process, whatever ends it
        self._running: dict[SpawnProcess, float] = {}
        self._early = 0

    def run(self) -> None:
        """Until SIGTERM or SIGINT; a second one does not wait for anybody."""
        told, tell = os.pipe()
        before = {
            number: signal.signal(number, lambda number, frame: _write(tell))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while told not in self._wait(told):
                self._replace_the_dead()
            self._end(told)
        finally:
            for process in self._running:
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(told)
            os.close(tell)

    def _wait(self, told: int) -> list[object]:
        while len(self._running) < self._count:
            self._start()
        return list(wait([told, *(process.sentinel for process in self._running)]))

    def _start(self) -> None:
        process = _SPAWN.Process(target=_serve, args=(self._work, self._alive))
        process.start()
        self._running[process] = time.monotonic()

    def _replace_the_dead(self) -> None:
        for process in [process for process in self._running if not process.is_alive()]:
            lived = time.monotonic() - self._running.pop(process)
            self._early = self._early + 1 if lived < _SOON else 0
            if self._early >= _TOO_OFTEN:
                raise DragomanError(f"workers keep ending soon after their start (code {process.exitcode})")

    def _end(self, told: int) -> None:
        """Everyone is told once and waited for, unless we are told again."""
        os.read(told, 1)
        for process in self._running:
            process.terminate()
        until = time.monotonic() + self._grace + 2
        while alive := [process for process in self._running if process.is_alive()]:
            sentinels = [process.sentinel for process in alive]  # of those that die meanwhile, too
            ready = wait([told, *sentinels], max(until - time.monotonic(), 0))
            if told in ready or not ready:
                return


def _write(pipe: int) -> None:
    os.write(pipe, b"!")


def _serve(work: Callable[[], None], alive: Connection) -> None:
    """In the worker: a group of its own, so that Ctrl-C in a terminal reaches only who started it."""
    os.setpgrp()
    Thread(target=_end_with, args=(alive,), daemon=True).start()
    work()


def _end_with(alive: Connection) -> None:
    """Nothing is ever sent: this returns when the other end is gone."""
    try:
        alive.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)
