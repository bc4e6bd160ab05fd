"""Runs one job of the queue: claims it, keeps its lease, and gives it back where it cannot end now.

claimed  --ended---------------------------> done
claimed  --rate limit, overload, ...-------> released, with the time of its next attempt
claimed  --somebody else ended or has it---> interrupted; nothing is written
claimed  --the gateway stops---------------> released at once
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.jobs.job_table import Job, JobRef, JobTable

RunClaimed = Callable[[Job], Awaitable["float | None"]]


class JobRunner:
    """`runs` has the function for background responses and for the lines of batches, under whether it is a
    line. `lease`: seconds after which a job whose process died is taken over."""

    def __init__(
        self,
        table: JobTable,
        unclaimed_since: Callable[[], float],
        lease: float,
        runs: Mapping[bool, RunClaimed],
        report: Callable[[StoreError], object],
    ) -> None:
        self._table, self._unclaimed_since, self._lease = table, unclaimed_since, lease
        self._runs, self._report = runs, report
        self._interrupted: set[JobRef] = set()
        self.running: dict[JobRef, asyncio.Future[float | None]] = {}

    async def run(self, ref: JobRef) -> float | None:
        """The seconds after which it is to be run again; None where it has ended."""
        job = await self._table.claim(ref, time.time() + self._lease, self._unclaimed_since())
        if job is None:
            return None
        work = asyncio.ensure_future(self._runs[bool(ref.batch)](job))
        self.running[ref] = work
        keeper = asyncio.create_task(self._keep_lease(job))
        try:
            wait = await work
        except asyncio.CancelledError:
            if ref in self._interrupted:
                return None
            await asyncio.shield(self._table.release(job, 0))
            raise
        finally:
            keeper.cancel()
            self.running.pop(ref, None)
            self._interrupted.discard(ref)
        if wait is not None:
            await self._table.release(job, time.time() + wait)
        return wait

    def interrupt(self, ref: JobRef) -> None:
        """Its client cancelled it, or another process has it now."""
        if work := self.running.get(ref):
            self._interrupted.add(ref)
            work.cancel()

    async def _keep_lease(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                if not await self._table.extend(job, time.time() + self._lease):
                    self.interrupt(job.ref)
                    return
            except StoreError as error:  # the lease may still hold; the next attempt is fenced in any case
                self._report(error)
