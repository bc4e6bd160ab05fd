"""Batches and files, driven by OpenAI's and Anthropic's SDKs, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from typing import Any

import anthropic
import openai
import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store import Retention, open_store
from dragoman.gateway.jobs.batch_table import BatchTable
from dragoman.gateway.jobs.job_table import Job, JobTable
from dragoman.gateway.jobs.space import StoreSpace
from dragoman.protocols import server
from dragoman.serving.conversations import ConversationError
from dragoman.serving.jobs import StoredFile
from gateway.canned import Answer, Canned, provider
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, messages, responses, stored_at
from gateway.jobs.conftest import configured
from gateway.jobs.upstreams import HeldModel
from gateway.plain import send
from gateway.running import running
from gateway.stands import CLIENT_KEY, Stand, gateway
from waiting import wait_until

JOB = Job("o", "j", "", 0, "", "openai-responses", "", "/v1/responses", b"{}", b"{}", b"{}", "queued", 0, 0,
          1.0, None, 9e9)  # fmt: skip
ENDED = ("completed", "failed", "expired", "cancelled")


def line(
    prompt: str, endpoint: str = "/v1/chat/completions", model: str = "up:m", **more: Any
) -> dict[str, Any]:
    content = (
        {"input": prompt}
        if endpoint == "/v1/responses"
        else {"messages": [{"role": "user", "content": prompt}]}
    )
    return {
        "custom_id": prompt,
        "method": "POST",
        "url": endpoint,
        "body": {"model": model, **content, **more},
    }


def uploaded(client: openai.OpenAI, *lines: dict[str, Any] | bytes) -> str:
    texts = [each if isinstance(each, bytes) else jsontext.encode(each) for each in lines]
    return client.files.create(file=("in.jsonl", io.BytesIO(b"\n".join(texts))), purpose="batch").id


def created(client: openai.OpenAI, *lines: dict[str, Any] | bytes, **more: Any) -> Any:
    given = {"endpoint": "/v1/chat/completions", "completion_window": "24h", **more}
    return client.batches.create(input_file_id=uploaded(client, *lines), **given)


def waited(retrieve: Callable[[], Any], ended: Callable[[Any], bool]) -> Any:
    wait_until(lambda: ended(retrieve()))
    return retrieve()


def finished(client: openai.OpenAI, id: str) -> Any:
    return waited(lambda: client.batches.retrieve(id), lambda batch: batch.status in ENDED)


def results(client: openai.OpenAI, file: str | None) -> dict[str, Any]:
    assert file
    lines = [jsontext.decode(text) for text in client.files.content(file).content.splitlines()]
    assert len({each["custom_id"] for each in lines}) == len(lines)
    return {each["custom_id"]: each for each in lines}


def test_a_batch_of_openai(stand: Stand, model: HeldModel) -> None:
    client = responses(stand)
    model.refusals["bad"] = [(400, {})] * 9
    batch = created(client, *(line(f"p{i}") for i in range(20)), line("bad"), metadata={"a": "b"})
    assert (batch.status, batch.request_counts.total, batch.metadata) == ("validating", 21, {"a": "b"})
    done = finished(client, batch.id)
    assert (done.status, done.request_counts.completed, done.request_counts.failed) == ("completed", 20, 1)
    answers, errors = results(client, done.output_file_id), results(client, done.error_file_id)
    assert set(answers) == {f"p{i}" for i in range(20)}
    for name, each in answers.items():
        assert (each["error"], each["response"]["status_code"]) == (None, 200)
        assert each["response"]["body"]["choices"][0]["message"]["content"] == f"You said: {name}"
        assert each["response"]["request_id"].startswith("req_")
    assert errors["bad"]["response"]["status_code"] == 400
    assert errors["bad"]["response"]["body"]["error"]["message"] == "refused"
    files = {file.id: file for file in client.files.list()}
    assert {file.purpose for file in files.values()} == {"batch", "batch_output"}
    assert files[done.output_file_id].bytes == len(client.files.content(done.output_file_id).content)
    assert sorted(model.requests) == sorted([*(f"p{i}" for i in range(20)), "bad"])
    page = send(stand.url, "GET", "/metrics").body
    assert b'dragoman_jobs_total{kind="batch",status="completed"} 20.0' in page


def test_responses_in_a_batch_can_be_continued(stand: Stand) -> None:
    client = responses(stand)
    batch = created(client, line("one", "/v1/responses", top_logprobs=3), endpoint="/v1/responses")
    answer = results(client, finished(client, batch.id).output_file_id)["one"]
    assert answer["response"]["body"]["status"] == "completed"
    later = client.responses.create(
        model="up:m", input="two", previous_response_id=answer["response"]["body"]["id"]
    )
    assert later.output_text == "You said: two"


def test_a_batch_of_anthropic(stand: Stand, model: HeldModel) -> None:
    client = messages(stand)
    model.refusals["bad"] = [(400, {})] * 9

    def request(name: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": name}]
        return {"custom_id": name, "params": {"model": "up:m", "max_tokens": 9, "messages": messages, **more}}

    batch = client.messages.batches.create(requests=[request("a"), request("b", top_k=7), request("bad")])
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 3)
    assert (batch.expires_at - batch.created_at).total_seconds() == 24 * 3600
    done = waited(
        lambda: client.messages.batches.retrieve(batch.id), lambda batch: batch.processing_status == "ended"
    )
    assert (done.request_counts.succeeded, done.request_counts.errored) == (2, 1)
    found = {each.custom_id: each for each in client.messages.batches.results(batch.id)}
    a, b, bad = found["a"].result, found["b"].result, found["bad"].result
    assert a.type == b.type == "succeeded"
    assert a.message.content[0].text == "You said: a"  # pyright: ignore[reportAttributeAccessIssue]
    losses = found["b"].to_dict()["dragoman_losses"]
    assert isinstance(losses, list)
    assert "setting.top_k.dropped" in [loss["code"] for loss in losses]
    assert bad.type == "errored"
    assert (bad.error.type, bad.error.error.message) == ("error", "refused")
    assert [each.id for each in client.messages.batches.list()] == [batch.id]
    assert client.messages.batches.delete(batch.id).id == batch.id
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.retrieve(batch.id)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_cancelled_batch_ends_with_what_ran(
    held: tuple[HeldModel, str], database: Database, wire: str
) -> None:
    model, url = held
    with gateway(configured(url, database.url).replace("[jobs]", "[jobs]\nbatch_concurrency = 2")) as stand:
        if wire == "openai":
            client = responses(stand)
            id = created(client, *(line(f"slow {i}") for i in range(6))).id
            wait_until(lambda: len(model.requests) == 2)
            assert client.batches.cancel(id).status == "cancelling"
            model.released = True
            done = finished(client, id)
            assert (done.status, done.request_counts.completed) == ("cancelled", 2)
            errors = results(client, done.error_file_id).values()
            assert [each["error"]["code"] for each in errors] == ["batch_cancelled"] * 4
            assert client.batches.cancel(id) == done
        else:
            other = messages(stand)
            prompt = [{"role": "user", "content": "slow"}]
            params: Any = {"model": "up:m", "max_tokens": 9, "messages": prompt}
            id = other.messages.batches.create(
                requests=[{"custom_id": f"n{i}", "params": params} for i in range(6)]
            ).id
            wait_until(lambda: len(model.requests) == 2)
            with pytest.raises(anthropic.BadRequestError, match="ended"):
                other.messages.batches.delete(id)
            assert send(stand.url, "GET", f"/v1/messages/batches/{id}/results").status == 400
            assert other.messages.batches.cancel(id).processing_status == "canceling"
            model.released = True
            done = waited(
                lambda: other.messages.batches.retrieve(id), lambda batch: batch.processing_status == "ended"
            )
            assert (done.request_counts.succeeded, done.request_counts.canceled) == (2, 4)
            kinds = [each.result.type for each in other.messages.batches.results(id)]
            assert sorted(kinds) == ["canceled"] * 4 + ["succeeded"] * 2
        assert (len(model.requests), model.most) == (2, 2)


def test_what_is_late_expires(held: tuple[HeldModel, str], database: Database) -> None:
    model, url = held
    with gateway(configured(url, database.url).replace("[jobs]", "[jobs]\nbatch_concurrency = 1")) as stand:
        client = responses(stand)
        id = created(client, *(line(f"slow {i}") for i in range(3))).id
        wait_until(lambda: model.requests)
        database.rows("update dragoman_batches set deadline = 1 returning id")
        model.released = True
        done = finished(client, id)
        assert (done.status, done.request_counts.completed, done.request_counts.failed) == ("expired", 1, 2)
        errors = results(client, done.error_file_id).values()
        assert {each["error"]["code"] for each in errors} == {"batch_expired"}


def test_limits_are_waited_for(held: tuple[HeldModel, str]) -> None:
    """The concurrency of the provider, and refusals of the upstream."""
    model, url = held
    model.refusals["p3"] = [(429, {"retry-after-ms": "50"})] * 2
    narrow = provider("narrow", url, "openai-chat", max_concurrency="1", queue="0", queue_seconds="0.05")
    with gateway(configured(url, "memory:", narrow)) as stand:
        client = responses(stand)
        done = finished(client, created(client, *(line(f"p{i}", model="narrow:m") for i in range(8))).id)
    assert (done.request_counts.completed, model.most) == (8, 1)


def test_a_batch_goes_on_after_a_restart(text: str, model: HeldModel) -> None:
    with gateway(text) as first:
        client = responses(first)
        batch = created(client, *(line(f"slow {i}") for i in range(12)), *(line(f"p{i}") for i in range(3)))
        wait_until(lambda: len(model.requests) == 8)
    model.released = True
    with gateway(text) as second:
        client = responses(second)
        done = finished(client, batch.id)
        assert done.request_counts.completed == 15
        assert len(results(client, done.output_file_id)) == 15


BROKEN: dict[str, tuple[dict[str, Any] | bytes, str, str | None]] = {
    "no JSON": (b"{", "invalid_json_line", None),
    "no object": (b"[]", "invalid_json_line", None),
    "no id": ({**line("x"), "custom_id": None}, "missing_required_parameter", "custom_id"),
    "an id twice": (line("ok"), "duplicate_custom_id", "custom_id"),
    "another method": ({**line("x"), "method": "GET"}, "invalid_method", "method"),
    "another endpoint": (line("x", "/v1/responses"), "invalid_url", "url"),
    "no body": ({**line("x"), "body": 1}, "missing_required_parameter", "body"),
    "no model": ({**line("x"), "body": {}}, "missing_required_parameter", "body.model"),
    "a stream": (line("x", stream=True), "invalid_request", "body.stream"),
}


@pytest.fixture(scope="module")
def idle() -> Any:
    """A gateway whose upstream is never asked."""
    with running(Canned(Answer(200, b"{}"))) as url, gateway(configured(url, "memory:")) as stand:
        yield stand


@pytest.mark.parametrize("broken, code, param", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_fails_the_batch(
    idle: Stand, broken: dict[str, Any] | bytes, code: str, param: str | None
) -> None:
    client = responses(idle)
    batch = created(client, line("ok"), broken)
    assert batch.status == "validating"
    failed: Any = client.batches.retrieve(batch.id)
    assert (failed.status, failed.output_file_id, failed.error_file_id) == ("failed", None, None)
    (error,) = failed.errors.data
    assert (error.line, error.code, error.param) == (2, code, param)


def test_an_empty_file_fails_the_batch(idle: Stand) -> None:
    client = responses(idle)
    failed = client.batches.retrieve(created(client, b"\n").id)
    assert failed.errors
    assert [error.code for error in failed.errors.data or []] == ["empty_file"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"input_file_id": None}, "input_file_id"),
    "an unknown file": ({"input_file_id": "file-1"}, "file-1"),
    "another endpoint": ({"endpoint": "/v1/completions"}, "endpoint"),
    "another window": ({"completion_window": "1h"}, "completion_window"),
    "too much metadata": ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
    "a short life": (
        {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
        "output_expires_after",
    ),
}


@pytest.mark.parametrize("change, problem", REFUSED.values(), ids=REFUSED.keys())
def test_refused_batches_of_openai(idle: Stand, change: dict[str, Any], problem: str) -> None:
    file = uploaded(responses(idle), line("x"))
    body = {"input_file_id": file, "endpoint": "/v1/responses", "completion_window": "24h", **change}
    got = send(idle.url, "POST", "/v1/batches", jsontext.encode(body))
    assert got.status == (404 if "unknown" in problem or problem == "file-1" else 400)
    assert problem in got.json["error"]["message"]


ONE = {"custom_id": "a", "params": {"model": "up:m", "max_tokens": 1, "messages": []}}
REFUSED_MESSAGES: dict[str, tuple[Any, str]] = {
    "no requests": ({"requests": []}, "requests"),
    "no id": ({"requests": [{**ONE, "custom_id": "ä"}]}, "requests.0.custom_id"),
    "an id twice": ({"requests": [ONE, ONE]}, "requests.1.custom_id"),
    "no params": ({"requests": [{**ONE, "params": 1}]}, "requests.0.params"),
    "a stream": ({"requests": [{**ONE, "params": {"stream": True}}]}, "requests.0.params.stream"),
    "no object": ([], "object"),
}


@pytest.mark.parametrize("body, problem", REFUSED_MESSAGES.values(), ids=REFUSED_MESSAGES.keys())
def test_refused_batches_of_anthropic(idle: Stand, body: Any, problem: str) -> None:
    got = send(idle.url, "POST", "/v1/messages/batches", jsontext.encode(body))
    assert (got.status, got.json["error"]["type"]) == (400, "invalid_request_error")
    assert problem in got.json["error"]["message"]


def test_files(stand: Stand) -> None:
    client = responses(stand)
    first = client.files.create(
        file=("a b.jsonl", b"one\r\n--x\n"),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (first.filename, first.bytes, first.purpose, first.object) == ("a b.jsonl", 9, "batch", "file")
    assert first.expires_at == first.created_at + 3600
    second = client.files.create(file=("q ü日.jsonl", b""), purpose="batch")
    assert second.filename == "q ü日.jsonl"
    assert client.files.retrieve(first.id) == first
    assert client.files.content(first.id).content == b"one\r\n--x\n"
    assert [file.id for file in client.files.list(limit=1)] == [second.id, first.id]  # two pages
    assert [file.id for file in client.files.list(order="asc")] == [first.id, second.id]
    assert not list(client.files.list(purpose="batch_output"))
    other = responses(stand, OTHER_KEY)
    assert not list(other.files.list())
    for act in (other.files.retrieve, other.files.content, other.files.delete):
        with pytest.raises(openai.NotFoundError):
            act(first.id)
    with pytest.raises(openai.NotFoundError):
        other.batches.create(input_file_id=first.id, endpoint="/v1/responses", completion_window="24h")
    assert client.files.delete(first.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(first.id)


def test_refused_uploads(idle: Stand) -> None:
    client = responses(idle)
    with pytest.raises(openai.BadRequestError, match="purpose"):
        client.files.create(file=("a", b"x"), purpose="fine-tune")
    got = send(idle.url, "POST", "/v1/files", b"{}")
    assert (got.status, "multipart" in got.json["error"]["message"]) == (400, True)
    form = {"content-type": "multipart/form-data; boundary=b"}
    purpose = b'--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n'
    got = send(idle.url, "POST", "/v1/files", purpose, form)
    assert (got.status, "file" in got.json["error"]["message"]) == (400, True)
    twice = purpose.replace(b"\r\n--b--", b"\r\n" + purpose.removesuffix(b"--b--\r\n") + b"--b--")
    got = send(idle.url, "POST", "/v1/files", twice, form)
    assert (got.status, "two parts named 'purpose'" in got.json["error"]["message"]) == (400, True)
    many = purpose.removesuffix(b"--b--\r\n") * 17 + b"--b--"
    got = send(idle.url, "POST", "/v1/files", many, form)
    assert (got.status, "more than 16 parts" in got.json["error"]["message"]) == (400, True)


def test_a_full_store_takes_no_more(held: tuple[HeldModel, str]) -> None:
    text = configured(held[1], "memory:").replace(stored_at("memory:"), stored_at("memory:", "max_mb = 1\n"))
    with gateway(text) as stand:
        client = responses(stand)
        client.files.create(file=("a", bytes(700_000)), purpose="batch")
        with pytest.raises(openai.APIStatusError, match="max_mb") as caught:
            client.files.create(file=("b", bytes(700_000)), purpose="batch")
        assert caught.value.status_code == 413


def test_one_key_does_not_fill_the_store_for_the_others(held: tuple[HeldModel, str]) -> None:
    """Two keys: a quarter is each one's own, and the other half is for whoever comes first."""
    text = configured(held[1], "memory:").replace(stored_at("memory:"), stored_at("memory:", "max_mb = 1\n"))
    with gateway(text) as stand:
        first, second = responses(stand), responses(stand, OTHER_KEY)
        first.files.create(file=("a", bytes(750_000)), purpose="batch")
        with pytest.raises(openai.APIStatusError, match="max_mb"):
            first.files.create(file=("b", bytes(100_000)), purpose="batch")
        mine = second.files.create(file=("c", bytes(250_000)), purpose="batch")
        with pytest.raises(openai.APIStatusError, match="max_mb"):
            second.files.create(file=("d", bytes(100_000)), purpose="batch")
        second.files.delete(mine.id)
        second.files.create(file=("e", bytes(200_000)), purpose="batch")


