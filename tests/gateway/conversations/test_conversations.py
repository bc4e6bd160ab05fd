"""Conversations by the official SDK: their items, requests that belong to one, its lock, on each database."""

from __future__ import annotations

import asyncio
import gzip
import threading
from typing import Any

import openai
import pytest

from dragoman.core import jsontext
from dragoman.gateway.admission.authentication import owner_of
from dragoman.gateway.conversations import conversations
from gateway.canned import Answer, Canned, chat, chunks, error
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, over_canned, over_demo, responses
from gateway.plain import send
from gateway.stands import MODELS, UPSTREAMS
from waiting import wait_until

HELLO: Any = {"type": "message", "role": "user", "content": "Hello."}


def test_a_conversation_and_its_items(database: Database, behind: str):
    with over_demo(behind, database.url) as stand:
        client = responses(stand)
        made = client.conversations.create(items=[HELLO], metadata={"topic": "demo"})
        assert (made.object, made.metadata) == ("conversation", {"topic": "demo"})
        assert client.conversations.retrieve(made.id) == made
        changed = client.conversations.update(made.id, metadata={"topic": "other"})
        assert (changed.id, changed.created_at, changed.metadata) == (
            made.id,
            made.created_at,
            {"topic": "other"},
        )
        call: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        added = client.conversations.items.create(made.id, items=[HELLO, call])
        assert [item.type for item in added.data] == ["message", "function_call"]
        assert (added.first_id, added.last_id, added.has_more) == (added.data[0].id, added.data[1].id, False)
        listed: list[Any] = client.conversations.items.list(made.id, order="asc").data
        assert len({item.id for item in listed}) == 3
        assert listed[0].content[0].text == "Hello."
        page = client.conversations.items.list(made.id, limit=2)
        assert ([item.id for item in page.data], page.has_more) == ([item.id for item in listed[:0:-1]], True)
        assert client.conversations.items.retrieve(listed[1].id, conversation_id=made.id).id == listed[1].id
        assert client.conversations.items.delete(listed[1].id, conversation_id=made.id).id == made.id
        left = client.conversations.items.list(made.id, order="asc").data
        assert [item.id for item in left] == [listed[0].id, listed[2].id]
        deleted = client.conversations.delete(made.id)
        assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "conversation.deleted", True)
        for ask in (
            client.conversations.retrieve,
            client.conversations.items.list,
            client.conversations.delete,
        ):
            with pytest.raises(openai.NotFoundError, match="not found"):
                ask(made.id)


def test_a_body_may_be_compressed(behind: str):
    with over_demo(behind, "memory:") as stand:
        body, packed = jsontext.encode({"metadata": {"topic": "demo"}}), {"content-encoding": "gzip"}
        made = send(stand.url, "POST", "/v1/conversations", gzip.compress(body), packed)
        assert (made.status, made.json["metadata"]) == (200, {"topic": "demo"})
        assert send(stand.url, "POST", "/v1/conversations", body, packed).status == 400


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_requests_that_belong_to_one(database: Database, mode: str):
    answers = [
        Answer(200, *(chunks(text) if mode == "streamed" else [chat(text)])) for text in ("One.", "Two.")
    ]
    with over_canned(canned := Canned(*answers), database.url) as stand:
        client = responses(stand)
        made = client.conversations.create(items=[HELLO])
        for named in (made.id, {"id": made.id}):
            request: Any = {"model": "m", "input": "Go on.", "conversation": named}
            if mode == "streamed":
                events: list[Any] = list(client.responses.create(**request, stream=True))
                response = events[-1].response
            else:
                response = client.responses.create(**request)
            assert response.conversation.id == made.id
        items: list[Any] = client.conversations.items.list(made.id, order="asc").data
        stored: Any = client.responses.retrieve(response.id)
        assert stored.conversation.id == made.id
    texts = [item.content[0].text for item in items]
    assert texts == ["Hello.", "Go on.", "One.", "Go on.", "Two."]
    assert [message["content"] for message in canned.requests[1].json["messages"]] == texts[:-1]
    assert "conversation" not in canned.requests[1].json


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_over_every_upstream(behind: str, upstream: str):
    with over_demo(behind, "memory:") as stand:
        client = responses(stand)
        made = client.conversations.create()
        request: dict[str, Any] = {"model": f"{upstream}:{MODELS[upstream]}", "conversation": made.id}
        client.responses.create(input="One", **request)
        second = client.responses.create(input="Two", store=False, **request)
        assert second.output_text == "You said: Two"
        kinds = [item.type for item in client.conversations.items.list(made.id, order="asc").data]
        assert kinds.count("message") == 4


def test_tokens_of_a_conversation_are_counted(behind: str):
    with over_demo(behind, "memory:") as stand:
        client = responses(stand)
        long: Any = {**HELLO, "content": "word " * 400}
        made = client.conversations.create(items=[long])
        model = f"gemini:{MODELS['gemini']}"
        short = client.responses.input_tokens.count(model=model, input="hi").input_tokens
        long = client.responses.input_tokens.count(model=model, input="hi", conversation=made.id).input_tokens
        assert long > short + 300


def test_another_key_does_not_find_it(behind: str):
    with over_demo(behind, "memory:") as stand:
        made = responses(stand).conversations.create(items=[HELLO])
        other = responses(stand, OTHER_KEY)
        with pytest.raises(openai.NotFoundError):
            other.conversations.retrieve(made.id)
        with pytest.raises(openai.NotFoundError) as refused:
            other.responses.create(model=f"gemini:{MODELS['gemini']}", input="x", conversation=made.id)
        assert (refused.value.code, refused.value.param) == ("conversation_not_found", "conversation")


