"""The queue of gateways that share a PostgreSQL: PgQueuer hands each job to one of them.

A worker that runs a job sends heartbeats. Where they stop, another worker gets the job; the fencing token of
the job (see job_table.py) keeps out a worker that was only slow. The tables of PgQueuer have our prefix.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.adapters.persistence import qb
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.logconfig import logger
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.domain.models import Job as QueuedJob
from pgqueuer.domain.settings import DBSettings

from dragoman.core import jsontext
from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.conversations.store.addresses import without_password
from dragoman.gateway.jobs.job_table import PAGE, JobRef
from dragoman.gateway.jobs.queue import Report, RunJob

_PREFIX = "dragoman_"
_BACKGROUND, _BATCH = "dragoman-background", "dragoman-batch"
_INSTALL_LOCK = 0x647261676F6D6170  # advisory lock, next to those of the store
_CONNECTIONS = 4  # of each process, one of which listens
_BATCH_SIZE = 10  # jobs of one dequeue
_RESTART = 2.0  # seconds after the connection was lost
_RETRY = 5.0  # seconds, where the store cannot be used
_FORGET_EVERY = 3600.0  # seconds between deletions of PgQueuer's own log, which nobody reads
_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


class _LogHandler(logging.Handler):
    """What PgQueuer logs becomes a line of our log, without secrets and without the traceback."""

    def __init__(self, report: Callable[[Exception], object]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._report(Exception(f"{record.getMessage()}: {error}" if error else record.getMessage()))


class PostgresQueue:
    """`concurrency`: lines of batches that run at a time in all gateways together. `heartbeat`: seconds
    without one after which a job is handed to another gateway."""

    def __init__(self, url: str, concurrency: int, heartbeat: float, report: Report) -> None:
        self._url, self._report = url, report
        self._concurrency, self._heartbeat = concurrency, heartbeat
        self._settings = DBSettings(prefix=_PREFIX)
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._manager: QueueManager | None = None
        self._worker: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[float | None]] = set()
        self._stopping = False
        self._log = _LogHandler(lambda error: report(self._unusable(error)))

    async def start(self, run: RunJob) -> None:
        logger.addHandler(self._log)
        logger.propagate = False
        self._worker = asyncio.create_task(self._work(run))

    async def add(self, jobs: Sequence[JobRef]) -> None:
        try:
            queries = self._queries(AsyncpgPoolDriver(await self._open()))
            for start in range(0, len(jobs), PAGE):
                page = jobs[start : start + PAGE]
                await queries.enqueue(
                    [_BATCH if ref.batch else _BACKGROUND for ref in page],
                    [jsontext.encode(ref) for ref in page],
                    [0] * len(page),
                )
        except _ERRORS as error:
            raise self._unusable(error) from None

    def unclaimed_since(self) -> float:
        return math.inf  # PgQueuer decides who runs a job

    async def stop(self) -> None:
        self._stopping = True
        if self._manager:
            self._manager.shutdown.set()
        for task in self._running:  # they go back to the queue
            task.cancel()
        if self._worker:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._worker), 5)
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._pool:
            self._pool.terminate()
        logger.removeHandler(self._log)

    async def _work(self, run: RunJob) -> None:
        """Until `stop`. A lost connection ends the manager; a new one begins."""
        forget = asyncio.create_task(self._forget_log())
        try:
            while not self._stopping:
                try:
                    self._manager = await self._new_manager(run)
                    await self._manager.run(
                        dequeue_timeout=timedelta(seconds=self._heartbeat / 2),
                        batch_size=_BATCH_SIZE,
                        heartbeat_timeout=timedelta(seconds=self._heartbeat),
                        shutdown_on_listener_failure=True,
                    )
                except StoreError as error:
                    self._report(error)
                except Exception as error:  # of any kind: without its worker a gateway would run no jobs
                    self._report(self._unusable(error))
                if not self._stopping:
                    await asyncio.sleep(_RESTART)
        finally:
            forget.cancel()

    async def _new_manager(self, run: RunJob) -> QueueManager:
        manager = QueueManager(self._queries(AsyncpgPoolDriver(await self._open())), self._settings.channel)

        async def execute(job: QueuedJob) -> None:
            if self._stopping:  # it was handed out while the gateway began to end
                raise RetryRequested(delay=timedelta())
            ref = JobRef(**jsontext.decode(job.payload or b"{}"))
            task = asyncio.ensure_future(run(ref))
            self._running.add(task)
            try:
                wait = await task
            except StoreError as error:
                self._report(error)
                wait = _RETRY
            except asyncio.CancelledError:
                if not self._stopping:
                    raise
                wait = 0  # the gateway ends: another one runs it
            finally:
                self._running.discard(task)
            if wait is not None:
                raise RetryRequested(delay=timedelta(seconds=wait))

        manager.entrypoint(_BACKGROUND)(execute)
        manager.entrypoint(_BATCH, concurrency_limit=self._concurrency)(execute)
        return manager

    async def _open(self) -> Any:
        async with self._opening:
            if self._pool is None:
                try:
                    pool: Any = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no stubs
                        self._url, min_size=0, max_size=_CONNECTIONS, timeout=10, command_timeout=30
                    )
                    async with pool.acquire() as connection:
                        await self._migrate(connection)
                except (*_ERRORS, ValueError) as error:
                    raise self._unusable(error) from None
                self._pool = pool
            return self._pool

    async def _migrate(self, connection: Any) -> None:
        """Under a lock, so that two gateways that start at once do not both do it."""
        queries = self._queries(AsyncpgDriver(connection))
        await connection.execute("select pg_advisory_lock($1)", _INSTALL_LOCK)
        try:
            if await queries.schema_is_installed():
                await queries.upgrade()
            else:
                await queries.install()
        finally:
            await connection.execute("select pg_advisory_unlock($1)", _INSTALL_LOCK)

    def _queries(self, driver: AsyncpgDriver | AsyncpgPoolDriver) -> Queries:
        builders = (
            qb.QueryBuilderEnvironment(self._settings),
            qb.QueryQueueBuilder(self._settings),
            qb.QuerySchedulerBuilder(self._settings),
        )
        return Queries(driver, *builders)

    async def _forget_log(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_EVERY)
            with suppress(*_ERRORS, StoreError):
                queries = self._queries(AsyncpgPoolDriver(await self._open()))
                await queries.clear_queue_log([_BACKGROUND, _BATCH])

    def _unusable(self, error: Exception) -> StoreError:
        problem = without_password(str(error) or type(error).__name__, self._url)
        return StoreError(f"the job queue {without_password(self._url, self._url)} cannot be used: {problem}")
