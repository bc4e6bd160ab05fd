"""Several processes that serve one socket: started together, replaced when they die, ended together.

A worker that dies is replaced at once. One that dies soon after its start is replaced after a pause, which
doubles with each such death in a row. Where no worker ever lived longer and they end by themselves, the
gateway cannot start, and the error is raised.
"""

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

_SPAWN = multiprocessing.get_context("spawn")  # a fork would copy locks of threads and half of an event loop
_SOON = 5.0  # seconds: a worker that dies earlier has not really served
_NEVER_STARTED = 6  # early deaths before any worker lived longer
_LONGEST_PAUSE = 10.0


class Workers:
    """`work` runs in each of `count` processes; it ends on SIGTERM, and has `grace` seconds to do so."""

    def __init__(self, work: Callable[[], None], count: int, grace: float) -> None:
        self._work, self._count, self._grace = work, count, grace
        self._alive, self._ours = _SPAWN.Pipe(duplex=False)  # ends with this process, whatever ends it
        self._running: dict[SpawnProcess, float] = {}
        self._early = 0  # deaths soon after a start, in a row
        self._has_served = False  # a worker lived longer than that
        self._paused_until = 0.0

    def run(self) -> None:
        """Until SIGTERM or SIGINT; a second signal ends the workers at once."""
        signalled, signal_end = os.pipe()
        before = {
            number: signal.signal(number, lambda number, frame: _write(signal_end))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while signalled not in self._wait(signalled):
                self._remove_the_dead()
            self._end(signalled)
        finally:
            for process in self._running:
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(signalled)
            os.close(signal_end)

    def _wait(self, signalled: int) -> list[object]:
        """Start the workers that are missing, and wait for a signal, a death, or the end of the pause."""
        pause = self._paused_until - time.monotonic()
        while pause <= 0 and len(self._running) < self._count:
            self._start()
        missing = len(self._running) < self._count
        sentinels = [process.sentinel for process in self._running]
        return list(wait([signalled, *sentinels], max(pause, 0) if missing else None))

    def _start(self) -> None:
        process = _SPAWN.Process(target=_serve, args=(self._work, self._alive))
        process.start()
        self._running[process] = time.monotonic()

    def _remove_the_dead(self) -> None:
        for process in [process for process in self._running if not process.is_alive()]:
            now = time.monotonic()
            if now - self._running.pop(process) >= _SOON:
                self._early, self._has_served = 0, True
                continue
            self._early += 1
            self._paused_until = now + min(0.1 * 2**self._early, _LONGEST_PAUSE)
            failed = (
                process.exitcode or 0
            ) > 0  # else a signal killed it, which says nothing about the next one
            if failed and not self._has_served and self._early >= _NEVER_STARTED:
                raise DragomanError(f"workers keep ending soon after their start (code {process.exitcode})")

    def _end(self, signalled: int) -> None:
        """Terminate all workers and wait for them, unless a second signal comes."""
        os.read(signalled, 1)
        for process in self._running:
            process.terminate()
        until = time.monotonic() + self._grace + 2
        while alive := [process for process in self._running if process.is_alive()]:
            sentinels = [process.sentinel for process in alive]  # of those that die meanwhile, too
            ready = wait([signalled, *sentinels], max(until - time.monotonic(), 0))
            if signalled in ready or not ready:
                return


def _write(pipe: int) -> None:
    os.write(pipe, b"!")


def _serve(work: Callable[[], None], alive: Connection) -> None:
    """In the worker: a process group of its own, so that Ctrl-C in a terminal reaches only the parent."""
    os.setpgrp()
    Thread(target=_end_with, args=(alive,), daemon=True).start()
    work()


def _end_with(alive: Connection) -> None:
    """Nothing is ever sent: recv fails when the parent has ended."""
    try:
        alive.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)