def test_one_request_at_a_time(database: Database):
    slow, fast = Answer(200, 3.0, chat("slow")), Answer(200, chat("fast"))
    with over_canned(canned := Canned(slow, fast), database.url) as stand:
        client = responses(stand)
        made = client.conversations.create()
        first = threading.Thread(
            target=lambda: client.responses.create(model="m", input="1", conversation=made.id)
        )
        first.start()
        wait_until(lambda: canned.requests)
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="m", input="2", conversation=made.id)
        assert (refused.value.code, refused.value.param) == ("conversation_locked", "conversation")
        assert client.conversations.items.list(made.id).data == []  # reading is not refused
        first.join()
        assert client.responses.create(model="m", input="3", conversation=made.id).output_text == "fast"


def test_a_failure_unlocks_and_adds_nothing():
    with over_canned(Canned(Answer(400, error("no")), Answer(200, chat("yes"))), "memory:") as stand:
        client = responses(stand)
        made = client.conversations.create()
        with pytest.raises(openai.BadRequestError, match="no"):
            client.responses.create(model="m", input="1", conversation=made.id)
        assert client.conversations.items.list(made.id).data == []
        assert client.responses.create(model="m", input="2", conversation=made.id).output_text == "yes"


def test_the_lock_of_a_gateway_that_died_ends(monkeypatch: pytest.MonkeyPatch):
    """Another gateway at the same file, which locks and does not renew."""
    monkeypatch.setattr(conversations, "_LEASE", 2.0)
    with over_canned(Canned(Answer(200, chat("yes"))), "memory:") as stand:
        client = responses(stand)
        made = client.conversations.create()
        table = conversations.ConversationTable(stand.gateway.store, 1000)
        owner = owner_of("", ())
        assert asyncio.run(table.lock(owner, made.id, "req_dead"))
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="m", input="1", conversation=made.id)
        wait_until(lambda: asyncio.run(table.lock(owner, made.id, "req_next")))
        asyncio.run(table.unlock(owner, made.id, "req_next"))
        assert client.responses.create(model="m", input="1", conversation=made.id).output_text == "yes"


def test_a_server_that_stores_conversations_gets_the_unknown_ones():
    native = {"id": "resp_n", "object": "response", "created_at": 1, "status": "completed", "output": []}
    canned = Canned(Answer(200, jsontext.encode(native)))
    with over_canned(canned, "memory:", "openai-responses", keeps="true") as stand:
        responses(stand).responses.create(model="m", input="x", conversation="conv_theirs")
    assert canned.requests[0].json["conversation"] == "conv_theirs"


REFUSED = {
    "items of another type": ({"items": "hi"}, "items"),
    "an item without a type": ({"items": [{}]}, "items[0]"),
    "too many items": ({"items": [HELLO] * 21}, "items"),
    "metadata that is none": ({"metadata": 7}, "metadata"),
    "too many pairs": ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    "a long key": ({"metadata": {"k" * 65: ""}}, "metadata.k"),
    "a value that is no text": ({"metadata": {"k": 7}}, "metadata.k"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_conversations(name: str):
    body, field = REFUSED[name]
    with over_canned(Canned(Answer(200, chat("x"))), "memory:") as stand:
        got = send(stand.url, "POST", "/v1/conversations", jsontext.encode(body))
        assert got.status == 400
        assert field in got.json["error"]["message"]


def test_malformed_references():
    with over_canned(Canned(Answer(200, chat("x"))), "memory:") as stand:
        made = responses(stand).conversations.create()
        both = {"conversation": made.id, "previous_response_id": "resp_1"}
        later = {"conversation": made.id, "background": True}
        for wrong in ({"conversation": 7}, {"conversation": {}}, both, later):
            body = jsontext.encode({"model": "m", "input": "x", **wrong})
            assert send(stand.url, "POST", "/v1/responses", body).status == 400
        path = f"/v1/conversations/{made.id}"
        assert send(stand.url, "POST", path, b"{}").status == 400  # metadata is required
        assert send(stand.url, "POST", f"{path}/items", b"{}").status == 400
        assert send(stand.url, "GET", f"{path}/items/msg_x").status == 404
        assert send(stand.url, "DELETE", f"{path}/items/msg_x").status == 404
        assert send(stand.url, "GET", f"{path}/items?after=msg_x").status == 400
        assert send(stand.url, "GET", f"{path}/items?limit=0").status == 400
        assert send(stand.url, "PUT", path).status == 405


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_stored_response_is_streamed_again(behind: str, upstream: str):
    with over_demo(behind, "memory:") as stand:
        client = responses(stand)
        request: dict[str, Any] = {"model": f"{upstream}:{MODELS[upstream]}", "temperature": 0.5}
        made = client.responses.create(input="Hello", metadata={"a": "b"}, **request)
        events = list(client.responses.retrieve(made.id, stream=True))
        assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
        assert (events[0].response.id, events[0].response.metadata) == (made.id, {"a": "b"})  # type: ignore[union-attr]
        assert events[-1].response.to_dict() == client.responses.retrieve(made.id).to_dict()  # type: ignore[union-attr]
        rest = list(client.responses.retrieve(made.id, stream=True, starting_after=2))
        assert rest == events[3:]
        with pytest.raises(openai.BadRequestError, match="starting_after"):
            client.responses.retrieve(made.id, stream=True, extra_query={"starting_after": "x"})
