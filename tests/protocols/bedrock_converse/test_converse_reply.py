"""Replies of Converse, whole and streamed: what a client gets of each block, stop reason and error."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError, UpstreamError, WireError
from dragoman.core.events import ResponseFailed, fold
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Foreign, State, Stop, Text, ToolCall, Usage
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.protocols import upstream

CONVERSE = upstream("bedrock-converse")
COUNTS = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 135,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 20,
    "cacheDetails": [{"ttl": "5m", "inputTokens": 20}],
}
CALL = {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": "x"}}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
HIDDEN = {"reasoningContent": {"redactedContent": "aGlkZGVu"}}
CITED = {
    "citationsContent": {
        "content": [{"text": "So."}],
        "citations": [
            {"title": "T", "sourceContent": [{"text": "q"}], "location": {"web": {"url": "https://e.x"}}}
        ],
    }
}

SOURCE = {"location": {"web": {"url": "https://e.x/a", "domain": "e.x"}}}
RESULT_START = {"toolResult": {"toolUseId": "t", "status": "success", "type": "nova_code_interpreter_result"}}
RAN: list[dict[str, Any]] = [
    {"toolUse": {"toolUseId": "t", "name": "nova_code_interpreter", "input": {}, "type": "server_tool_use"}},
    {"toolResult": {**RESULT_START["toolResult"], "content": [{"json": {"stdOut": "4"}}]}},
]


def reply(*content: Any, stop: str = "end_turn") -> dict[str, Any]:
    message = {"role": "assistant", "content": [*content]}
    return {"output": {"message": message}, "stopReason": stop, "usage": COUNTS, "metrics": {"latencyMs": 9}}


def delta(index: int, **fields: Any) -> Frame:
    return Frame("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def start(index: int, **call: str) -> Frame:
    return Frame("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": call}})


def stop(index: int) -> Frame:
    return Frame("contentBlockStop", {"contentBlockIndex": index})


BEGIN = Frame("messageStart", {"role": "assistant"})
USED = Frame("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 9}})


def ended(reason: str) -> list[Frame]:
    return [Frame("messageStop", {"stopReason": reason}), USED]


# The same reply, whole and streamed
TWINS: dict[str, tuple[dict[str, Any], list[Frame]]] = {
    "text": (
        reply({"text": "Hello."}),
        [delta(0, text="Hel"), delta(0, text="lo."), stop(0), *ended("end_turn")],
    ),
    "a call": (
        reply(CALL, stop="tool_use"),
        [
            start(0, toolUseId="tooluse_1", name="look"),
            delta(0, toolUse={"input": '{"at"'}),
            delta(0, toolUse={"input": ':"x"}'}),
            stop(0),
            *ended("tool_use"),
        ],
    ),
    "a call without arguments": (
        reply({"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {}}}, stop="tool_use"),
        [
            start(0, toolUseId="tooluse_1", name="look"),
            delta(0, toolUse={"input": "{}"}),
            stop(0),
            *ended("tool_use"),
        ],
    ),
    "signed thinking, then a call": (
        reply(THOUGHT, {"text": "So."}, CALL, stop="tool_use"),
        [
            delta(0, reasoningContent={"text": "Hm."}),
            delta(0, reasoningContent={"signature": "c2ln"}),
            stop(0),
            delta(1, text="So."),
            stop(1),
            start(2, toolUseId="tooluse_1", name="look"),
            delta(2, toolUse={"input": '{"at":"x"}'}),
            stop(2),
            *ended("tool_use"),
        ],
    ),
    "a hidden thought": (
        reply(HIDDEN, {"text": "So."}),
        [
            delta(0, reasoningContent={"redactedContent": "aGlkZGVu"}),
            stop(0),
            delta(1, text="So."),
            stop(1),
            *ended("end_turn"),
        ],
    ),
    "sources in a block behind their text": (  # Nova's grounding
        reply({"text": "So."}, {"citationsContent": {"citations": [SOURCE]}}, {"text": " Or not."}),
        [
            delta(0, text="So."),
            stop(0),
            delta(1, citation=SOURCE),
            stop(1),
            delta(2, text=" Or not."),
            stop(2),
            *ended("end_turn"),
        ],
    ),
    "a call that says that the client runs it": (
        reply({"toolUse": {**CALL["toolUse"], "type": "tool_use"}}, stop="tool_use"),
        [
            start(0, toolUseId="tooluse_1", name="look", type="tool_use"),
            delta(0, toolUse={"input": '{"at":"x"}'}),
            stop(0),
            *ended("tool_use"),
        ],
    ),
    "what Bedrock ran": (
        reply(*RAN, {"text": "It is 4."}),
        [
            start(0, toolUseId="t", name="nova_code_interpreter", type="server_tool_use"),
            delta(0, toolUse={"input": "{}"}),
            stop(0),
            Frame("contentBlockStart", {"contentBlockIndex": 1, "start": RESULT_START}),
            delta(1, toolResult=[{"json": {"stdOut": "4"}}]),
            stop(1),
            delta(2, text="It is 4."),
            stop(2),
            *ended("end_turn"),
        ],
    ),
    "a citation": (
        reply(CITED),
        [
            delta(0, text="So."),
            delta(0, citation=CITED["citationsContent"]["citations"][0]),
            stop(0),
            *ended("end_turn"),
        ],
    ),
}


def streamed(frames: list[Frame]) -> list[Any]:
    decoder = CONVERSE.stream_decoder(Losses())
    printed = [Frame(frame.event, jsontext.encode(frame.data)) for frame in [BEGIN, *frames]]
    return [event for frame in printed for event in decoder.feed(frame)] + [*decoder.close()]


def bare(response: Any) -> Any:
    """What a client can tell apart."""
    parts = [
        (
            *(type(part).__name__, getattr(part, "text", ""), getattr(part, "arguments", ""), part.state),
            [source.url for source in getattr(part, "citations", ())],
        )
        for part in response.parts
        if not isinstance(part, Foreign)
    ]
    return parts, response.stop, response.usage


@pytest.mark.parametrize("name", TWINS)
def test_streamed_equals_whole(name: str) -> None:
    whole, frames = TWINS[name]
    assert bare(fold(streamed(frames))) == bare(CONVERSE.decode_response(whole, Losses()))


# Whose sandbox ran what, and where a citation points: the rest arrives
REPORTED = {"what Bedrock ran"}


@pytest.mark.parametrize("name", [each for each in TWINS if each not in REPORTED])
def test_nothing_is_reported_of_what_arrives(name: str) -> None:
    whole, frames = TWINS[name]
    losses = Losses()
    CONVERSE.decode_response(whole, losses)
    decoder = CONVERSE.stream_decoder(losses)
    for frame in [BEGIN, *frames]:
        list(decoder.feed(Frame(frame.event, jsontext.encode(frame.data))))
    assert [*losses] == []


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("client", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_every_client_reads_it_at_every_cut(name: str, client: str) -> None:
    encoder = AWS_EVENTS.encoder()
    data = b"".join(piece for frame in [BEGIN, *TWINS[name][1]] for piece in encoder.feed(frame))
    outs = set[bytes]()
    for size in (1, 7, 1 << 20):
        stream = Exchange(client, "bedrock-converse", reply_id="r", reply_model="m", reply_created=1).stream()
        fed = [stream.feed(data[at : at + size]) for at in range(0, len(data), size)]
        outs.add(b"".join([*fed, stream.close()]))
        assert stream.failure is None
    assert len(outs) == 1
    assert b"look" in outs.pop() or "call" not in name


def test_usage_counts_the_cache_inside() -> None:
    assert CONVERSE.decode_response(reply(), Losses()).usage == Usage(130, 5, 100, 20)


def test_the_signature_belongs_to_bedrock() -> None:
    thought = CONVERSE.decode_response(reply(THOUGHT), Losses()).parts[0]
    assert thought.state == State("bedrock-converse", "c2ln")


STOPS = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_tool_use": "malformed_call",
    "malformed_model_output": "other",
    "model_context_window_exceeded": "context_full",
    "newer_than_this": "other",
}


@pytest.mark.parametrize("raw", STOPS)
def test_stop_reasons(raw: str) -> None:
    losses = Losses()
    assert CONVERSE.decode_response(reply({"text": "a"}, stop=raw), losses).stop == Stop(STOPS[raw], raw)  # pyright: ignore[reportArgumentType]
    assert bool(list(losses)) == (STOPS[raw] == "other")
    assert fold(streamed([delta(0, text="a"), stop(0), *ended(raw)])).stop == Stop(STOPS[raw], raw)  # pyright: ignore[reportArgumentType]


def test_a_call_that_was_cut_is_not_complete() -> None:
    frames = [
        start(0, toolUseId="t", name="look"),
        delta(0, toolUse={"input": '{"at":'}),
        stop(0),
        *ended("max_tokens"),
    ]
    (call,) = fold(streamed(frames)).parts
    assert isinstance(call, ToolCall)
    assert not call.complete


FAILURES: dict[str, tuple[Frame, Failure]] = {
    "throttled": (
        Frame("throttlingException", {"message": "slow down"}),
        Failure("rate_limit", "slow down", 429, "throttlingException"),
    ),
    "the model broke": (
        Frame("modelStreamErrorException", {"message": "m", "originalStatusCode": 424}),
        Failure("server", "m", 424, "modelStreamErrorException"),
    ),
    "too long": (
        Frame("validationException", {"message": "Input is too long for requested model."}),
        Failure("context_too_long", "Input is too long for requested model.", 400, "validationException"),
    ),
    "an error of the framing": (
        Frame("error", {"code": "InternalFailure", "message": "later"}),
        Failure("server", "later", 500, "InternalFailure"),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_exception_ends_the_stream(name: str) -> None:
    frame, failure = FAILURES[name]
    *_, last = streamed([delta(0, text="a"), frame])
    assert last == ResponseFailed(failure)


def test_a_stream_without_its_metadata_is_whole() -> None:
    """It has no counts; compatible servers leave them out."""
    found = fold(streamed([delta(0, text="a"), stop(0), Frame("messageStop", {"stopReason": "end_turn"})]))
    assert bare(found) == ([("Text", "a", "", None, [])], Stop("end", "end_turn"), None)


def test_a_stream_without_its_stop_was_cut() -> None:
    with pytest.raises(UpstreamError, match="without messageStop"):
        fold(streamed([delta(0, text="a"), stop(0)]))


def test_sources_behind_a_text_belong_to_it() -> None:
    whole, frames = TWINS["sources in a block behind their text"]
    for found in (CONVERSE.decode_response(whole, Losses()), fold(streamed(frames))):
        first, second = found.parts
        assert isinstance(first, Text)
        assert isinstance(second, Text)
        assert ([source.url for source in first.citations], second.citations) == (["https://e.x/a"], ())


UNKNOWN: dict[str, tuple[Frame, str]] = {
    "of an event": (
        Frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}, "x": 1}),
        "x",
    ),
    "beside a text": (delta(0, text="a", x=1), "delta.x"),
    "in a thought": (delta(0, reasoningContent={"text": "a", "x": 1}), "delta.reasoningContent.x"),
    "in a start": (
        Frame("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}, "x": 1}}),
        "start.x",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_fields_of_a_stream_are_reported_once(name: str) -> None:
    frame, where = UNKNOWN[name]
    losses = Losses()
    decoder = CONVERSE.stream_decoder(losses)
    for each in [BEGIN, frame, frame]:
        list(decoder.feed(Frame(each.event, jsontext.encode(each.data))))
    assert [loss.where for loss in losses] == [where]


def test_unknown_fields_around_the_message_are_reported() -> None:
    losses = Losses()
    body = {"output": {"message": {"role": "assistant", "content": [{"text": "a"}], "x": 1}, "y": 1}}
    CONVERSE.decode_response(body, losses)
    assert {loss.where for loss in losses} == {"output.message.x", "output.y"}


DETAILS: dict[str, tuple[dict[str, Any], bool]] = {
    "the domain of the address": (SOURCE, False),
    "another domain": ({"location": {"web": {"url": "https://e.x/a", "domain": "f.x"}}}, True),
    "a place in search results": (
        {"source": "https://e.x/a", "location": {"searchResultLocation": {"searchResultIndex": 0}}},
        True,
    ),
}


@pytest.mark.parametrize("name", DETAILS)
def test_what_a_source_says_beside_its_address_is_reported(name: str) -> None:
    citation, reported = DETAILS[name]
    losses = Losses()
    body = reply({"citationsContent": {"content": [{"text": "So."}], "citations": [citation]}})
    CONVERSE.decode_response(body, losses)
    assert [loss.code for loss in losses] == ["citation.detail.dropped"] * reported


ERRORS: dict[str, tuple[int, dict[str, Any], str, str]] = {
    "denied": (403, {"message": "no access"}, "forbidden", "no access"),
    "a type in the body": (
        400,
        {"__type": "com.amazon#ThrottlingException", "message": "m"},
        "rate_limit",
        "m",
    ),
    "an expired token": (
        403,
        {
            "__type": "ExpiredTokenException",
            "message": "The security token included in the request is expired",
        },
        "unauthenticated",
        "The security token included in the request is expired",
    ),
    "a clock that is off": (
        403,
        {"message": "Signature expired: 20261118T100000Z is now earlier than 20261118T100500Z"},
        "forbidden",
        "Signature expired: 20261118T100000Z is now earlier than 20261118T100500Z "
        "(the clock of this machine is off by more than five minutes)",
    ),
    "not ready": (429, {"message": "Model is not ready"}, "rate_limit", "Model is not ready"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    status, body, kind, message = ERRORS[name]
    failure = CONVERSE.decode_error(body, status)
    assert failure is not None
    assert (failure.kind, failure.message, failure.status) == (kind, message, status)


BROKEN = {
    "no output": {"stopReason": "end_turn"},
    "no message": {"output": {}},
    "content is text": {"output": {"message": {"content": "a"}}},
    "a call without a name": {
        "output": {"message": {"content": [{"toolUse": {"toolUseId": "a", "input": {}}}]}}
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_replies(name: str) -> None:
    with pytest.raises(WireError, match="bedrock-converse"):
        CONVERSE.decode_response(BROKEN[name], Losses())


OUT_OF_ORDER = {
    "a delta before the start": [delta(0, text="a")],
    "a call without its start": [BEGIN, delta(0, toolUse={"input": "{}"})],
    "two blocks at once": [BEGIN, delta(0, text="a"), delta(1, text="b")],
    "a gap": [BEGIN, delta(1, text="a")],
    "metadata before the stop": [BEGIN, USED],
    "a stop inside a block": [BEGIN, delta(0, text="a"), *ended("end_turn")],
    "after the end": [BEGIN, *ended("end_turn"), USED],
    "nothing": [],
}


@pytest.mark.parametrize("name", OUT_OF_ORDER)
def test_the_grammar_refuses(name: str) -> None:
    with pytest.raises(GrammarError):
        checked(OUT_OF_ORDER[name])


@pytest.mark.parametrize("name", TWINS)
def test_the_grammar_takes(name: str) -> None:
    checked([BEGIN, *TWINS[name][1]])


def checked(frames: list[Frame]) -> None:
    grammar = CONVERSE.grammar()
    for frame in frames:
        grammar.feed(frame)
    grammar.close()
