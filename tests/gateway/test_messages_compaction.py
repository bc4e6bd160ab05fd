"""Compaction for Anthropic clients over other upstreams: by a threshold, with a pause, and on request."""

from __future__ import annotations

from typing import Any

import anthropic
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


def answered(upstream: Canned, stream: bool = False, protocol: str = "openai-chat", **more: Any) -> Got:
    body = {"model": "one:m", "max_tokens": 99, "messages": MESSAGES, "stream": stream, **more}
    with running(upstream) as url, gateway(provider("one", url, protocol)) as stand:
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


BLOCK = {"type": "compaction", "content": "Launch: Tuesday."}
COMPACTED: list[Any] = [
    *MESSAGES,
    {"role": "assistant", "content": [BLOCK, {"type": "text", "text": "On Tuesday."}]},
    {"role": "user", "content": "Where?"},
]


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
def test_a_compacted_conversation_is_not_compacted_again(protocol: str) -> None:
    """The client sends the whole history; what the summary replaced is neither counted nor sent."""
    whole = chat("Here.") if protocol == "openai-chat" else message("Here.")
    upstream = Canned(Answer(200, whole))
    got = answered(upstream, messages=COMPACTED, protocol=protocol, **compact())
    assert [block["type"] for block in got.json["content"]] == ["text"]
    (sent,) = upstream.requests
    assert "word word" not in sent.body.decode()
    assert "Launch: Tuesday." in sent.body.decode()


def test_a_failed_compaction_replaces_nothing() -> None:
    failed = {"role": "assistant", "content": [{"type": "compaction", "content": None}]}
    upstream = Canned(Answer(200, chat("Summary.")), Answer(200, chat("Here.")))
    got = answered(upstream, messages=[*MESSAGES, failed, *MESSAGES[-1:]], **compact())
    assert got.json["content"][0] == {"type": "compaction", "content": "Summary."}


@pytest.mark.parametrize(
    "more", [compact(pause_after_compaction=True), {"compaction": {"type": "summarize"}}]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_nothing_but_the_summary_over_the_clients_own_protocol(more: dict[str, Any], stream: bool) -> None:
    """A provider that speaks Anthropic's protocol, but is not Anthropic."""
    answer = Answer(200, *said("Launch: Tuesday.")) if stream else Answer(200, message("Launch: Tuesday."))
    got = answered(Canned(answer), stream, protocol="anthropic", **more)
    end = events(got)[-2] if stream else got.json
    assert (end["delta"] if stream else end)["stop_reason"] == "compaction"
    assert end["context_management"] == {"applied_edits": []}
    assert got.headers["x-dragoman-losses"] == "1; compaction.emulated compaction"


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
def test_the_sdk_reads_a_compacted_stream(protocol: str) -> None:
    """One start and one end, and the usage of the reply is not that of the summary; the log has the sum."""
    chat_like = protocol == "openai-chat"
    answers = (
        Answer(200, chat("Summary.") if chat_like else message("Summary.")),
        Answer(200, *(chunks("On ", "Tuesday.") if chat_like else said("On Tuesday."))),
    )
    with running(upstream := Canned(*answers)) as url, gateway(provider("one", url, protocol)) as stand:
        client = anthropic.Anthropic(base_url=stand.url, api_key="k")
        asked: Any = {"model": "one:m", "max_tokens": 99, "messages": MESSAGES, **compact()}
        with client.beta.messages.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_message()
        record = stand.last()
    assert (kinds.count("message_start"), kinds.count("message_stop")) == (1, 1)
    assert [block.type for block in final.content] == ["compaction", "text"]
    assert final.stop_reason == "end_turn"
    assert len(upstream.requests) == 2
    assert record["output"] > final.usage.output_tokens
    if chat_like:  # its stream says no usage
        assert final.usage.iterations is None
        return
    assert final.usage.iterations
    summary, answer = final.usage.iterations
    assert (summary.type, answer.type) == ("compaction", "message")
    assert answer.output_tokens == final.usage.output_tokens
    assert summary.output_tokens == record["output"] - final.usage.output_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_failure_after_the_summary_has_a_status_until_something_went_out(stream: bool) -> None:
    got = answered(Canned(Answer(200, chat("Summary.")), Answer(400, error("no"))), stream, **compact())
    assert (got.status, got.json["error"]["message"]) == (400, "no")


def test_a_reply_after_the_summary_that_breaks_ends_with_an_error_event() -> None:
    cut = Answer(200, *chunks("On ", "Tuesday.")[:2])
    got = answered(Canned(Answer(200, chat("Summary.")), cut), True, **compact())
    found = events(got)
    assert (found[0]["type"], found[-1]["type"]) == ("message_start", "error")
    assert "message_stop" not in [event["type"] for event in found]


def message(text: str) -> bytes:
    return jsontext.encode(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 50, "output_tokens": 7},
        }
    )


def said(text: str) -> list[bytes]:
    start = {**jsontext.decode(message("")), "content": [], "stop_reason": None}
    delta = {"type": "text_delta", "text": text}
    frames: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return [b"event: %b\ndata: %b\n\n" % (f["type"].encode(), jsontext.encode(f)) for f in frames]