def test_no_more_than_the_store_may_hold_is_taken_at_once(database: Database) -> None:
    """Uploads, background responses and batches, all at the same moment: their answers are counted."""

    async def run() -> None:
        store = open_store(database.url)
        jobs, table = JobTable(store), BatchTable(store)
        space = StoreSpace(Config(retention=Retention(bytes=10_000)))
        file = StoredFile("f", "f", "batch", "", 1000, 1.0, 9e9)

        async def took(adding: Coroutine[Any, Any, None]) -> bool:
            try:
                await adding
            except ConversationError:
                return False
            return True

        first = await asyncio.gather(
            *(took(table.add_file("o", replace(file, id=f"f{n}"), bytes(1000), space)) for n in range(20)),
            *(took(jobs.add(replace(JOB, id=f"j{n}", body=bytes(998)), None, space)) for n in range(20)),
        )
        assert sum(first) == 10
        held = "select (select count(*) from dragoman_jobs) + (select count(*) from dragoman_files)"
        assert database.rows(held) == [(10,)]
        lines = [replace(JOB, id=f"l{n}", batch="b", body=bytes(998)) for n in range(2)]
        assert not await took(jobs.add_lines(lines, space))
        assert database.rows("select count(*) from dragoman_jobs where batch = 'b'") == [(0,)]
        await store.close()

    asyncio.run(run())


