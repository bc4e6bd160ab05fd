"""The table of jobs and its queues: one answer for each job, whoever writes; what goes wrong around them."""

from __future__ import annotations

import asyncio
import io
import time
from contextlib import suppress
from typing import Any

import openai
import pytest
from anthropic.types.messages import MessageBatch
from msgspec.structs import replace
from openai.types import Batch, FileObject

from dragoman.core import jsontext
from dragoman.gateway.conversations.store import StoredTurn, StoreError, open_store
from dragoman.gateway.jobs.job_table import Job, JobEnd, JobEvents, JobRef, JobTable
from gateway.conversations.databases import Database, PostgresDatabase
from gateway.conversations.stands import messages, responses
from gateway.jobs.conftest import configured
from gateway.jobs.test_background import ended, started
from gateway.jobs.test_batches import created, finished, line, results
from gateway.jobs.upstreams import HeldModel
from gateway.plain import send
from gateway.stands import Stand, gateway
from waiting import wait_until

JOB = Job("o", "j", "", 0, "", "openai-responses", "", "/v1/responses", b"{}", b"{}", b"{}", "queued", 0, 0,
          1.0, None, 9e9)  # fmt: skip


def test_only_the_last_attempt_writes(database: Database) -> None:
    async def run() -> None:
        store = open_store(database.url)
        table = JobTable(store)
        await table.add(JOB, JobEvents(0, [b"0", b"1"]))
        now = time.time()
        first = await table.claim(JOB.ref, now + 60, now)
        assert first
        assert await table.claim(JOB.ref, now + 60, now) is None  # the lease is held
        second = await table.claim(JOB.ref, now + 60, now + 100)
        assert second
        assert (first.attempt, second.attempt, second.interrupted) == (1, 2, 1)
        turn = StoredTurn("j", "o", "openai-responses", None, b"[]", b"{}")
        assert not await table.extend(first, now + 60)
        assert not await table.add_events(first, JobEvents(2, [b"late"]))
        assert not await table.finish(first, JobEnd("completed", b"late", 9e9, turn, JobEvents(2, [b"late"])))
        assert await store.get("o", "j") is None
        assert await table.add_events(second, JobEvents(2, [b"2"]))
        assert await table.finish(second, JobEnd("completed", b"done", 9e9, turn, JobEvents(3, [b"3", b"4"])))
        assert not await table.cancel(second, b"late")
        job = await table.get("o", "j")
        assert job
        assert (job.status, bytes(job.reply), bytes(job.body)) == ("completed", b"done", b"")
        assert await store.get("o", "j")
        for after, numbers in ((-1, [0, 1, 2, 3, 4]), (0, [1, 2, 3, 4]), (3, [4]), (4, []), (9, [])):
            assert [number for number, _ in await table.events("o", "j", after)] == numbers
        await store.close()

    asyncio.run(run())


def test_a_cancellation_comes_after_all_events(database: Database) -> None:
    async def run() -> None:
        store = open_store(database.url)
        table = JobTable(store)
        await table.add(JOB, JobEvents(0, [b"0", b"1"]))
        job = await table.claim(JOB.ref, 9e9, time.time())
        assert job
        await table.add_events(job, JobEvents(2, [b"2"]))
        assert not await table.cancel(job, b"", JobEvents(2, [b"cancelled"]))  # an event came between
        assert not await table.has_ended("o", "j")
        assert await table.cancel(job, b"", JobEvents(3, [b"cancelled"]))
        assert await table.has_ended("o", "j")
        assert not await table.add_events(job, JobEvents(4, [b"late"]))
        await store.close()

    asyncio.run(run())


def test_what_has_expired_is_deleted(database: Database) -> None:
    async def run() -> None:
        store = open_store(database.url)
        table = JobTable(store)
        await table.add(replace(JOB, expires=1.0), JobEvents(0, [b"0"]))
        await table.add(replace(JOB, id="k"))
        await table.sweep()
        assert await table.get("o", "j") is None
        assert await table.get("o", "k")
        await store.close()

    asyncio.run(run())
    assert database.rows("select count(*) from dragoman_job_events") == [(0,)]


