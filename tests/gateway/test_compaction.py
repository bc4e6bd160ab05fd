"""Compaction of Responses clients over every upstream: endpoint, trigger, threshold, stored chains."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat, chunks, error
from gateway.conversations.stands import over_canned, responses
from gateway.plain import send
from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand

LONG = "word " * 400
INPUT: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "user", "content": "Launch on Tuesday."},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Agreed."}]},
]
TRIGGER: Any = {"type": "compaction_trigger"}
KEY = {"authorization": f"Bearer {CLIENT_KEY}"}


def post(stand: Stand, path: str, **body: Any) -> Any:
    return send(stand.url, "POST", path, jsontext.encode(body), KEY)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_endpoint_gives_the_next_input(stand: Stand, upstream: str):
    client = responses(stand)
    model = f"{upstream}:{MODELS[upstream]}"
    compacted = client.responses.compact(model=model, input=INPUT)
    assert (compacted.object, compacted.id[:5]) == ("response.compaction", "resp_")
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    assert compacted.usage.total_tokens > 0
    following: Any = [item.to_dict(warnings=False) for item in compacted.output]
    after = client.responses.create(
        model=model, input=[*following, {"role": "user", "content": "When?"}], store=False
    )
    assert after.status == "completed"


def test_the_endpoint_needs_a_model(stand: Stand):
    got = post(stand, "/v1/responses/compact", input="hi")
    assert got.status == 400
    assert "model" in got.json["error"]["message"]


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_a_trigger_gives_one_compaction_item(mode: str):
    items = (
        Answer(200, *chunks("Launch: ", "Tuesday."))
        if mode == "streamed"
        else Answer(200, chat("Launch: Tuesday."))
    )
    with over_canned(canned := Canned(items, Answer(200, chat("On Tuesday."))), "memory:") as stand:
        client = responses(stand)
        request: dict[str, Any] = {"model": "m", "input": [*INPUT, TRIGGER], "store": False}
        if mode == "streamed":
            events: list[Any] = list(client.responses.create(**request, stream=True))
            done = [event.item for event in events if event.type == "response.output_item.done"]
            assert [item.type for item in done] == ["compaction"]
            response = events[-1].response
        else:
            response = client.responses.create(**request)
        (item,) = response.output
        assert item.type == "compaction"
        assert stand.last()["losses"]["emulated"] == 1
        history: Any = [item.to_dict(), {"role": "user", "content": "When?"}]
        client.responses.create(model="m", input=history)
    assert "Launch: Tuesday." in canned.requests[-1].json["messages"][0]["content"]


def test_a_failed_summary_is_an_error_of_the_request():
    with over_canned(Canned(Answer(400, error("no"))), "memory:") as stand:
        got = post(stand, "/v1/responses/compact", model="m", input="hi")
        assert (got.status, got.json["error"]["message"]) == (400, "no")


def test_a_stored_chain_continues_from_its_compaction():
    canned = Canned(Answer(200, chat("Sunny.")), Answer(200, chat("SUMMARY")), Answer(200, chat("Bye.")))
    with over_canned(canned, "memory:") as stand:
        client = responses(stand)
        first = client.responses.create(model="m", input="Weather?")
        second = client.responses.create(model="m", input=[TRIGGER], previous_response_id=first.id)
        items = client.responses.input_items.list(second.id).data
        assert [item.type for item in items] == ["message", "message"]  # the trigger is not content
        client.responses.create(model="m", input="Bye", previous_response_id=second.id)
    texts = [message["content"] for message in canned.requests[-1].json["messages"]]
    assert texts[0] == "Weather?"
    assert "SUMMARY" in texts[1]
    assert texts[2:] == ["Bye"]
    assert "Sunny." not in texts


def managed(threshold: Any = 300) -> Any:
    return [{"type": "compaction", "compact_threshold": threshold}]


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_a_long_input_is_compacted_first(mode: str):
    answer = Answer(200, *chunks("Tuesday.")) if mode == "streamed" else Answer(200, chat("Tuesday."))
    with over_canned(canned := Canned(Answer(200, chat("SUMMARY")), answer), "memory:") as stand:
        client = responses(stand)
        long: Any = [{"role": "user", "content": LONG}, *INPUT, {"role": "user", "content": "When?"}]
        request: dict[str, Any] = {"model": "m", "input": long, "context_management": managed()}
        if mode == "streamed":
            events: list[Any] = list(client.responses.create(**request, stream=True))
            response = events[-1].response
        else:
            response = client.responses.create(**request)
        assert [item.type for item in response.output] == ["compaction", "message"]
        line = stand.last()
        assert line["losses"]["emulated"] == 1
        assert line["input"] >= 7
    sent = [message["content"] for message in canned.requests[-1].json["messages"]]
    assert "SUMMARY" in sent[-1]
    assert "When?" in sent
    assert LONG not in sent


def test_a_short_input_is_not_compacted():
    with over_canned(canned := Canned(Answer(200, chat("Hi."))), "memory:") as stand:
        response = responses(stand).responses.create(model="m", input="Hi", context_management=managed())
        assert [item.type for item in response.output] == ["message"]
        assert "losses" not in stand.last()
    assert len(canned.requests) == 1


def test_a_server_that_stores_conversations_compacts_itself():
    native = {"id": "resp_n", "object": "response.compaction", "created_at": 1, "output": [], "usage": {}}
    canned = Canned(Answer(200, jsontext.encode(native)))
    with over_canned(canned, "memory:", "openai-responses", keeps="true") as stand:
        assert post(stand, "/v1/responses/compact", model="m", input="hi").json == native
    assert canned.requests[0].path == "/v1/responses/compact"


@pytest.mark.parametrize("wrong", [{}, [7], [{"type": "other"}], managed("many"), managed(0)])
def test_malformed_context_management_is_refused(stand: Stand, wrong: Any):
    got = post(
        stand,
        "/v1/responses",
        model=f"openai-chat:{MODELS['openai-chat']}",
        input="hi",
        context_management=wrong or {"type": "x"},
    )
    assert got.status == 400
    assert "context_management" in got.json["error"]["message"]


def test_a_trigger_before_the_end_is_refused(stand: Stand):
    with pytest.raises(openai.BadRequestError, match="final input item"):
        responses(stand).responses.create(
            model=f"openai-chat:{MODELS['openai-chat']}", input=[TRIGGER, *INPUT], store=False
        )


def test_a_compacted_input_is_not_compacted_again() -> None:
    """The client sends everything again, unpruned: what precedes the item is neither counted nor sent."""
    long = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
    answers = (
        Answer(200, chat("Launch: Tuesday.")),
        Answer(200, chat("On Tuesday.")),
        Answer(200, chat("Here.")),
    )
    with over_canned(canned := Canned(*answers), "memory:") as stand:
        client = responses(stand)
        asked: Any = {"model": "m", "store": False, "context_management": managed()}
        first = client.responses.create(input=[*INPUT, *long], **asked)  # type: ignore[arg-type]
        history = [*INPUT, *long, *(item.to_dict(warnings=False) for item in first.output)]
        second = client.responses.create(input=[*history, {"role": "user", "content": "Where?"}], **asked)
    assert [item.type for item in first.output] == ["compaction", "message"]
    assert [item.type for item in second.output] == ["message"]
    assert first.usage
    assert second.usage
    assert first.usage.output_tokens == 2 * second.usage.output_tokens
    assert LONG not in canned.requests[2].body.decode()


def test_items_before_a_compaction_are_not_sent() -> None:
    """Without any threshold; the messages of user and developer stay, as at OpenAI."""
    answers = Answer(200, chat("Launch: Tuesday.")), Answer(200, chat("Here."))
    with over_canned(canned := Canned(*answers), "memory:") as stand:
        client = responses(stand)
        made = client.responses.create(model="m", input=[*INPUT, TRIGGER], store=False)
        item: Any = made.output[0].to_dict(warnings=False)
        client.responses.create(
            model="m", input=[*INPUT, item, {"role": "user", "content": "Where?"}], store=False
        )
    roles = [message["role"] for message in canned.requests[1].json["messages"]]
    assert "Agreed." not in canned.requests[1].body.decode()
    assert (roles[0], "assistant" in roles) == ("system", False)
    assert "Launch: Tuesday." in canned.requests[1].body.decode()
