"""What the page says about a recording: counterparts, the broken prefix, the window, the life of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.codec import Frame
from dragoman.framing.aws_events import AWS_CHUNKS
from dragoman.gateway.observability.recorded_stream import client_framing, reply_parts, timeline
from dragoman.gateway.observability.recording import (
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingSummary,
)
from dragoman.inspector.analysis import (
    correspondences,
    prefix_break,
    repeated_entries,
    threads,
    tools_difference,
    tools_of,
    window,
)

CHAT: dict[str, Any] = {
    "model": "gpt-5",
    "messages": [
        {"role": "user", "content": "What is in here?"},
        {"role": "user", "content": "What is in here?"},
    ],
    "max_tokens": 512,
}
ANTHROPIC: dict[str, Any] = {
    "max_tokens": 512,
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is in here?"},
                {"type": "text", "text": "What is in here?"},
            ],
        }
    ],
}


def test_equal_values_correspond_in_order() -> None:
    assert dict(correspondences(CHAT, ANTHROPIC)) == {
        "messages[0].role": "messages[0].role",
        "messages[0].content": "messages[0].content[0].text",
        "messages[1].content": "messages[0].content[1].text",
        "max_tokens": "max_tokens",
    }


def test_arguments_correspond_however_they_are_spelled() -> None:
    call = {"arguments": '{"path": "a.py"}'}
    assert correspondences(call, {"arguments": '{"path":"a.py"}'}) == [("arguments", "arguments")]
    assert correspondences(call, {"content": [{"input": {"path": "a.py"}}]}) == [
        ("arguments", "content[0].input")
    ]
    declared = {"tools": [{"input_schema": {"type": "object", "properties": {}}}]}
    sent = {"tools": [{"function": {"parameters": {"properties": {}, "type": "object"}}}]}
    assert ("tools[0].input_schema", "tools[0].function.parameters") in correspondences(declared, sent)


def grown(**changes: object) -> bytes:
    more = [*CHAT["messages"], {"role": "assistant", "content": "A file."}]
    return json.dumps({**CHAT, "messages": more, **changes}).encode()


@pytest.mark.parametrize(
    "after, path",
    [
        (grown(), ""),
        (json.dumps(CHAT).encode(), ""),
        (grown(model="gpt-6"), "model"),
        (
            json.dumps({**CHAT, "messages": [{"role": "user", "content": "At 12:01: what?"}]}).encode(),
            "messages[0].content",
        ),
    ],
    ids=["only grew", "the same", "another model", "the first message changed"],
)
def test_the_field_that_broke_the_prefix_is_named(after: bytes, path: str) -> None:
    before = json.dumps(CHAT).encode()
    found = prefix_break(before, after)
    assert found.path == path
    assert before[: found.same] == after[: found.same]


def test_entries_of_the_last_turn_are_counted() -> None:
    assert repeated_entries(CHAT, json.loads(grown())) == {"messages": 2}
    assert repeated_entries(CHAT, {**CHAT, "messages": ["other"]}) == {}


TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "d" * 360, "parameters": {"type": "object"}},
}
OTHER = {
    "type": "function",
    "function": {"name": "write", "description": "w", "parameters": {"type": "object"}},
}
CALLED: dict[str, Any] = {
    "model": "m",
    "tools": [TOOL, OTHER],
    "messages": [
        {"role": "system", "content": "s" * 720},
        {"role": "user", "content": "u" * 36},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r" * 3600},
    ],
}


def test_the_window_is_listed_piece_by_piece() -> None:
    segments = window("openai-chat", json.dumps(CALLED).encode())
    kinds = {(segment.kind, segment.label): segment for segment in segments}
    assert kinds["result", "read"].tokens == 1000
    assert kinds["tool", "read"].used
    assert not kinds["tool", "write"].used
    assert sum(segment.tokens for segment in segments if segment.kind == "system") == 200
    assert window("openai-chat", b"no json") == []


def exchange(id: str, body: object, reply: object) -> Recording:
    return Recording(
        summary=RecordingSummary(id=id, time=0.0, client="openai-chat"),
        request=RecordedMessage(
            "POST", "/v1/chat/completions", 0, {}, RecordedBody(json.dumps(body).encode())
        ),
        reply=RecordedMessage("", "", 200, {}, RecordedBody(json.dumps(reply).encode())),
    )


def test_a_call_is_followed_from_its_birth_to_its_result() -> None:
    first = {"choices": [{"message": CALLED["messages"][2], "finish_reason": "tool_calls"}]}
    session = [exchange("e1", CHAT, first), exchange("e2", CALLED, {"choices": []})]
    (thread,) = threads(session)
    assert (thread.kind, thread.id, thread.label, thread.born, thread.answered) == (
        "call",
        "c1",
        "read",
        "e1",
        "e2",
    )


def test_tools_are_compared() -> None:
    before, after = tools_of("openai-chat", json.dumps(CALLED).encode()), {"read": "else", "new": "x"}
    assert tools_difference(before, after) == {"added": ["new"], "removed": ["write"], "changed": ["read"]}


def test_parts_of_broken_replies_are_nothing() -> None:
    assert reply_parts("openai-chat", b"<html>") == ()
    assert reply_parts("anthropic", b'{"type":"error","error":{"message":"x"}}') == ()


def test_a_binary_stream_is_taken_apart_as_its_path_demands() -> None:
    """A client of Bedrock: the events are in binary frames, which its path tells and not their first byte."""
    event = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}'
    data = AWS_CHUNKS.encoder().feed(Frame("content_block_delta", event))
    recording = Recording(
        summary=RecordingSummary(id="x", time=0.0, client="anthropic", stream=True),
        request=RecordedMessage("POST", "/model/m/invoke-with-response-stream"),
        reply=RecordedMessage(body=RecordedBody(b"".join(data))),
    )
    assert client_framing(recording) is AWS_CHUNKS
    assert [(tick.track, tick.name, tick.text) for tick in timeline(recording)] == [
        ("client", "content_block_delta", event.decode())
    ]
