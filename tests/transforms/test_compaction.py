"""Compaction by the model: the request for a summary, and what becomes of its reply."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext, seal
from dragoman.core.errors import WireError
from dragoman.core.events import EventStage, PartEnd, PartStart, ResponseEnd, ResponseStart, fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Compaction,
    Message,
    Reasoning,
    Request,
    Response,
    Settings,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.exchange import Exchange
from dragoman.transforms.compaction import Summary, summarising

ASKED = Request(
    "m",
    (Message("user", (Text("Build it."),)),),
    tools=(ToolDeclaration("f"),),
    settings=Settings(max_tokens=10, stop=("x",), effort="low", cache_key="k"),
    compaction=Compaction(),
    extras={"openai-responses": {"include": []}},
)
REPLY = Response(
    "r",
    "m",
    (Reasoning("hm"), Text("It was "), ToolCall("c", "f", "{}"), Text("built.")),
    Stop("tool_calls"),
    Usage(9, 3),
)
TRIGGER = {"type": "compaction_trigger"}


def test_a_request_for_a_summary_keeps_the_prefix_and_allows_no_calls():
    losses = Losses()
    request = summarising(ASKED, Compaction(), losses)
    assert request.messages[:-1] == ASKED.messages
    assert request.tools == ASKED.tools
    assert request.tool_choice
    assert request.tool_choice.mode == "none"
    assert request.settings == Settings(effort="low", cache_key="k")
    assert (request.compaction, request.extras) == (None, None)
    assert [loss.code for loss in losses] == ["compaction.emulated"]


def test_instructions_replace_ours():
    request = summarising(ASKED, Compaction(instructions="In one word."), Losses())
    assert request.messages[-1] == Message("user", (Text("In one word."),))


def streamed(stage: EventStage, response: Response) -> Response:
    return fold([out for event in unfold(response) for out in stage.feed(event)])


@pytest.mark.parametrize("whole", [True, False])
def test_a_summary_is_the_text_of_the_reply_and_nothing_else(whole: bool):
    stage = Summary(lambda summary: Text(f"<{summary}>"))
    passed = (
        stage.whole(REPLY)
        if whole
        else fold([*(out for event in unfold(REPLY) for out in stage.feed(event))])
    )
    texts = [part for part in passed.parts if isinstance(part, Text)]
    assert len(passed.parts) == len(texts) == 1
    assert (passed.stop.reason, passed.usage) == ("end", REPLY.usage)


def test_a_reply_without_text_is_a_failure():
    stage = Summary(lambda summary: Text(summary))
    events = [ResponseStart("r", "m"), PartStart(0, Reasoning()), PartEnd(0), ResponseEnd(Stop("end"))]
    failed = [out for event in events for out in stage.feed(event)][-1]
    assert "no summary" in str(failed)


def chat(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def test_a_trigger_over_chat_gives_one_item_that_any_model_reads():
    exchange = Exchange("openai-responses", "openai-chat")
    sent = exchange.request({"model": "m", "input": [{"role": "user", "content": "Build it."}, TRIGGER]})
    assert [message["role"] for message in sent["messages"]] == ["user", "user"]
    assert "summary" in sent["messages"][-1]["content"]
    (item,) = exchange.response(chat("It was built."))["output"]
    assert item["type"] == "compaction"
    assert item["id"].startswith("cmp_")
    assert [loss.code for loss in exchange.losses] == ["compaction.emulated"]
    for upstream in ("openai-chat", "anthropic", "gemini", "openai-responses"):
        later = Exchange("openai-responses", upstream)
        sent = later.request({"model": "m", "input": [item, {"role": "user", "content": "Go on."}]})
        assert "It was built." in jsontext.dumps(sent)
        assert item["encrypted_content"] not in jsontext.dumps(sent)
        assert not [loss for loss in later.losses if loss.kind != "invented"]


def test_a_trigger_passes_to_a_server_that_knows_it():
    body = {"model": "m", "input": [{"role": "user", "content": "hi"}, TRIGGER]}
    assert Exchange("openai-responses", "openai-responses").request(body) == body
    # an item of ours makes the request pass the translation; the trigger stays
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": seal.seal("compaction", "Earlier.")}
    mixed = {"model": "m", "input": [sealed, TRIGGER]}
    assert Exchange("openai-responses", "openai-responses").request(mixed)["input"][-1] == TRIGGER


def test_a_trigger_before_the_end_is_refused():
    with pytest.raises(WireError, match="must be the final input item"):
        Exchange("openai-responses", "anthropic").request(
            {"model": "m", "input": [TRIGGER, {"role": "user", "content": "hi"}]}
        )


def test_an_item_of_another_server_is_reported():
    exchange = Exchange("openai-responses", "anthropic")
    foreign = {"type": "compaction", "encrypted_content": "gAAAA"}
    exchange.request({"model": "m", "input": [foreign, {"role": "user", "content": "hi"}]})
    assert "store.dropped" in [loss.code for loss in exchange.losses]


def test_contents_without_a_role():
    exchange = Exchange("gemini", "gemini", compaction=Compaction())
    asked = exchange.request({"contents": [{"parts": [{"text": "Build it."}]}]})["contents"]
    assert [content.get("role") for content in asked] == [None, "user"]
