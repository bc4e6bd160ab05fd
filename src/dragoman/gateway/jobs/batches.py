"""Batches: accepted whole, run line by line on the queue, their results read as JSON lines.

Each line is an ordinary request of the key that created the batch (see replay.py), so the limits of the key
and of the providers hold: a line that they refuse waits and is run again, until the batch's deadline.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Failure
from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.jobs.batch_table import BatchTable, StoredBatch
from dragoman.gateway.jobs.job_table import Job, JobEnd, JobSettings
from dragoman.gateway.jobs.replay import CapturedResponse, ReplayedExchange
from dragoman.gateway.jobs.services import JobServices
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import GatewayRequest
from dragoman.protocols import codec, server
from dragoman.serving.conversations import ConversationError
from dragoman.serving.jobs import (
    DAY,
    BatchCodec,
    BatchLine,
    BatchRequest,
    LineOutcome,
    LineStatus,
    StoredFile,
)

_ATTEMPTS = 20  # of a line whose upstreams are overloaded
_LONGEST_WAIT = 60.0
_WORTH_WAITING = ("rate_limit", "overloaded")
_LINE = 500  # bytes of one, at least: many are worked on in a thread
_ROWS = 200  # results that are read at a time


class Batches:
    def __init__(self, services: JobServices) -> None:
        self._services, self.life, self.space = services, services.life, services.space
        self.table = BatchTable(services.gateway.store)

    async def create(
        self,
        request: GatewayRequest,
        batch_codec: BatchCodec,
        asked: BatchRequest,
        lines: list[BatchLine],
        errors: list[Any],
    ) -> StoredBatch:
        """Durable when it returns. With `errors` it has ended already."""
        now, protocol = time.time(), request.client.name
        settings = {**asked.settings, "output_life": asked.output_life}
        batch = StoredBatch(
            owner=request.owner,
            id=batch_codec.id_prefix + os.urandom(16).hex(),
            protocol=protocol,
            settings=jsontext.encode({**settings, "errors": errors} if errors else settings),
            total=0 if errors else len(lines),
            created=now,
            deadline=now + DAY,
            cancelled=None,
            ended=now if errors else None,
            expires=now + max(self.life, DAY),
        )
        jobs: list[Job] = []
        if not errors:
            jobs = await run_for(len(lines) * _LINE, list, self._line_jobs(request, batch, lines))
        try:
            await self._services.table.add_lines(jobs, self.space)
        except ConversationError:  # the store has room for a part of it at most
            await self.table.delete(batch.owner, batch.id)
            raise
        await self.table.add(batch)
        try:
            await self._services.queue.add([job.ref for job in jobs])
        except StoreError:  # the client gets an error, so nothing of it may run
            await self.table.cancel(batch)
            raise
        return batch

    def _line_jobs(
        self, request: GatewayRequest, batch: StoredBatch, lines: list[BatchLine]
    ) -> Iterable[Job]:
        forwarded = request.protocol_server.forwards
        headers = {name: request.headers[name] for name in forwarded if name in request.headers}
        settings = jsontext.encode(JobSettings(headers))
        caller = request.caller.id if request.caller else ""
        for number, line in enumerate(lines):
            yield Job(
                owner=batch.owner,
                id=f"{batch.id.rpartition('_')[2]}_{number}",
                batch=batch.id,
                line=number,
                custom_id=line.custom_id,
                protocol=batch.protocol,
                caller=caller,
                path=line.path,
                settings=settings,
                body=line.body,
                reply=b"",
                status="queued",
                attempt=0,
                interrupted=0,
                created=batch.created,
                ended=None,
                expires=batch.expires,
            )

    async def run(self, job: Job) -> float | None:
        """One line. The seconds after which it is to be run again; None where it has ended."""
        batch = await self.table.get(job.owner, job.batch)
        if batch is None or batch.cancelled:
            await self._finish(job, "cancelled", b"")
        elif time.time() > batch.deadline:
            await self._finish(job, "expired", b"")
        else:
            writer = CapturedResponse()
            exchange = await self._services.gateway.replay(job, writer)
            wait = _wait(job, exchange)
            if wait is not None:
                return wait
            status = "completed" if 200 <= exchange.status < 300 else "failed"
            await self._finish(job, status, jsontext.encode(_result(job, status, exchange)))
        if batch:
            await self.end(batch)
        return None

    async def give_up(self, job: Job, failure: Failure) -> None:
        status, error = codec(job.protocol).encode_error(failure)
        outcome = LineOutcome(job.id, job.custom_id, "failed", status, error)
        await self._finish(job, "failed", jsontext.encode(_codec(job.protocol).encode_result(outcome)))
        if batch := await self.table.get(job.owner, job.batch):
            await self.end(batch)

    async def _finish(self, job: Job, status: LineStatus, reply: bytes) -> None:
        end = JobEnd(status, reply, job.expires)
        if await self._services.table.finish(job, end):
            self._services.gateway.metrics.count_job("batch", status)

    async def end(self, batch: StoredBatch) -> None:
        """Where no line is left: the files of its results are created, then it is ended."""
        if batch.ended is not None or await self.table.has_lines_left(batch):
            return
        batch_codec = _codec(batch.protocol)
        if batch_codec.output_id:
            life = float(batch.read_settings().get("output_life") or 0)
            for answers, (count, size) in (await self.table.result_sizes(batch)).items():
                if count:
                    now = time.time()
                    name = f"{batch.id}_{'output' if answers else 'error'}.jsonl"
                    expires = now + life if life else batch.expires
                    id = batch_codec.output_id(batch.id, answers)
                    file = StoredFile(id, name, "batch_output", batch.id, size, now, expires)
                    await self.table.add_file(batch.owner, file, b"")
        await self.table.end(batch)

    async def results(self, batch: StoredBatch, answers: bool | None = None) -> AsyncIterator[bytes]:
        """JSON lines, some at a time; only the answers, or only the rest."""
        batch_codec, after = _codec(batch.protocol), -1
        while rows := await self.table.results(batch, after, _ROWS):
            after = rows[-1][0]
            texts = [
                reply or jsontext.encode(batch_codec.encode_result(_not_run(id, custom_id, status)))
                for _, id, custom_id, status, reply in rows
                if answers is None or answers is (status == "completed")
            ]
            yield b"".join(text + b"\n" for text in texts)

    async def sweep(self) -> None:
        """Deadlines, and batches whose end nobody has noticed."""
        for batch in await self.table.open_batches():
            if time.time() > batch.deadline:
                await self.table.expire(batch)
            await self.end(batch)
        await self.table.sweep()


def _codec(protocol: str) -> BatchCodec:
    found = server(protocol).batches
    assert found, "only protocols with batches come here"
    return found


def _result(job: Job, status: LineStatus, exchange: ReplayedExchange) -> dict[str, Any]:
    outcome = LineOutcome(
        job.id,
        job.custom_id,
        status,
        exchange.status,
        jsontext.decode(exchange.body) if exchange.body else {},
        exchange.record.id,
        exchange.record.losses,
    )
    return _codec(job.protocol).encode_result(outcome)


def _not_run(id: str, custom_id: str, status: str) -> LineOutcome:
    return LineOutcome(id, custom_id, cast(LineStatus, status))


def _wait(job: Job, exchange: ReplayedExchange) -> float | None:
    """Seconds until the next attempt; None where the answer stands."""
    record, failure = exchange.record, exchange.record.failure
    if failure is None or failure.kind not in _WORTH_WAITING:
        return None
    if not record.shed and job.attempt >= _ATTEMPTS:
        return None
    wait = min(failure.retry_after or 2.0 ** min(job.attempt, 10), _LONGEST_WAIT)
    return wait * random.uniform(1.0, 1.2)
