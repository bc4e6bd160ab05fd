"""Runs one job of the queue: claims it, keeps its lease, and gives it back where it cannot end now.

claimed  --ended---------------------------> done
claimed  --rate limit, overload, ...-------> released, with the time of its next attempt
claimed  --somebody else ended or has it---> interrupted; nothing is written
claimed  --the gateway stops---------------> released at once
claimed  --three processes ended with it---> given up: failed
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from dragoman.core.model import Failure
from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.jobs.job_table import Job, JobRef
from dragoman.gateway.jobs.services import JobServices

_INTERRUPTIONS = 3  # a job that ends every process that runs it is not tried for ever
_CRASHES = 3
_AFTER_CRASH = 5.0  # seconds
_ENDED_PROCESSES = Failure("server", "the run was interrupted too often: each process that ran it ended", 500)
_CRASHED = Failure("server", "The gateway failed. Its log tells more.", 500)


class JobKind(Protocol):
    async def run(self, job: Job) -> float | None:
        """The seconds after which it is to be run again; None where it has ended."""
        ...

    async def give_up(self, job: Job, failure: Failure) -> None:
        """End it with this failure."""
        ...


class JobRunner:
    """`kinds`: background responses, and the lines of batches (True). `lease`: seconds after which a job
    whose process died is taken over."""

    def __init__(self, services: JobServices, lease: float, kinds: Mapping[bool, JobKind]) -> None:
        self._services, self._table = services, services.table
        self._lease, self._kinds = lease, kinds
        self._interrupted: set[JobRef] = set()
        self.running: dict[JobRef, asyncio.Future[float | None]] = {}

    async def run(self, ref: JobRef) -> float | None:
        """The seconds after which it is to be run again; None where it has ended."""
        job = await self._table.claim(ref, time.time() + self._lease, self._services.queue.unclaimed_since())
        if job is None:
            return None
        work = asyncio.ensure_future(self._run(job))
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

    async def _run(self, job: Job) -> float | None:
        kind = self._kinds[bool(job.batch)]
        if job.interrupted >= _INTERRUPTIONS:
            await kind.give_up(job, _ENDED_PROCESSES)
            return None
        try:
            return await kind.run(job)
        except StoreError:
            raise
        except Exception as error:
            self._services.gateway.crashed(job.id, error)
            if job.attempt < _CRASHES:
                return _AFTER_CRASH
            await kind.give_up(job, _CRASHED)
            return None

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
                self._services.gateway.report(error)