def test_pages_and_owners(stand: Stand) -> None:
    client, other = responses(stand), responses(stand, OTHER_KEY)
    file = uploaded(client, line("p"))
    window: Any = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    ids = [client.batches.create(input_file_id=file, **window).id for _ in range(3)]
    assert [batch.id for batch in client.batches.list(limit=2)] == ids[::-1]  # two pages
    assert not list(other.batches.list())
    for act in (other.batches.retrieve, other.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            act(ids[0])
    with pytest.raises(openai.BadRequestError, match="limit"):
        client.batches.list(limit=1000)
    mine = messages(stand)
    params: Any = {"model": "up:m", "max_tokens": 1, "messages": [{"role": "user", "content": "p"}]}
    names = [
        mine.messages.batches.create(requests=[{"custom_id": "a", "params": params}]).id for _ in range(3)
    ]
    page = mine.messages.batches.list(limit=1, after_id=names[2])
    assert [batch.id for batch in page.data] == [names[1]]
    back = mine.messages.batches.list(limit=2, before_id=names[0])
    assert [batch.id for batch in back.data] == [names[2], names[1]]
    with pytest.raises(anthropic.NotFoundError):
        mine.messages.batches.retrieve(ids[0])  # of another protocol


def test_embeddings_pass_to_a_provider_that_has_them(database: Database) -> None:
    reply = {"object": "list", "data": [], "model": "e", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    canned = Canned(Answer(200, jsontext.encode(reply)))
    with running(canned) as url, gateway(configured(url, database.url)) as stand:
        client = responses(stand)
        embed = {**line("x"), "url": "/v1/embeddings", "body": {"model": "up:e", "input": "x"}}
        done = finished(client, created(client, embed, endpoint="/v1/embeddings").id)
        assert results(client, done.output_file_id)["x"]["response"]["body"]["object"] == "list"
    assert canned.requests[0].path == "/v1/embeddings"


def test_the_key_is_not_stored(text: str, database: Database, model: HeldModel) -> None:
    with gateway(text) as stand:
        client = responses(stand)
        created(client, line("slow"))
        client.responses.create(model="up:m", input="slow", background=True)
        wait_until(lambda: len(model.requests) == 2)
        model.released = True
    tables = ("dragoman_jobs", "dragoman_batches", "dragoman_files")
    assert CLIENT_KEY not in str([database.rows(f"select * from {table}") for table in tables])


def test_batches_have_a_bounded_number_of_lines() -> None:
    many = server("openai-responses").batches
    assert many
    lines, errors = many.read_lines({"endpoint": "/v1/responses"}, b"{}\n" * 50_001)
    assert (lines, [error["code"] for error in errors]) == ([], ["too_many_requests"])
    more = server("anthropic").batches
    assert more
    with pytest.raises(WireError, match="100000"):
        more.read_lines({"requests": [{}] * 100_001}, b"")
