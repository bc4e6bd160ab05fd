"""Several processes that serve one socket: started together, replaced when they die, ended together.

A worker that dies is replaced at once. One that dies soon after its start is replaced after a pause, which
doubles with each such death in a row. Where no worker ever lived longer and they end by themselves, the
gateway cannot start, and the error is raised.

A new configuration replaces all workers: new ones are started beside the old ones, and when all of them
serve, the old ones are terminated, which lets their requests end. A handover does the same with the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread

from dragoman.core.errors import DragomanError
from dragoman.gateway.config import Config
from dragoman.gateway.process.handover import (
    LONGEST_START,
    Successor,
    report_ready,
    start_successor,
    took_over,
)
from dragoman.gateway.process.reload import EVERY, SETTLE, ConfigReloader
from dragoman.gateway.process.signals import hold_signals, release_signals

_SPAWN = multiprocessing.get_context("spawn")  # a fork would copy locks of threads and half of an event loop
_SOON = 5.0  # seconds: a worker that dies earlier has not really served
_NEVER_STARTED = 6  # early deaths before any worker lived longer
_LONGEST_PAUSE = 10.0
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2")

Work = Callable[[Callable[[], object]], None]  # serves; calls its argument when it does


class Workers:
    """`work_for` gives what each of `count` processes runs; it ends on SIGTERM, within `grace` seconds.

    `listener` is what a successor of this process inherits; `note` writes a line of the log.
    """

    def __init__(
        self,
        work_for: Callable[[Config], Work],
        reloader: ConfigReloader,
        count: int,
        listener: socket.socket,
        note: Callable[[str], object],
    ) -> None:
        self._work_for, self._reloader, self._work = work_for, reloader, work_for(reloader.config)
        self._count, self._listener, self._note = count, listener, note
        self._alive, self._ours = _SPAWN.Pipe(duplex=False)  # ends with this process, whatever ends it
        self._started, self._report_started = _SPAWN.Pipe(
            duplex=False
        )  # each worker sends its pid when it serves
        self._running: dict[SpawnProcess, float] = {}
        self._replaced: list[SpawnProcess] = []  # they serve until all new ones do
        self._serving: set[int] = set()  # pids
        self._successor: Successor | None = None
        self._successor_until = 0.0
        self._early = 0  # deaths soon after a start, in a row
        self._has_served = False  # a worker lived longer than that
        self._paused_until = 0.0
        # SIGTERM lets a worker drain. SIGINT does not: one that is replaced has a successor on its socket,
        # and would tell a load balancer that nobody is here.
        self._end_signal = signal.SIGINT

    def run(self) -> None:
        """Until SIGTERM or SIGINT, or a successor has taken over; a second signal kills the workers."""
        signalled, signal_end = os.pipe()
        numbers = [getattr(signal, name) for name in _SIGNALS]
        before = {
            number: signal.signal(number, lambda number, frame: _write(signal_end, number))
            for number in numbers
        }
        release_signals()
        try:
            while not self._must_end(signalled, self._wait(signalled)):
                self._remove_the_dead()
            self._end(signalled)
        finally:
            for process in self._all():
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(signalled)
            os.close(signal_end)

    def _must_end(self, signalled: int, ready: list[object]) -> bool:
        if self._started in ready:
            self._worker_started(self._started.recv())
        if self._successor and (
            self._successor.fileno() in ready or time.monotonic() > self._successor_until
        ):
            successor, self._successor = self._successor, None
            if took_over(successor, self._note):
                return True
        if signalled in ready:
            match number := os.read(signalled, 1)[0]:
                case signal.SIGHUP if not self._reloader.hung_up:
                    self._reloader.request()
                case signal.SIGUSR2:
                    self._hand_over()
                case _:
                    self._end_signal = signal.Signals(number)
                    return True
        if config := self._reloader.poll():
            self._replace_all(config)
        return False

    def _replace_all(self, config: Config) -> None:
        self._work = self._work_for(config)
        self._replaced += self._running
        self._running.clear()
        self._serving.clear()

    def _hand_over(self) -> None:
        if not self._successor:
            self._successor = start_successor(self._listener, self._note)
            self._successor_until = time.monotonic() + LONGEST_START

    def _worker_started(self, pid: int) -> None:
        """When all workers serve, those that they replace end, and so does the predecessor of the parent."""
        if pid in [process.pid for process in self._running]:
            self._serving.add(pid)
        if len(self._serving) == self._count:
            for process in self._replaced:
                _signal(process, signal.SIGINT)
            report_ready()

    def _all(self) -> list[SpawnProcess]:
        return [*self._running, *self._replaced]

    def _wait(self, signalled: int) -> list[object]:
        """Start the workers that are missing, and wait for a signal, a death, or the end of a pause."""
        pause = self._paused_until - time.monotonic()
        while pause <= 0 and len(self._running) < self._count:
            self._start()
        pauses = [max(pause, 0)] if len(self._running) < self._count else []
        if self._reloader.requested:
            pauses.append(SETTLE)
        elif self._reloader.config.reload or self._successor:
            pauses.append(EVERY)
        sentinels = [process.sentinel for process in self._all()]
        others = [self._successor.fileno()] if self._successor else []
        return list(wait([signalled, self._started, *others, *sentinels], min(pauses, default=None)))

    def _start(self) -> None:
        process = _SPAWN.Process(target=_serve, args=(self._work, self._alive, self._report_started))
        resource_tracker.ensure_running()  # else the first start starts it, and that unblocks SIGINT
        with hold_signals("SIGINT"):  # one that comes while the worker imports its modules is a traceback
            process.start()
        self._running[process] = time.monotonic()

    def _remove_the_dead(self) -> None:
        self._replaced = [process for process in self._replaced if process.is_alive()]
        for process in [process for process in self._running if not process.is_alive()]:
            now = time.monotonic()
            self._serving.discard(process.pid or 0)
            if now - self._running.pop(process) >= _SOON:
                self._early, self._has_served = 0, True
                continue
            self._early += 1
            self._paused_until = now + min(0.1 * 2**self._early, _LONGEST_PAUSE)
            failed = (
                process.exitcode or 0
            ) > 0  # else a signal killed it, which says nothing of the next one
            if failed and not self._has_served and self._early >= _NEVER_STARTED:
                raise DragomanError(
                    f"workers end again and again soon after their start (code {process.exitcode})"
                )

    def _end(self, signalled: int) -> None:
        """Terminate all workers and wait for them, unless a second signal comes. As long as this process held
        the socket, connections would wait in a queue that nobody reads."""
        self._listener.close()
        for process in self._all():
            _signal(process, self._end_signal)
        config = self._reloader.config
        until = time.monotonic() + config.drain + config.grace + 2
        while alive := [process for process in self._all() if process.is_alive()]:
            sentinels = [process.sentinel for process in alive]  # of those that die meanwhile, too
            ready = wait([signalled, *sentinels], max(until - time.monotonic(), 0))
            if signalled in ready or not ready:
                return


def _signal(process: SpawnProcess, number: signal.Signals) -> None:
    if process.pid and process.is_alive():
        os.kill(process.pid, number)


def _write(pipe: int, number: int) -> None:
    os.write(pipe, bytes([number]))


def _serve(work: Work, alive: Connection, started: Connection) -> None:
    """In the worker: a process group of its own, so that Ctrl-C in a terminal reaches only the parent."""
    os.setpgrp()
    Thread(target=_end_with, args=(alive,), daemon=True).start()

    def serves() -> None:
        release_signals("SIGINT")
        started.send(os.getpid())

    work(serves)


def _end_with(alive: Connection) -> None:
    """Nothing is ever sent: recv fails when the parent has ended."""
    try:
        alive.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)
