"""The interface of job queues, and the queue of a gateway with a store of its own: SQLite, or memory.

Its jobs run in this process. The table of jobs is the queue: a job that nobody holds a lease on is due, so
what a process left behind when it ended is taken up by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.jobs.job_table import JobRef, JobTable

# Runs a job. Returns the seconds after which it is to be run again; None where it has ended.
RunJob = Callable[[JobRef], Awaitable["float | None"]]
Report = Callable[[StoreError], object]
_BACKGROUND = 1000  # background responses at a time; more wait
_POLL = 5.0  # seconds between looks for jobs of a process that died, or that wait for a retry


class JobQueue(Protocol):
    async def start(self, run: RunJob) -> None: ...

    async def add(self, jobs: Sequence[JobRef]) -> None:
        """They are in the table already. Durable when it returns."""
        ...

    def unclaimed_since(self) -> float:
        """A job whose lease ended before this time may be claimed."""
        ...

    async def stop(self) -> None:
        """Jobs under way are interrupted; they are run again by whoever starts next."""
        ...


class ProcessQueue:
    """`concurrency`: lines of batches that run at a time."""

    def __init__(
        self,
        table: JobTable,
        exists: Callable[[], bool],
        concurrency: int,
        report: Report,
        poll: float = _POLL,
    ) -> None:
        self._table, self._exists, self._report, self._poll = table, exists, report, poll
        self._limits = {False: _BACKGROUND, True: concurrency}  # by whether it is a line of a batch
        self._running: dict[JobRef, asyncio.Task[None]] = {}
        self._due = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def start(self, run: RunJob) -> None:
        self._pump = asyncio.create_task(self._work(run))
        if self._exists():  # jobs of an earlier process; an unused store is not created for this
            self._due.set()

    async def add(self, jobs: Sequence[JobRef]) -> None:
        self._due.set()

    def unclaimed_since(self) -> float:
        return time.time()

    async def stop(self) -> None:
        tasks = [task for task in (self._pump, *self._running.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, run: RunJob) -> None:
        await self._due.wait()
        while True:
            self._due.clear()
            try:
                for of_batches, limit in self._limits.items():
                    await self._fill(run, of_batches, limit)
            except StoreError as error:
                self._report(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):  # wait_for may swallow a cancellation (Python 3.11)
                    await self._due.wait()

    async def _fill(self, run: RunJob, of_batches: bool, limit: int) -> None:
        running = sum(bool(ref.batch) is of_batches for ref in self._running)
        if running >= limit:
            return
        for ref in await self._table.list_unclaimed(of_batches, limit):
            if running < limit and ref not in self._running:
                running += 1
                self._running[ref] = asyncio.create_task(self._run_one(run, ref))

    async def _run_one(self, run: RunJob, ref: JobRef) -> None:
        try:
            wait = await run(ref)
            if wait is not None:
                asyncio.get_running_loop().call_later(wait, self._due.set)
        except StoreError as error:
            self._report(error)
        finally:
            del self._running[ref]
            self._due.set()
