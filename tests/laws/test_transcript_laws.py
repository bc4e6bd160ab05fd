"""A transcript is a record: nothing is invented, and what comes back is what went in, or is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Exchange, UserMessage, dump_messages, protocols
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolCall, ToolResult
from dragoman.core.model_profile import UNKNOWN, for_transcripts
from dragoman.protocols import codec
from laws.strategies import conversations

PAIRS = [(source, target) for source in protocols() for target in protocols() if source != target]
ARGUMENTS = '{"path":"/f","n":1.10}'
CALL = ToolCall("call_1", "read.file", ARGUMENTS)
HELLO, ANSWER = Message("user", (Text("Hello"),)), Message("assistant", (Text("An answer. "),))
CALLED = Message("assistant", (CALL,))
RESULT = Message("user", (ToolResult("call_1", "read.file", (Text("a line"),)),))
RECORDS = {
    "the model speaks last": (HELLO, ANSWER),
    "the model speaks first": (ANSWER, HELLO),
    "only the model speaks": (ANSWER,),
    "a call without its result": (HELLO, CALLED),
    "one of two results": (
        HELLO,
        Message("assistant", (CALL, ToolCall("call_2", "b", "{}"))),
        RESULT,
        ANSWER,
    ),
    "a call, and another turn": (HELLO, CALLED, HELLO, ANSWER),
    "a result without its call": (HELLO, RESULT, ANSWER),
    "the result is last": (HELLO, CALLED, RESULT),
    "an id that comes again": (HELLO, CALLED, RESULT, CALLED, RESULT, ANSWER),
}
Item = tuple[str, str, str]


def items(messages: tuple[Message, ...]) -> list[Item]:
    """What a record says, one after the other; how texts are cut into parts and messages does not matter."""
    found: list[Item] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text(text) if text.strip():
                    if found and found[-1][:2] == (message.role, "text"):
                        found[-1] = (message.role, "text", found[-1][2] + text)
                    else:
                        found.append((message.role, "text", text))
                case ToolCall():
                    found.append(
                        (part.id, "call", f"{part.name} {jsontext.dumps(json.loads(part.arguments))}")
                    )
                case ToolResult():
                    text = "".join(item.text for item in part.content if isinstance(item, Text))
                    found.append((part.call_id, "result", text))
                case _:
                    pass
    return found


def told(wire: Any, protocol: str) -> list[Item]:
    request = codec(protocol).decode_request(wire, Losses())
    return items((Message("system", request.system), *request.messages))


def record(messages: tuple[Message, ...], source: str) -> Any:
    """A body of `source` with these messages, as they are."""
    exchange = Exchange("openai-chat", source, transcript=True)
    request = Request("", messages)
    return exchange.request(codec("openai-chat").encode_request(request, Losses(), for_transcripts(UNKNOWN)))


@pytest.mark.parametrize("source, target", PAIRS)
@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_the_same_in_every_protocol(name: str, source: str, target: str) -> None:
    wire = record(RECORDS[name], source)
    assert told(wire, source) == items(RECORDS[name])
    exchange = Exchange(source, target, transcript=True)
    made = exchange.request(wire)
    codes = [loss.code for loss in exchange.losses]
    if (
        name == "a result without its call"
    ):  # Gemini demands a name, and joins the result to the text before it
        assert sorted(told(made, target)) == sorted(items(RECORDS[name]))
        assert codes == ["call.name.invented"] * (target == "gemini")
    else:
        assert told(made, target) == items(RECORDS[name])
        assert codes == []


@pytest.mark.parametrize("source, target", PAIRS)
@given(data=st.data())
def test_any_piece_of_a_conversation_is_a_record(source: str, target: str, data: st.DataObject) -> None:
    whole = data.draw(conversations())
    start, stop = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
    exchange = Exchange(source, target, transcript=True)
    wire = record(whole[start:stop], source)
    made = exchange.request(wire)
    assert {loss.code for loss in exchange.losses if loss.kind == "invented"} <= {"call.name.invented"}
    if not any(loss.kind in ("dropped", "changed") for loss in exchange.losses):
        assert told(made, target) == told(wire, source)


SETTINGS = {
    "openai-chat": {"messages"},
    "openai-responses": {"input"},
    "anthropic": {"messages"},
    "gemini": {"contents"},
    "gemini-interactions": {"input"},
}


@pytest.mark.parametrize("target", SETTINGS)
def test_no_field_is_added(target: str) -> None:
    source = "anthropic" if target == "openai-chat" else "openai-chat"
    assert (
        Exchange(source, target, transcript=True).request(record((HELLO, ANSWER), source)).keys()
        == SETTINGS[target]
    )
    assert json.loads(dump_messages([UserMessage("Hello")], target)).keys() == SETTINGS[target]


@pytest.mark.parametrize("target", ["anthropic", "openai-responses", "gemini"])
def test_reasoning_stays_without_a_signature(target: str) -> None:
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "reasoning_content": "because", "content": "a"},
    ]
    exchange = Exchange("openai-chat", target, transcript=True)
    made = exchange.request({"messages": turns})
    assert "because" in json.dumps(made)
    assert "signature" not in json.dumps(made).lower()
    missing = [] if target == "gemini" else [("reasoning.signature.dropped", "messages[1].reasoning_content")]
    assert [(loss.code, loss.where) for loss in exchange.losses] == missing
    back = Exchange(target, "openai-chat", transcript=True).request(made)
    assert back["messages"][1]["reasoning_content"] == "because"


def test_an_order_to_edit_is_not_carried_out() -> None:
    edit = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}}]}
    wire = record((HELLO, CALLED, RESULT) * 4, "anthropic") | {"context_management": edit}
    exchange = Exchange("anthropic", "openai-chat", transcript=True)
    assert str(exchange.request(wire)).count("a line") == 4
    assert [loss.code for loss in exchange.losses] == ["transcript.order.dropped"]


def test_a_request_is_translated_as_before() -> None:
    made = Exchange("openai-chat", "anthropic").request(record((HELLO, ANSWER), "openai-chat"))
    assert made["messages"][-1] == {"role": "user", "content": "(conversation continues)"}


@pytest.mark.parametrize("target", protocols())
def test_a_budget_of_thinking_needs_no_max_tokens(target: str) -> None:
    """Anthropic demands both; a record has what it has."""
    config = {"thinkingConfig": {"thinkingBudget": 128}}
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": config}
    sent = Exchange("gemini", target, transcript=True).request(body, model="claude-sonnet-4-5")
    if target == "anthropic":
        assert "max_tokens" not in sent
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 128}