def test_the_queue_survives_a_lost_connection(
    postgresql: PostgresDatabase, held: tuple[HeldModel, str]
) -> None:
    with gateway(configured(held[1], postgresql.url)) as stand:
        client = responses(stand)
        ended(client, started(client, "one").id)
        postgresql.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )

        def begun() -> str:  # the pool has broken connections, each of which may fail a request once
            with suppress(openai.APIStatusError):
                return started(client, "two").id
            return ""

        assert ended(client, wait_until(begun)).status == "completed"


@pytest.mark.parametrize("crash", [False, True])
def test_what_cannot_be_run_is_given_up(
    stand: Stand, model: HeldModel, database: Database, monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    """A job that ended three processes, and one that the gateway fails to run."""
    client = responses(stand)
    if crash:
        monkeypatch.setattr("dragoman.gateway.jobs.runner._AFTER_CRASH", 0.01)

        async def broken(*values: object) -> None:
            raise KeyError("a secret")

        monkeypatch.setattr(stand.gateway.jobs.background, "run", broken)
        monkeypatch.setattr(stand.gateway.jobs.batches, "run", broken)
        id, batch = started(client, "one").id, created(client, line("two")).id
    else:
        id, batch = started(client, "slow one").id, created(client, line("slow two")).id
        wait_until(lambda: len(model.requests) == 2)
        for ref in list(stand.gateway.jobs.runner.running):
            stand.gateway.jobs.runner.interrupt(ref)
        wait_until(lambda: not stand.gateway.jobs.runner.running)
        database.rows("update dragoman_jobs set interrupted = 2, lease = 0 returning id")
        if isinstance(database, PostgresDatabase):  # as if the process had ended: nobody sends heartbeats
            refs = database.rows("select owner, id, batch from dragoman_jobs")
            queue: Any = stand.gateway.jobs.queue
            adding = queue.add([JobRef(*row) for row in refs])
            asyncio.run_coroutine_threadsafe(adding, queue._worker.get_loop()).result(10)
    reply = ended(client, id)
    assert reply.status == "failed"
    assert ("Its log" if crash else "interrupted") in reply.error.message
    done = finished(client, batch)
    assert results(client, done.error_file_id).popitem()[1]["response"]["status_code"] == 500
    assert "a secret" not in str(stand.lines)


def test_a_store_that_fails_is_an_error_at_once(
    stand: Stand, model: HeldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = responses(stand)
    file = client.files.create(file=("a", io.BytesIO(jsontext.encode(line("one")))), purpose="batch").id

    async def failing(*values: object) -> None:
        raise StoreError("no queue")

    monkeypatch.setattr(stand.gateway.jobs.queue, "add", failing)
    with pytest.raises(openai.APIStatusError) as caught:
        started(client, "one")
    assert caught.value.status_code == 503
    with pytest.raises(openai.APIStatusError) as caught:
        client.batches.create(input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h")
    assert caught.value.status_code == 503
    assert [batch.status for batch in client.batches.list()] == ["cancelled"] or not model.requests


def test_every_field_of_the_vendors_objects_is_there(stand: Stand) -> None:
    client = responses(stand)
    file = client.files.create(file=("a", io.BytesIO(jsontext.encode(line("one")))), purpose="batch").id
    batch = client.batches.create(
        input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h"
    ).id
    params: Any = {"model": "up:m", "max_tokens": 1, "messages": [{"role": "user", "content": "p"}]}
    other = messages(stand).messages.batches.create(requests=[{"custom_id": "a", "params": params}]).id
    for path, shape in (
        (f"/v1/files/{file}", FileObject),
        (f"/v1/batches/{batch}", Batch),
        (f"/v1/messages/batches/{other}", MessageBatch),
    ):
        found = send(stand.url, "GET", path).json
        assert set(shape.model_fields) == set(found), path
        shape.model_validate(found)


def test_exchanges_in_the_background_are_recorded(held: tuple[HeldModel, str]) -> None:
    text = configured(held[1], "memory:", '[inspector]\nenabled = true\nadmin_keys = ["admin-key-1"]\n')
    with gateway(text) as stand:
        client = responses(stand)
        list(started(client, "one", stream=True))
        recorder = stand.gateway.recorder
        assert recorder
        wait_until(lambda: recorder.flush() or len(recorder.store.summaries()) == 2)
        found = [recorder.store.get(summary.id) for summary in recorder.store.summaries()]
    assert len(found) == 2  # what was accepted, and its run
    assert sum("You said: " in str(recording) for recording in found) == 2
    assert any(recording and recording.attempts for recording in found)
