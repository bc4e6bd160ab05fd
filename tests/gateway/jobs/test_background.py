"""Responses in the background, driven by OpenAI's SDK: polled, streamed again, cancelled, and taken over."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import openai
import pytest

from dragoman.core import jsontext
from gateway.canned import provider
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, responses
from gateway.jobs.conftest import configured
from gateway.jobs.upstreams import HeldModel
from gateway.plain import send
from gateway.stands import CLIENT_KEY, Stand, gateway
from waiting import wait_until

ENDED = ("completed", "failed", "incomplete", "cancelled")


def ended(client: openai.OpenAI, id: str) -> Any:
    wait_until(lambda: client.responses.retrieve(id).status in ENDED)
    return client.responses.retrieve(id)


def started(client: openai.OpenAI, prompt: str, **more: Any) -> Any:
    return client.responses.create(model="up:m", input=prompt, background=True, **more)


def numbers(events: list[Any]) -> list[int]:
    return [event.sequence_number for event in events]


def test_a_response_is_queued_polled_and_continued(stand: Stand, model: HeldModel) -> None:
    client = responses(stand)
    first = started(client, "slow one", metadata={"a": "b"}, instructions="Be brief.")
    assert (first.status, first.background, first.output, first.usage) == ("queued", True, [], None)
    assert (first.metadata, first.instructions, first.store) == ({"a": "b"}, "Be brief.", True)
    wait_until(lambda: client.responses.retrieve(first.id).status == "in_progress")
    model.released = True
    done = ended(client, first.id)
    assert (done.status, done.output_text, done.background) == ("completed", "You said: slow one", True)
    assert (done.id, done.usage.total_tokens) == (first.id, 10)
    missing = set(first.to_dict()) - set(done.to_dict())
    assert not missing
    later = client.responses.create(model="up:m", input="two", previous_response_id=first.id)
    assert later.output_text == "You said: two"
    items = client.responses.input_items.list(first.id)
    assert [item.type for item in items] == ["message"]
    assert model.requests == ["slow one", "two"]


def test_it_goes_on_without_its_client_and_is_streamed_again(stand: Stand, model: HeldModel) -> None:
    client = responses(stand)
    seen: list[Any] = []
    with started(client, "slow one", stream=True) as stream:
        for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
    assert [event.type for event in seen[:3]] == [
        "response.created", "response.queued", "response.in_progress",
    ]  # fmt: skip
    assert [event.response.status for event in seen[:3]] == ["queued", "queued", "in_progress"]
    id = seen[0].response.id
    with client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number) as stream:
        model.released = True
        rest: list[Any] = list(stream)
    assert numbers([*seen, *rest]) == list(range(len(seen) + len(rest)))
    assert (rest[-1].type, rest[-1].response.output_text) == ("response.completed", "You said: slow one")
    assert rest[-1].response.background is True
    again = list(client.responses.retrieve(id, stream=True))
    assert again == [*seen, *rest]
    assert client.responses.retrieve(id) == rest[-1].response
    assert len(model.requests) == 1


def test_it_is_cancelled_once(stand: Stand, model: HeldModel) -> None:
    client = responses(stand)
    events = started(client, "slow one", stream=True)
    id = next(iter(events)).response.id
    wait_until(lambda: model.requests)
    cancelled = client.responses.cancel(id)
    assert (cancelled.id, cancelled.status) == (id, "cancelled")
    assert client.responses.cancel(id) == cancelled == client.responses.retrieve(id)
    wait_until(lambda: model.gone == ["slow one"])
    assert [*events][-1].response.status == "cancelled"
    model.released = True
    time.sleep(0.3)
    assert client.responses.retrieve(id).status == "cancelled"


def test_what_has_ended_is_not_cancelled(stand: Stand) -> None:
    client = responses(stand)
    done = ended(client, started(client, "one").id)
    assert client.responses.cancel(done.id) == done
    client.responses.delete(done.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(done.id)


def test_one_that_runs_is_deleted(stand: Stand, model: HeldModel) -> None:
    client = responses(stand)
    id = started(client, "slow one").id
    wait_until(lambda: model.requests)
    client.responses.delete(id)
    wait_until(lambda: model.gone)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(id)


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_is_reported_in_the_response(stand: Stand, model: HeldModel, stream: bool) -> None:
    client = responses(stand)
    model.refusals["one"] = [(400, {})] * 10
    if stream:
        last = list(started(client, "one", stream=True))[-1]
        assert last.type == "response.failed"
        reply = last.response
    else:
        reply = ended(client, started(client, "one").id)
    assert (reply.status, reply.error.message) == ("failed", "refused")
    assert client.responses.retrieve(reply.id) == reply


@pytest.mark.parametrize("stream", [False, True])
def test_an_overloaded_upstream_is_asked_again_later(stand: Stand, model: HeldModel, stream: bool) -> None:
    client = responses(stand)
    model.refusals["one"] = [(429, {"retry-after-ms": "100"})] * 2
    if stream:
        events = list(started(client, "one", stream=True))
        assert numbers(events) == sorted(set(numbers(events)))
        reply = events[-1].response
    else:
        reply = ended(client, started(client, "one").id)
    assert (reply.status, reply.output_text) == ("completed", "You said: one")


def test_without_store_it_can_be_polled_and_not_continued(stand: Stand, database: Database) -> None:
    client = responses(stand)
    done = ended(client, started(client, "one", store=False).id)
    assert (done.output_text, done.store) == ("You said: one", False)
    with pytest.raises(openai.BadRequestError, match="not found"):
        client.responses.create(model="up:m", input="two", previous_response_id=done.id)
    ((left,),) = database.rows("select expires - ended from dragoman_jobs")
    assert 500 < left <= 600


def test_nobody_else_sees_it(stand: Stand, model: HeldModel) -> None:
    id = started(responses(stand), "slow one").id
    other = responses(stand, OTHER_KEY)
    for act in (other.responses.retrieve, other.responses.cancel, other.responses.delete):
        with pytest.raises(openai.NotFoundError):
            act(id)
    assert responses(stand).responses.retrieve(id).status in ("queued", "in_progress")


REFUSED = {
    "a malformed request": ({"model": "up:m", "input": 5}, "input"),
    "an unknown model": ({"model": "nobody:m", "input": "x"}, "nobody"),
    "an unknown conversation": (
        {"model": "up:m", "input": "x", "previous_response_id": "resp_1"}, "resp_1",
    ),
    "a provider that needs the client's key": ({"model": "own:m", "input": "x"}, "own key"),
}  # fmt: skip


@pytest.mark.parametrize("request_, problem", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_run_is_refused_at_once(
    held: tuple[HeldModel, str], request_: dict[str, Any], problem: str
) -> None:
    own = provider("own", held[1], "openai-chat", passthrough="true")
    with gateway(configured(held[1], "memory:", own)) as stand:
        body = jsontext.encode({**request_, "background": True})
        got = send(stand.url, "POST", "/v1/responses", body)
    assert got.status in (400, 404)
    assert problem in got.json["error"]["message"]
    assert not held[0].requests


def test_errors_of_resuming_and_cancelling(stand: Stand) -> None:
    client = responses(stand)
    whole = ended(client, started(client, "one").id)
    with pytest.raises(openai.BadRequestError, match="stream=true"):
        client.responses.retrieve(whole.id, stream=True)
    *_, last = started(client, "one", stream=True)
    streamed = last.response.id
    with pytest.raises(openai.BadRequestError, match="starting_after"):
        client.responses.retrieve(streamed, stream=True, extra_query={"starting_after": "soon"})
    assert not list(client.responses.retrieve(streamed, stream=True, starting_after=1000))
    plain = client.responses.create(model="up:m", input="one")
    with pytest.raises(openai.BadRequestError, match="background=true"):
        client.responses.cancel(plain.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_unknown")


@pytest.mark.parametrize("stream", [False, True])
def test_it_is_run_again_after_a_restart(text: str, model: HeldModel, stream: bool) -> None:
    with gateway(text) as first:
        client = responses(first)
        begun = started(client, "slow one", stream=stream)
        id = next(iter(begun)).response.id if stream else begun.id
        wait_until(lambda: model.requests)
    model.released = True
    with gateway(text) as second:
        client = responses(second)
        assert ended(client, id).output_text == "You said: slow one"
        if stream:
            events: list[Any] = list(client.responses.retrieve(id, stream=True))
            assert [event.type for event in events].count("response.output_text.done") == 1
            assert numbers(events) == sorted(set(numbers(events)))
    assert model.requests == ["slow one", "slow one"]


def test_the_logs_and_the_metrics_have_it(stand: Stand) -> None:
    client = responses(stand)
    id = ended(client, started(client, "one").id).id
    wait_until(
        lambda: {line["action"] for line in stand.records if "action" in line} >= {"enqueue", "background"}
    )
    run = next(line for line in stand.records if line.get("action") == "background")
    assert (run["key"], run["provider"], run["status"], run["output"]) == ("key-1", "up", 200, 3)
    assert id not in str(stand.lines)
    page = send(stand.url, "GET", "/metrics").body
    assert b'dragoman_jobs_total{kind="background",status="completed"} 1.0' in page


def test_the_limits_of_the_key_hold(held: tuple[HeldModel, str]) -> None:
    more = '[keys.small]\nkey = "small-key"\nrequests_per_minute = 2\ntokens_per_day = 15\n'
    with gateway(configured(held[1], "memory:", more)) as stand:
        client = responses(stand, "small-key")
        ids = [started(client, "one").id for _ in range(2)]
        with pytest.raises(openai.RateLimitError, match="requests a minute"):
            started(client, "one")
        assert [ended(client, id).status for id in ids] == ["completed"] * 2  # the run is not counted again
    with gateway(configured(held[1], "memory:", more.replace("_minute = 2", "_minute = 9"))) as stand:
        client = responses(stand, "small-key")
        for _ in range(2):
            ended(client, started(client, "one").id)
        with pytest.raises(openai.RateLimitError, match="tokens a day"):
            started(client, "one")


def test_a_removed_key_runs_nothing_any_more(held: tuple[HeldModel, str], database: Database) -> None:
    text = configured(held[1], database.url)
    with gateway(text) as first:
        id = started(responses(first), "slow one").id
        wait_until(lambda: held[0].requests)
    held[0].released = True
    with gateway(text.replace(CLIENT_KEY, "new-key-1")):
        wait_until(lambda: database.rows("select status from dragoman_jobs") == [("failed",)])
    with gateway(text) as again, contextlib.suppress(openai.NotFoundError):
        reply = responses(again).responses.retrieve(id)
        assert reply.error
        assert "valid key" in reply.error.message
    assert len(held[0].requests) == 1
