"""Stored responses by the official SDK: over every upstream, whole and streamed, on each database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.core import jsontext
from dragoman.framing import sse
from dragoman.gateway.config import load
from dragoman.gateway.conversations.turn_writer import StoredStream
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway
from gateway.canned import Answer, Canned, chat, chunks, provider
from gateway.conversations.databases import Database, SqliteDatabase
from gateway.conversations.stands import OTHER_KEY, over_canned, over_demo, respond, responses, stored_at
from gateway.plain import Got, send
from gateway.running import running
from gateway.sdks import TOOLS, schema
from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand, gateway

MODES = ("whole", "streamed")
each_mode = pytest.mark.parametrize("mode", MODES)
DECLARED: list[Any] = [
    {"type": "function", "name": name, "description": words, "parameters": schema(required), "strict": False}
    for name, (words, required) in TOOLS.items()
]


def streamed(stand: Stand, **request: Any) -> Got:
    """A stream as its bytes: the SDK does not say how one failed."""
    return send(stand.url, "POST", "/v1/responses", jsontext.encode({**request, "stream": True}))


def result(call: Any, text: str) -> Any:
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def calls(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


@each_mode
def test_a_conversation_of_which_only_the_new_part_is_sent(stand: Stand, mode: str):
    """Reasoning with its state included: the upstream refuses a conversation that lost it."""
    client = responses(stand)
    for upstream in UPSTREAMS:
        settings: dict[str, Any] = {"model": f"{upstream}:{MODELS[upstream]}", "tools": DECLARED}
        first = respond(client, mode, input="Show me a picture of Oslo and Rome", **settings)
        assert (first.store, first.previous_response_id) == (True, None)
        results = [result(call, f"picture {number}") for number, call in enumerate(calls(first))]
        second = respond(client, mode, input=results, previous_response_id=first.id, **settings)
        assert "take_picture returned: picture 0" in second.output_text
        assert second.previous_response_id == first.id
        third = respond(
            client, mode, input="And the weather in Bern?", previous_response_id=second.id, **settings
        )
        assert [call.name for call in calls(third)] == ["get_weather"]
        rain = [result(calls(third)[0], "rain")]
        fourth = respond(client, mode, input=rain, previous_response_id=third.id, **settings)
        assert fourth.output_text == "get_weather returned: rain"
        assert len({first.id, second.id, third.id, fourth.id}) == 4

        kept = client.responses.retrieve(second.id)
        assert (kept.id, kept.output_text) == (second.id, second.output_text)
        assert [item.id for item in kept.output] == [item.id for item in second.output]


def test_the_upstream_gets_everything_and_instructions_are_not_inherited(database: Database):
    canned = Canned(Answer(200, chat("one")), Answer(200, chat("two")), Answer(200, chat("three")))
    with over_canned(canned, database.url) as stand:
        client = responses(stand)
        first = client.responses.create(model="m", input="a", instructions="Be brief.")
        second = client.responses.create(model="m", input="b", previous_response_id=first.id)
        forked: Any = [{"role": "user", "content": "c"}]
        client.responses.create(
            model="m", input=forked, previous_response_id=second.id, instructions="Rhyme."
        )
    messages = [[(m["role"], m["content"]) for m in each.json["messages"]] for each in canned.requests]
    talk = [("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two"), ("user", "c")]
    assert messages[0] == [("system", "Be brief."), ("user", "a")]
    assert messages[1] == talk[:3]
    assert messages[2] == [("system", "Rhyme."), *talk]
    assert not any({"previous_response_id", "store"} & set(each.json) for each in canned.requests)


@each_mode
def test_store_false_stores_nothing_and_may_still_continue(database: Database, mode: str):
    reply = (
        Answer(200, chat("one"))
        if mode == "whole"
        else Answer(200, *chunks("one"), content_type="text/event-stream")
    )
    with over_canned(Canned(reply), database.url) as stand:
        client = responses(stand)
        kept = respond(client, mode, model="m", input="a")
        loose = respond(client, mode, model="m", input="b", store=False, previous_response_id=kept.id)
        assert (kept.store, loose.store) == (True, False)
        with pytest.raises(openai.BadRequestError) as caught:
            respond(client, mode, model="m", input="c", previous_response_id=loose.id)
        assert caught.value.code == "previous_response_not_found"
        assert caught.value.param == "previous_response_id"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(loose.id)
    assert database.rows("select count(*) from dragoman_turns") == [(1,)]


def test_without_a_wish_to_store_no_store_is_opened(tmp_path: Path):
    with over_canned(Canned(Answer(200, chat("one"))), f"sqlite:///{tmp_path}/s.db") as stand:
        responses(stand).responses.create(model="m", input="a", store=False)
        responses(stand).chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
    assert list(tmp_path.iterdir()) == []


def test_retrieve_delete_and_list_the_input(stand: Stand):
    client = responses(stand)
    model = f"gemini:{MODELS['gemini']}"
    first = client.responses.create(model=model, input="hello", tools=DECLARED)
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": str(n)}]} for n in range(5)
    ]
    second = client.responses.create(model=model, input=items, previous_response_id=first.id)

    listed = list(client.responses.input_items.list(second.id, order="asc"))
    texts = [item.content[0].text for item in listed if item.type == "message"]  # type: ignore[union-attr] - text
    assert texts == ["hello", first.output_text, "0", "1", "2", "3", "4"]
    assert all(item.id for item in listed)
    page: Any = client.responses.input_items.list(second.id, limit=2)
    assert (page.has_more, page.first_id, page.last_id) == (True, listed[-1].id, listed[-2].id)
    pages = list(client.responses.input_items.list(second.id, limit=2))  # the SDK follows `after`
    assert [item.id for item in pages] == [item.id for item in reversed(listed)]
    after = client.responses.input_items.list(second.id, order="asc", after=listed[-2].id or "")
    assert ([item.id for item in after.data], after.has_more) == ([listed[-1].id], False)

    client.responses.delete(first.id)
    for gone in (lambda: client.responses.retrieve(first.id), lambda: client.responses.delete(first.id)):
        with pytest.raises(openai.NotFoundError):
            gone()
    assert client.responses.retrieve(second.id).id == second.id
    with pytest.raises(openai.BadRequestError, match="not found"):
        client.responses.create(model=model, input="x", previous_response_id=second.id)


WRONG_PAGES = {
    "limit=0": "limit",
    "limit=101": "limit",
    "limit=x": "limit",
    "order=up": "order",
    "after=x": "after",
}


@pytest.mark.parametrize("query, field", WRONG_PAGES.items(), ids=WRONG_PAGES)
def test_a_wrong_page_is_named(query: str, field: str):
    with over_canned(Canned(Answer(200, chat("one"))), "memory:") as stand:
        id = responses(stand).responses.create(model="m", input="a").id
        got = send(stand.url, "GET", f"/v1/responses/{id}/input_items?{query}")
        assert (got.status, field in got.json["error"]["message"]) == (400, True)


def test_nobody_reads_what_another_key_stored(stand: Stand):
    mine, yours = responses(stand), responses(stand, OTHER_KEY)
    kept = mine.responses.create(model=f"gemini:{MODELS['gemini']}", input="secret")
    with pytest.raises(openai.NotFoundError):
        yours.responses.retrieve(kept.id)
    with pytest.raises(openai.NotFoundError):
        yours.responses.delete(kept.id)
    with pytest.raises(openai.BadRequestError):
        yours.responses.create(model="gemini:x", input="what did I say?", previous_response_id=kept.id)
    assert mine.responses.retrieve(kept.id).id == kept.id


def test_no_key_and_no_password_stands_in_a_row(stand: Stand, database: Database):
    secret = {"authorization": "bearer-s3cret", "headers": {"x-key": "header-s3cret"}}
    tool: Any = {"type": "mcp", "server_label": "s", "server_url": "http://x", **secret}
    items: Any = [
        {"role": "user", "content": "hi"},
        {"type": "additional_tools", "role": "developer", "tools": [tool]},
    ]
    model = f"anthropic:{MODELS['anthropic']}"
    responses(stand).responses.create(model=model, input=items, tools=[tool])
    rows = repr(database.rows("select * from dragoman_turns"))
    assert "hi" in rows
    for secret in (CLIENT_KEY, "bearer-s3cret", "header-s3cret", "upstream-key"):
        assert secret not in rows


def test_items_are_referred_to_by_their_id(database: Database):
    canned = Canned(Answer(200, chat("one")), Answer(200, chat("two")))
    with over_canned(canned, database.url) as stand:
        client = responses(stand)
        first = client.responses.create(model="m", input="a")
        items: list[Any] = [
            {"role": "user", "content": "a"},
            {"type": "item_reference", "id": first.output[0].id},
            {"role": "user", "content": "b"},
        ]
        second = client.responses.create(model="m", input=items)
        third = client.responses.create(model="m", input="c", previous_response_id=second.id)
        assert third.output_text == "two"
        unknown: Any = [{"type": "item_reference", "id": "msg_nobody"}]
        with pytest.raises(openai.NotFoundError, match="msg_nobody"):
            client.responses.create(model="m", input=unknown)
    said_then = [m["content"] for m in canned.requests[1].json["messages"]]
    assert said_then == ["a", "one", "b"]
    assert [m["content"] for m in canned.requests[2].json["messages"]] == ["a", "one", "b", "two", "c"]


def test_failed_replies_are_not_stored_and_incomplete_ones_are(database: Database):
    length = jsontext.decode(chat("half"))
    length["choices"][0]["finish_reason"] = "length"
    canned = Canned(Answer(500, b'{"error": {"message": "broken"}}'), Answer(200, jsontext.encode(length)))
    with over_canned(canned, database.url) as stand:
        client = responses(stand)
        reply = client.responses.create(model="m", input="a")  # after a try that failed
        assert reply.status == "incomplete"
        assert client.responses.retrieve(reply.id).status == "incomplete"
        canned.answers = [Answer(400, b'{"error": {"message": "no"}}')]
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="m", input="a")
    assert database.rows("select count(*) from dragoman_turns") == [(1,)]


def test_a_cut_stream_is_not_stored(database: Database):
    half = chunks("one", "two")[:2]
    with over_canned(Canned(Answer(200, *half, content_type="text/event-stream")), database.url) as stand:
        got = streamed(stand, model="m", input="a")
        assert got.failure("openai-responses").kind == "server"
        with pytest.raises(openai.NotFoundError):
            responses(stand).responses.retrieve("resp_x")
    assert database.rows("select count(*) from dragoman_turns") == [(0,)]


def test_repeated_ids_of_an_upstream_do_not_mix(database: Database):
    """Every one of its replies is called `c`."""
    with over_canned(Canned(Answer(200, chat("one")), Answer(200, chat("two"))), database.url) as stand:
        client = responses(stand)
        first = client.responses.create(model="m", input="a")
        second = client.responses.create(model="m", input="b", previous_response_id=first.id)
        assert first.id != second.id
        assert client.responses.retrieve(first.id).output_text == "one"


@each_mode
def test_the_same_protocol_without_a_store_of_its_own_is_kept_here(behind: str, mode: str):
    """Forwarded as it is, but for the id; the next request goes there whole."""
    with over_demo(behind, "memory:") as stand:
        client = responses(stand)
        model = f"openai-responses:{MODELS['openai-responses']}"
        first = respond(client, mode, model=model, input="What is the weather in Oslo?", tools=DECLARED)
        rain = [result(calls(first)[0], "rain")]
        second = respond(client, mode, model=model, input=rain, previous_response_id=first.id, tools=DECLARED)
        assert second.output_text == "get_weather returned: rain"
        assert stand.last()["output"] > 0  # counted as ever


def kept_elsewhere(id: str) -> bytes:
    body = {
        "id": id,
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [],
        "created_at": 1,
    }
    return jsontext.encode({**body, "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})


def test_a_provider_that_keeps_gets_its_ids_unchanged(database: Database):
    canned = Canned(Answer(200, kept_elsewhere("resp_theirs")))
    with over_canned(canned, database.url, "openai-responses", keeps="true") as stand:
        client = responses(stand)
        assert client.responses.create(model="m", input="a").id == "resp_theirs"
        client.responses.create(model="m", input="b", previous_response_id="resp_theirs")
        client.responses.retrieve("resp_theirs")
        client.responses.delete("resp_theirs")
        client.responses.input_items.list("resp_theirs", limit=3)
    assert canned.requests[1].json == {"model": "m", "input": "b", "previous_response_id": "resp_theirs"}
    assert [each.path for each in canned.requests[2:]] == [
        "/v1/responses/resp_theirs",
        "/v1/responses/resp_theirs",
        "/v1/responses/resp_theirs/input_items",
    ]
    assert canned.requests[2].headers["authorization"] == "Bearer key-of-up"
    assert database.rows("select count(*) from dragoman_turns") == [(0,)]


def test_a_conversation_of_ours_goes_on_at_a_provider_that_keeps():
    """It began here, so it stays here: the provider gets it whole."""
    here, there = Canned(Answer(200, chat("one"))), Canned(Answer(200, kept_elsewhere("resp_theirs")))
    with running(here) as url, running(there) as other:
        text = provider("up", url) + provider("keeps", other, "openai-responses", keeps="true")
        with gateway(text + stored_at("memory:")) as stand:
            client = responses(stand)
            first = client.responses.create(model="up:m", input="a")
            second = client.responses.create(model="keeps:m", input="b", previous_response_id=first.id)
            assert second.id != "resp_theirs"
            client.responses.create(model="up:m", input="c", previous_response_id=second.id)
    items = there.requests[0].json["input"]
    assert [item["role"] for item in items] == ["user", "assistant", "user"]
    assert "previous_response_id" not in there.requests[0].json
    assert [m["content"] for m in here.requests[1].json["messages"]] == ["a", "one", "b", "c"]


def test_tokens_of_a_conversation_are_counted_whole():
    with over_canned(Canned(Answer(200, chat("one two three four five"))), "memory:") as stand:
        client = responses(stand)
        first = client.responses.create(model="m", input="a " * 500)
        alone = client.responses.input_tokens.count(model="m", input="b")
        whole = client.responses.input_tokens.count(model="m", input="b", previous_response_id=first.id)
        assert whole.input_tokens > alone.input_tokens + 100


# Where nothing can be written


@pytest.fixture
def unwritable(tmp_path: Path) -> str:
    """A store of a later version cannot be opened at all."""
    path = tmp_path / "later.db"
    with sqlite3.connect(path) as file:
        file.execute("create table dragoman_schema (version integer)")
        file.execute("insert into dragoman_schema values (99)")
    file.close()
    return f"sqlite:///{path}"


def reply_of(mode: str) -> Answer:
    return (
        Answer(200, chat("one"))
        if mode == "whole"
        else Answer(200, *chunks("one"), content_type="text/event-stream")
    )


@each_mode
def test_unstored_by_default_says_so(unwritable: str, mode: str):
    with over_canned(Canned(reply_of(mode)), unwritable) as stand:
        response = respond(responses(stand), mode, model="m", input="a")
        assert (response.output_text, response.store) == ("one", False)
        last = stand.last()
        assert last["losses"] == {"changed": 1}
        assert any("newer dragoman" in line for line in stand.lines)


def test_unstored_against_an_explicit_wish_ends_the_stream_in_a_failure(unwritable: str):
    with over_canned(Canned(reply_of("streamed")), unwritable) as stand:
        got = streamed(stand, model="m", input="a", store=True)
        assert "could not be stored" in got.failure("openai-responses").message
        events = [jsontext.decode(frame.data) for frame in sse.Decoder().feed(got.body)]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert len({event["response"]["id"] for event in events if "response" in event}) == 1
        assert "could not be stored" in stand.last()["error"]


def test_unstored_against_an_explicit_wish_is_an_error(unwritable: str):
    with over_canned(Canned(reply_of("whole")), unwritable) as stand:
        with pytest.raises(openai.InternalServerError, match="could not be stored"):
            responses(stand).responses.create(model="m", input="a", store=True)
        assert "could not be stored" in stand.last()["error"]
        with pytest.raises(openai.InternalServerError, match="cannot be read"):
            responses(stand).responses.retrieve("resp_x")
        with pytest.raises(openai.InternalServerError, match="cannot be read"):
            responses(stand).responses.create(model="m", input="b", previous_response_id="resp_x")


def test_a_store_in_a_file_outlives_the_gateway(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/s.db"
    with over_canned(Canned(Answer(200, chat("one"))), url) as stand:
        id = responses(stand).responses.create(model="m", input="a").id
    with over_canned(Canned(Answer(200, chat("one"))), url) as stand:
        assert responses(stand).responses.retrieve(id).output_text == "one"
    assert SqliteDatabase(tmp_path / "s.db").rows("select id from dragoman_turns") == [(id,)]


def test_the_private_gateway_of_an_agent_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    config = load(stored_at(f"sqlite:///{tmp_path}/s.db"), {})
    with private_gateway(config, AccessLog(lambda line: None)) as gateway:
        client = responses(gateway.url, gateway.key)
        first = client.responses.create(model="demo", input="a", store=True)
        client.responses.create(model="demo", input="b", previous_response_id=first.id)
    assert list(tmp_path.iterdir()) == []


BOUNDED = f'[server]\nmax_body_mb = 1\nkeys = "{CLIENT_KEY}"\n'


def test_item_references_are_bounded_before_they_are_expanded(tmp_path: Path):
    """68 kB of references to one item of 1 MB would become 1.5 GB."""
    with gateway(BOUNDED + stored_at(f"sqlite:///{tmp_path}/store.db")) as stand:
        client = responses(stand)
        item: Any = {"type": "message", "id": "msg_big", "role": "user", "content": "x" * 300_000}
        client.responses.create(model="demo:m", input=[item], store=True)
        reference: Any = {"type": "item_reference", "id": "msg_big"}
        client.responses.create(model="demo:m", input=[reference] * 2)
        with pytest.raises(openai.BadRequestError, match="more than 1048576 bytes"):
            client.responses.create(model="demo:m", input=[reference] * 1500)


def test_a_chain_is_bounded_as_a_body_is(tmp_path: Path):
    with gateway(BOUNDED + stored_at(f"sqlite:///{tmp_path}/store.db")) as stand:
        client, previous = responses(stand), None
        request: Any = {"model": "demo:m", "input": "y" * 300_000, "store": True}
        for _ in range(4):
            previous = client.responses.create(**request, previous_response_id=previous).id
        with pytest.raises(openai.BadRequestError, match="more than the 1048576"):
            client.responses.create(**request, previous_response_id=previous)


def test_a_damaged_turn_is_unreadable_and_no_crash(tmp_path: Path):
    file = tmp_path / "store.db"
    with gateway(f'[store]\nurl = "sqlite:///{file}"\n') as stand:
        body = {"model": "demo", "input": "hi", "store": True}
        id = send(stand.url, "POST", "/v1/responses", jsontext.encode(body)).json["id"]
        with sqlite3.connect(file) as database:
            database.execute("update dragoman_turns set reply = zeroblob(length(reply))")
        got = send(stand.url, "GET", f"/v1/responses/{id}")
        assert (got.status, got.json["error"]["message"]) == (
            503,
            "the store of conversations cannot be read now",
        )
        assert not [line for line in stand.lines if "crash" in line]


def test_a_stored_stream_holds_no_copy_of_what_its_last_event_repeats(monkeypatch: pytest.MonkeyPatch):
    held: list[int] = []
    end = StoredStream.end

    async def watched(self: Any, last: bytes, lost: Any) -> bytes:
        held.append(len(self._sent))
        return await end(self, last, lost)

    monkeypatch.setattr(StoredStream, "end", watched)
    with gateway("") as stand:
        body = {"model": "demo", "input": "hello " * 500, "store": True, "stream": True}
        got = send(stand.url, "POST", "/v1/responses", jsontext.encode(body))
        assert b"response.completed" in got.body
        assert held == [2]
