"""All that a gateway needs for jobs: their tables, the queue that fits its store, and what runs them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store import LazyStore, StoreError
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.jobs.background import BackgroundResponses
from dragoman.gateway.jobs.batches import Batches
from dragoman.gateway.jobs.job_table import JobTable
from dragoman.gateway.jobs.queue import JobQueue, ProcessQueue
from dragoman.gateway.jobs.runner import JobRunner
from dragoman.gateway.jobs.services import GatewayParts, JobServices
from dragoman.gateway.jobs.space import StoreSpace

_SWEEP = 60.0  # seconds between two looks for what has expired, on average


class Jobs:
    def __init__(self, config: Config, gateway: GatewayParts) -> None:
        self._store, self._report = gateway.store, gateway.report
        self.table, self.space = JobTable(gateway.store), StoreSpace(config)
        self.queue = _queue(config, self.table, gateway.store, gateway.report)
        services = JobServices(gateway, self.table, self.queue, self.space, config.retention.seconds)
        self.background, self.batches = BackgroundResponses(services), Batches(services)
        kinds = {False: self.background, True: self.batches}
        self.runner = JobRunner(services, config.jobs.takeover_seconds, kinds)
        self.background.interrupt = self.runner.interrupt
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.queue.start(self.runner.run)
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._sweeper:
            self._sweeper.cancel()
        await self.queue.stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP * random.uniform(0.5, 1.5))
            if self._store.opened:
                try:
                    await self.table.sweep()
                    await self.batches.sweep()
                except StoreError as error:
                    self._report(error)


def _queue(
    config: Config, table: JobTable, store: LazyStore, report: Callable[[StoreError], object]
) -> JobQueue:
    concurrency, takeover = config.jobs.batch_concurrency, config.jobs.takeover_seconds
    if config.store_url and not read_address(config.store_url).path:
        from dragoman.gateway.jobs.postgres_queue import PostgresQueue

        return PostgresQueue(config.store_url, concurrency, takeover, report)
    share = max(concurrency // config.workers, 1)
    return ProcessQueue(table, lambda: store.exists, share, report)
