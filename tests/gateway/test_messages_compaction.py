"""Compaction for Anthropic clients over other upstreams: by a threshold, with a pause, and on request."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import gateway

MESSAGES: list[Any] = [
    {"role": "user", "content": "Launch on Tuesday. " + "word " * 400},
    {"role": "assistant", "content": "Agreed."},
    {"role": "user", "content": "When?"},
]


def compact(**more: Any) -> dict[str, Any]:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100}, **more}
    keep = {"type": "clear_thinking_20251015", "keep": "all"}
    return {"context_management": {"edits": [keep, edit]}}


def answered(upstream: Canned, stream: bool = False, **more: Any) -> Got:
    body = {"model": "one:m", "max_tokens": 99, "messages": MESSAGES, "stream": stream, **more}
    with running(upstream) as url, gateway(provider("one", url)) as stand:
        got = send(stand.url, "POST", "/v1/messages", jsontext.encode(body))
        upstream.records = stand.last()  # type: ignore[attr-defined]
    return got


def events(got: Got) -> list[Any]:
    lines = [line[6:] for line in got.body.split(b"\n") if line.startswith(b"data: ")]
    return [jsontext.decode(line) for line in lines]


def test_a_threshold() -> None:
    upstream = Canned(Answer(200, chat("Launch: Tuesday.")), Answer(200, chat("On Tuesday.")))
    got = answered(upstream, **compact())
    assert got.json["content"][0] == {"type": "compaction", "content": "Launch: Tuesday."}
    assert got.json["content"][1]["text"] == "On Tuesday."
    assert got.json["stop_reason"] == "end_turn"
    assert got.json["context_management"] == {"applied_edits": []}
    assert "compaction.emulated" in got.headers["x-dragoman-losses"]
    first, second = upstream.requests
    assert "word word" in first.body.decode()
    contents = [message["content"] for message in second.json["messages"]]
    assert contents[-1] == "When?"
    assert "Launch: Tuesday." in contents[0]
    assert "word word" not in second.body.decode()


def test_a_threshold_in_a_stream() -> None:
    answer = Answer(200, *chunks("On ", "Tuesday."), content_type="text/event-stream")
    got = answered(Canned(Answer(200, chat("Launch: Tuesday.")), answer), stream=True, **compact())
    found = events(got)
    starts = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["compaction", "text"]
    assert starts[0]["content"] is None
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert deltas[0] == {"type": "compaction_delta", "content": "Launch: Tuesday."}
    (end,) = [event for event in found if event["type"] == "message_delta"]
    assert (end["delta"]["stop_reason"], end["context_management"]) == ("end_turn", {"applied_edits": []})


def test_a_short_conversation_is_left_alone() -> None:
    upstream = Canned(Answer(200, chat("On Tuesday.")))
    got = answered(upstream, messages=MESSAGES[-1:], **compact())
    assert [block["type"] for block in got.json["content"]] == ["text"]
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "more", [compact(pause_after_compaction=True), {"compaction": {"type": "summarize"}}]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_nothing_but_the_summary(more: dict[str, Any], stream: bool) -> None:
    streamed = Answer(200, *chunks("Launch: ", "Tuesday."), content_type="text/event-stream")
    upstream = Canned(streamed if stream else Answer(200, chat("Launch: Tuesday.")))
    got = answered(upstream, stream, **more)
    if stream:
        delta, end = [event["delta"] for event in events(got) if "delta" in event]
        assert delta == {"type": "compaction_delta", "content": "Launch: Tuesday."}
        assert end["stop_reason"] == "compaction"
    else:
        assert got.json["content"] == [{"type": "compaction", "content": "Launch: Tuesday."}]
        assert got.json["stop_reason"] == "compaction"
    assert len(upstream.requests) == 1


def test_results_stay_with_their_calls() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
    messages = [
        MESSAGES[0],
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    upstream = Canned(Answer(200, chat("Summary.")), Answer(200, chat("Done.")))
    answered(
        upstream, messages=messages, tools=[{"name": "f", "input_schema": {"type": "object"}}], **compact()
    )
    sent = upstream.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]


def test_failures() -> None:
    got = answered(Canned(Answer(400, error("no"))), **compact())
    assert (got.status, got.json["error"]["message"]) == (400, "no")
    broken: dict[str, Any] = {"context_management": {"edits": [{"type": "compact_20260112", "trigger": 7}]}}
    got = answered(Canned(Answer(200, chat("x"))), **broken)
    assert (got.status, "edits[0].trigger" in got.json["error"]["message"]) == (400, True)
    got = answered(Canned(Answer(200, chat("  "))), **compact())
    assert (got.status, got.json["type"]) == (500, "error")
