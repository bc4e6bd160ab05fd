"""Real processes on one PostgreSQL, one of which is killed: the other one finishes its jobs, each once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from cli.gateways import serving
from gateway.conversations.databases import PostgresDatabase
from gateway.conversations.stands import messages, responses
from gateway.jobs.conftest import configured
from gateway.jobs.test_background import ended, numbers, started
from gateway.jobs.test_batches import created, finished, line, results, waited
from gateway.jobs.upstreams import HeldModel
from waiting import wait_until


def test_another_gateway_finishes_what_a_killed_one_began(
    held: tuple[HeldModel, str], postgresql: PostgresDatabase, tmp_path: Path
) -> None:
    model, url = held
    text = configured(url, postgresql.url).replace("[jobs]", "[jobs]\nbatch_concurrency = 4")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dragoman.toml").write_text(text)
    quick, slow = [f"quick {i}" for i in range(6)], [f"slow {i}" for i in range(6)]
    with serving(tmp_path / "first") as first, contextlib.ExitStack() as later:
        client = responses(first[0])
        whole = started(client, "slow whole").id
        stream = iter(started(client, "slow stream", stream=True))
        seen = [next(stream) for _ in range(3)]
        batch = created(client, *map(line, [*quick, *slow])).id
        params = {"model": "up:m", "max_tokens": 9, "messages": [{"role": "user", "content": "last"}]}
        other = messages(first[0]).messages.batches.create(requests=[{"custom_id": "a", "params": params}]).id  # pyright: ignore[reportArgumentType, reportAssignmentType] - plain dicts
        wait_until(lambda: {"slow whole", "slow stream", *quick, *slow[:4]} <= set(model.requests))
        wait_until(lambda: client.batches.retrieve(batch).request_counts.completed == 6)  # pyright: ignore[reportOptionalMemberAccess]
        second = later.enter_context(serving(tmp_path / "second"))
        first[1].kill()
        first[1].wait()
        model.released = True
        client = responses(second[0])
        assert ended(client, whole).output_text == "You said: slow whole"
        rest: list[Any] = list(client.responses.retrieve(seen[0].response.id, stream=True, starting_after=2))
        assert rest[-1].response.output_text == "You said: slow stream"
        assert numbers([*seen, *rest]) == sorted(set(numbers([*seen, *rest])))
        done = finished(client, batch)
        assert (done.status, done.request_counts.completed) == ("completed", 12)
        answers = results(client, done.output_file_id)
        assert set(answers) == {*quick, *slow}
        batches = messages(second[0]).messages.batches
        waited(lambda: batches.retrieve(other), lambda batch: batch.processing_status == "ended")
        assert [each.result.type for each in batches.results(other)] == ["succeeded"]
        wait_until(lambda: postgresql.rows("select count(*) from dragoman_pgqueuer") == [(0,)])
    for prompt in (*quick, "last"):
        assert model.requests.count(prompt) == 1, prompt
    for prompt in (*slow, "slow whole", "slow stream"):
        assert model.requests.count(prompt) <= 2, prompt
