"""Streams as they are read and written: order, indices, cut calls, errors, and what servers leave out."""

from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    fold,
    unfold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.anthropic import CODEC
from dragoman.transforms.sequence import Sequencer

OWN = {"anthropic": {}}
TRUNCATED = ResponseFailed(Failure("truncated", "the upstream's stream ended without message_stop", 502))


def start(**more: Any) -> Wire:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], **more}
    return {
        "type": "message_start",
        "message": {"stop_reason": None, "usage": {"input_tokens": 5, "output_tokens": 1}} | message,
    }


def opened(index: int | None, **block: Any) -> Wire:
    return {"type": "content_block_start", "content_block": block} | (
        {} if index is None else {"index": index}
    )


def delta(index: int | None, kind: str, **more: Any) -> Wire:
    body = {"type": "content_block_delta", "delta": {"type": kind, **more}}
    return body if index is None else body | {"index": index}


def closed(index: int | None) -> Wire:
    return {"type": "content_block_stop"} | ({} if index is None else {"index": index})


def end(reason: str | None = "end_turn", **more: Any) -> Wire:
    stop = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}, **more}


def text(index: int | None, *pieces: str) -> list[Wire]:
    return [
        opened(index, type="text", text=""),
        *(delta(index, "text_delta", text=piece) for piece in pieces),
        closed(index),
    ]


def call(index: int, *pieces: str, **more: Any) -> list[Wire]:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}} | more
    return [
        opened(index, **block),
        *(delta(index, "input_json_delta", partial_json=piece) for piece in pieces),
        closed(index),
    ]


STOP = {"type": "message_stop"}


def events_of(bodies: Iterable[Any], losses: Losses | None = None) -> list[Event]:
    decoder = CODEC.stream_decoder(Losses() if losses is None else losses)
    events: list[Event] = []
    for body in bodies:
        name = body["type"] if isinstance(body, dict) else ""
        events += decoder.feed(Frame(name, body if isinstance(body, bytes) else jsontext.encode(body)))
    return [*events, *decoder.close()]


def read(bodies: Iterable[Any]) -> Response:
    return fold(events_of(bodies))


# name: (what comes between message_start and message_delta, the stop reason, parts)
T = ToolCall("t", "f", '{"a": 1}', extras=OWN)
PARTS: dict[str, tuple[list[Wire], str, list[AnyPart]]] = {
    "text": (text(0, "he", "llo"), "end_turn", [Text("hello", extras=OWN)]),
    "text in its announcement": (
        [opened(0, type="text", text="he"), delta(0, "text_delta", text="llo"), closed(0)],
        "end_turn",
        [Text("hello", extras=OWN)],
    ),
    "empty text is not announced": ([*text(0, ""), *text(1, "hi")], "end_turn", [Text("hi", extras=OWN)]),
    "a call": (call(0, "", '{"a"', ": 1}"), "tool_use", [T]),
    "G05 input that comes whole with the announcement": (
        call(0, input={"a": 1}),
        "tool_use",
        [ToolCall("t", "f", '{"a":1}', extras=OWN)],
    ),
    "input in the announcement is not doubled": (call(0, '{"a": 1}', input={"a": 1}), "tool_use", [T]),
    "G64 a call without arguments": (call(0, ""), "tool_use", [ToolCall("t", "f", "{}", extras=OWN)]),
    "a call whose announcement has no input": (
        [
            opened(0, type="tool_use", id="t", name="f"),
            delta(0, "input_json_delta", partial_json='{"a": 1}'),
            closed(0),
        ],
        "tool_use",
        [T],
    ),
    "a call that code made": (
        call(0, '{"a": 1}', caller={"type": "direct"}),
        "tool_use",
        [ToolCall("t", "f", '{"a": 1}', extras={"anthropic": {"caller": {"type": "direct"}}})],
    ),
    "JSON that is broken, but not cut": (
        [*call(0, '{"a": oops}'), *text(1, "hi")],
        "tool_use",
        [ToolCall("t", "f", '{"a": oops}', extras=OWN), Text("hi", extras=OWN)],
    ),
    "G28 a call that was cut": (
        call(0, '{"a": "x'),
        "max_tokens",
        [ToolCall("t", "f", '{"a": "x', complete=False, extras=OWN)],
    ),
    "G28 a call that was cut before its arguments": (
        call(0, ""),
        "max_tokens",
        [ToolCall("t", "f", "{}", complete=False, extras=OWN)],
    ),
    "G28 a cut call whose block nobody closed": (
        call(0, '{"a": "x')[:-1],
        "max_tokens",
        [ToolCall("t", "f", '{"a": "x', complete=False, extras=OWN)],
    ),
    "a whole call before the limit": (call(0, '{"a": 1}'), "max_tokens", [T]),
    "a whole call whose block nobody closed": (call(0, '{"a": 1}')[:-1], "tool_use", [T]),
    "thinking": (
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="h"),
            delta(0, "thinking_delta", thinking="m"),
            delta(0, "signature_delta", signature="S1"),
            delta(0, "signature_delta", signature="S"),
            closed(0),
        ],
        "end_turn",
        [Reasoning("hm", state=State("anthropic", "S"), extras={"anthropic": {"signature": ""}})],
    ),
    "thinking that is not shown": (
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "signature_delta", signature="S"),
            closed(0),
        ],
        "end_turn",
        [Reasoning("", state=State("anthropic", "S"), extras={"anthropic": {"signature": ""}})],
    ),
    "thinking that says nothing": (
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "signature_delta", signature=""),
            closed(0),
        ],
        "end_turn",
        [],
    ),
    "G105 redacted thinking": (
        [opened(0, type="redacted_thinking", data="R"), closed(0)],
        "end_turn",
        [Reasoning(hidden=True, state=State("anthropic", "R"), extras=OWN)],
    ),
    "citations": (
        [
            opened(0, type="text", text="", citations=[]),
            delta(
                0,
                "citations_delta",
                citation={
                    "type": "web_search_result_location",
                    "url": "https://a",
                    "title": "A",
                    "cited_text": "x",
                },
            ),
            delta(0, "text_delta", text="hi"),
            closed(0),
        ],
        "end_turn",
        [
            Text(
                "hi",
                (
                    Citation(
                        "https://a",
                        "A",
                        "x",
                        extras={
                            "anthropic": {
                                "type": "web_search_result_location",
                                "url": "https://a",
                                "title": "A",
                                "cited_text": "x",
                            }
                        },
                    ),
                ),
                extras={"anthropic": {"citations": []}},
            )
        ],
    ),
    "G95 a call of a hosted tool is whole when its input is": (
        [
            opened(0, type="server_tool_use", id="s", name="web_search", input={}),
            delta(0, "input_json_delta", partial_json='{"query"'),
            delta(0, "input_json_delta", partial_json=':"q"}'),
            closed(0),
        ],
        "end_turn",
        [
            Foreign(
                "anthropic",
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            )
        ],
    ),
    "a result of a hosted tool": (
        [opened(0, type="web_search_tool_result", tool_use_id="s", content=[]), closed(0)],
        "end_turn",
        [Foreign("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})],
    ),
    "a summary": (
        [
            opened(0, type="compaction", content=None),
            delta(0, "compaction_delta", content="sum", encrypted_content="E"),
            closed(0),
        ],
        "compaction",
        [Foreign("anthropic", {"type": "compaction", "content": "sum", "encrypted_content": "E"})],
    ),
    "blocks side by side": (
        [
            opened(0, type="tool_use", id="a", name="f", input={}),
            opened(1, type="tool_use", id="b", name="g", input={}),
            delta(1, "input_json_delta", partial_json='{"b":1}'),
            delta(0, "input_json_delta", partial_json='{"a":1}'),
            closed(1),
            closed(0),
        ],
        "tool_use",
        [ToolCall("a", "f", '{"a":1}', extras=OWN), ToolCall("b", "g", '{"b":1}', extras=OWN)],
    ),
    "G09 blocks without an index": (
        [
            opened(None, type="text", text=""),
            delta(None, "text_delta", text="hi"),
            closed(None),
            opened(None, type="tool_use", id="t", name="f"),
            delta(None, "input_json_delta", partial_json='{"a": 1}'),
            closed(None),
        ],
        "tool_use",
        [Text("hi", extras=OWN), T],
    ),
    "indices with a gap": (
        [*text(3, "a"), *text(7, "b")],
        "end_turn",
        [Text("a", extras=OWN), Text("b", extras=OWN)],
    ),
    "a delta of the wrong kind": (
        [
            opened(0, type="text", text=""),
            delta(0, "input_json_delta", partial_json="{"),
            delta(0, "text_delta", text="hi"),
            closed(0),
        ],
        "end_turn",
        [Text("hi", extras=OWN)],
    ),
    "events and deltas that are newer than we are": (
        [
            {"type": "weather", "sunny": True},
            opened(0, type="text", text=""),
            delta(0, "smell_delta", smell="x"),
            delta(0, "text_delta", text="hi"),
            closed(0),
        ],
        "end_turn",
        [Text("hi", extras=OWN)],
    ),
}


@pytest.mark.parametrize(("bodies", "reason", "parts"), PARTS.values(), ids=PARTS)
def test_blocks_become_parts(bodies: list[Wire], reason: str, parts: list[AnyPart]) -> None:
    response = read([start(), *bodies, end(reason), STOP])
    assert list(response.parts) == parts
    assert response.stop.raw == reason
    assert (response.id, response.model) == ("msg_1", "m")


@pytest.mark.parametrize(("bodies", "reason", "parts"), PARTS.values(), ids=PARTS)
def test_every_part_that_starts_ends_once(bodies: list[Wire], reason: str, parts: list[AnyPart]) -> None:
    events = events_of([start(), *bodies, end(reason), STOP])
    begun = [event.index for event in events if isinstance(event, PartStart)]
    assert sorted(event.index for event in events if isinstance(event, PartEnd)) == sorted(begun)
    assert len(begun) == len(set(begun)) == len(parts)
    assert isinstance(events[0], ResponseStart)
    assert isinstance(events[-1], ResponseEnd)


@pytest.mark.parametrize(("bodies", "reason", "parts"), PARTS.values(), ids=PARTS)
def test_a_cut_stream_ends_in_failure(bodies: list[Wire], reason: str, parts: list[AnyPart]) -> None:
    whole = [start(), *bodies, end(reason), STOP]
    for length in range(len(whole)):
        events = events_of(whole[:length])
        assert events[-1] == TRUNCATED  # G14
        begun = [event.index for event in events if isinstance(event, PartStart)]
        assert sorted(event.index for event in events if isinstance(event, PartEnd)) == sorted(begun)


def test_text_streams_on_as_it_comes() -> None:
    decoder = CODEC.stream_decoder(Losses())
    steps = [list(decoder.feed(Frame("", jsontext.encode(body)))) for body in [start(), *text(0, "a", "b")]]
    assert steps[1:] == [
        [],
        [PartStart(0, Text("", extras=OWN)), PartDelta(0, "a")],
        [PartDelta(0, "b")],
        [PartEnd(0)],
    ]


# What a stream says about itself: name: (bodies, response)
START_USAGE = {"input_tokens": 5, "output_tokens": 1}
SAID: dict[str, tuple[list[Any], Response]] = {
    "usage is corrected at the end": (
        [
            start(usage={"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}),
            end() | {"usage": {"input_tokens": 6, "cache_read_input_tokens": None, "output_tokens": 9}},
            STOP,
        ],
        Response(
            "msg_1",
            "m",
            (),
            Stop("end", "end_turn"),
            Usage(8, 9, 2),
            extras={
                "anthropic": {
                    "type": "message",
                    "role": "assistant",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 6, "cache_read_input_tokens": 2, "output_tokens": 9},
                }
            },
        ),
    ),
    "a refusal and a container": (
        [
            start(),
            {
                "type": "message_delta",
                "delta": {
                    "stop_reason": "refusal",
                    "stop_details": {"type": "refusal"},
                    "container": {"id": "c"},
                },
                "usage": {"output_tokens": 2},
                "context_management": {"applied_edits": []},
            },
            STOP,
        ],
        Response(
            "msg_1",
            "m",
            (),
            Stop("refusal", "refusal"),
            Usage(5, 2),
            extras={
                "anthropic": {
                    "type": "message",
                    "role": "assistant",
                    "stop_details": {"type": "refusal"},
                    "container": {"id": "c"},
                    "context_management": {"applied_edits": []},
                    "usage": {"input_tokens": 5, "output_tokens": 2},
                }
            },
        ),
    ),
    "several message_deltas": (
        [
            start(usage=None),
            end(None),
            end("stop_sequence") | {"delta": {"stop_reason": "stop_sequence", "stop_sequence": "X"}},
            STOP,
        ],
        Response(
            "msg_1",
            "m",
            (),
            Stop("stop_sequence", "stop_sequence", "X"),
            Usage(0, 7),
            extras={
                "anthropic": {
                    "type": "message",
                    "role": "assistant",
                    "usage": {"output_tokens": 7},
                    "stop_sequence": None,
                }
            },
        ),
    ),
    "no beginning": (
        [*text(0, "hi"), end() | {"usage": None}, STOP],
        Response(
            "",
            "",
            (Text("hi", extras=OWN),),
            Stop("end", "end_turn"),
            extras={"anthropic": {"stop_sequence": None}},
        ),
    ),
    "no reason to stop": ([*text(0, "hi"), STOP], Response("", "", (Text("hi", extras=OWN),), Stop("end"))),
    "no reason to stop, but a call": (
        [*call(0, '{"a": 1}'), STOP],
        Response("", "", (T,), Stop("tool_calls")),
    ),
    "everything in the announcement, as where code calls tools": (
        [
            start(
                content=[{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
                stop_reason="tool_use",
                usage=None,
            ),
            STOP,
        ],
        Response(
            "msg_1",
            "m",
            (ToolCall("t", "f", '{"a":1}', extras=OWN),),
            Stop("tool_calls", "tool_use"),
            extras={"anthropic": {"type": "message", "role": "assistant", "usage": None}},
        ),
    ),
    "an announcement that is repeated": (
        [start(usage=None), start(usage=None), *text(0, "hi"), end() | {"usage": {}}, STOP],
        Response(
            "msg_1",
            "m",
            (Text("hi", extras=OWN),),
            Stop("end", "end_turn"),
            extras={
                "anthropic": {"type": "message", "role": "assistant", "usage": None, "stop_sequence": None}
            },
        ),
    ),
    "G20 more after the end": (
        [*text(0, "hi"), STOP, b"[DONE]", start(), b"not json"],
        Response("", "", (Text("hi", extras=OWN),), Stop("end")),
    ),
    "a word that Chat ends with": (
        [b"[DONE]", *text(0, "hi"), STOP],
        Response("", "", (Text("hi", extras=OWN),), Stop("end")),
    ),
}


@pytest.mark.parametrize(("bodies", "response"), SAID.values(), ids=SAID)
def test_what_a_stream_says_about_itself(bodies: list[Any], response: Response) -> None:
    assert read(bodies) == response


def test_the_type_may_stand_in_the_name_of_the_event_alone() -> None:
    decoder = CODEC.stream_decoder(Losses())
    events = [event for body in [start(), *text(0, "hi"), STOP] for event in decoder.feed(_unnamed(body))]
    assert fold(events).parts == (Text("hi", extras=OWN),)


def _unnamed(body: Wire) -> Frame:
    return Frame(body["type"], jsontext.encode({key: value for key, value in body.items() if key != "type"}))


@pytest.mark.parametrize("reason", ["end_turn", "tool_use", "max_tokens", "refusal"])
def test_streamed_equals_whole(reason: str) -> None:
    """The same reply, whole and streamed."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "S"}
    blocks = [
        thinking,
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 7}
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [*blocks, {"type": "text", "text": "."}],
    }
    stream = [
        start(),
        opened(0, type="thinking", thinking=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="S"),
        closed(0),
        *text(1, "h", "i"),
        *call(2, '{"a"', ":1}"),
        *text(3, "."),
        end(reason),
        STOP,
    ]
    expected = whole | {"stop_reason": reason, "stop_sequence": None, "usage": usage}
    assert read(stream) == CODEC.decode_response(expected, Losses())


# Ends that are failures: name: (bodies, failure)
FAILED: dict[str, tuple[list[Wire], Failure]] = {
    "G15 an error": (
        [
            start(),
            *text(0, "hi"),
            {"type": "error", "error": {"type": "overloaded_error", "message": "later"}},
        ],
        Failure("overloaded", "later", 529, "overloaded_error"),
    ),
    "an error first": (
        [{"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}],
        Failure("rate_limit", "slow", 429, "rate_limit_error"),
    ),
    "an error inside a call": (
        [start(), *call(0, '{"a')[:-1], {"type": "error", "error": {"type": "api_error", "message": "oops"}}],
        Failure("server", "oops", 500, "api_error"),
    ),
    "an error that says nothing": ([start(), {"type": "error"}], Failure("server", "", 500)),
    "a second message, after a proxy tried again": (
        [start(), *call(0, '{"a')[:-1], start(id="msg_2"), *text(0, "hi"), end(), STOP],
        Failure("server", "the upstream began a second message in one stream", 502),
    ),
}


@pytest.mark.parametrize(("bodies", "failure"), FAILED.values(), ids=FAILED)
def test_failures(bodies: list[Wire], failure: Failure) -> None:
    events = events_of(bodies)
    assert events[-1] == ResponseFailed(failure)
    assert sum(isinstance(event, ResponseFailed | ResponseEnd) for event in events) == 1
    starts = [event.index for event in events if isinstance(event, PartStart)]
    assert [event.index for event in events if isinstance(event, PartEnd)] == starts


# Wire that is broken: name: (bodies, part of the error)
BROKEN: dict[str, tuple[list[Any], str]] = {
    "not JSON": ([b"{"], "event .unnamed.: invalid JSON"),
    "no object": ([b"[1]"], "expected an object"),
    "a type that is no string": ([b'{"type":[1]}'], "type: expected a string, got an array"),
    "no message": ([{"type": "message_start"}], "message: expected an object, got null"),
    "content that is no list": ([start(content={})], "message.content: expected an array"),
    "no block": (
        [start(), {"type": "content_block_start", "index": 0}],
        r"content\[0\]: expected an object, got null",
    ),
    "a block without a type": (
        [start(), opened(0, text="x")],
        r"content\[0\].type: expected a string, got null",
    ),
    "a call without a name": (
        [start(), opened(0, type="tool_use", id="t")],
        r"content\[0\].name: expected a string, got nothing",
    ),
    "an index that is no number": (
        [start(), opened(0, type="text", text="") | {"index": "0"}],
        "index: expected a whole number",
    ),
    "an index that is true": (
        [start(), opened(0, type="text", text="") | {"index": True}],
        "index: expected a whole number",
    ),
    "an index below zero": ([start(), opened(-1, type="text", text="")], "index: expected a whole number"),
    "a block that is open": (
        [start(), opened(0, type="text", text=""), opened(0, type="text", text="")],
        "block 0, which is open",
    ),
    "a delta without its block": (
        [start(), delta(0, "text_delta", text="x")],
        "content_block_delta for block 0, which is not open",
    ),
    "a delta without an index or block": (
        [start(), delta(None, "text_delta", text="x")],
        "block -1, which is not open",
    ),
    "a delta whose index is a list": (
        [start(), opened(0, type="text", text=""), delta(0, "text_delta") | {"index": []}],
        "index",
    ),
    "a delta that is none": (
        [start(), opened(0, type="text", text=""), {"type": "content_block_delta", "index": 0}],
        "delta: expected an",
    ),
    "a delta without its text": (
        [start(), opened(0, type="text", text=""), delta(0, "text_delta")],
        "delta.text: expected a string, got null",
    ),
    "a stop without its block": ([start(), closed(2)], "content_block_stop for block 2, which is not open"),
    "a stop that is a number": (
        [start(), {"type": "message_delta", "delta": {"stop_reason": 1}}],
        "delta.stop_reason: expected a string",
    ),
    "an end that is a list": (
        [start(), {"type": "message_delta", "delta": [1]}],
        "delta: expected an object",
    ),
    "usage that is a list": ([start(), end() | {"usage": [1]}], "usage: expected an object"),
    "usage in words": (
        [start(), end() | {"usage": {"output_tokens": "many"}}, STOP],
        "usage.output_tokens: expected a number",
    ),
}


@pytest.mark.parametrize(("bodies", "problem"), BROKEN.values(), ids=BROKEN)
def test_broken_wire_is_named(bodies: list[Any], problem: str) -> None:
    with pytest.raises(WireError, match=problem) as caught:
        events_of(bodies)
    assert caught.value.protocol == "anthropic"


def test_g24_a_ping_is_a_sign_of_life() -> None:
    ping = {"type": "ping"}
    events = events_of([ping, start(), ping, *text(0, "hi"), ping, end(), STOP])
    assert sum(isinstance(event, KeepAlive) for event in events) == 3


# Writing


def frames_of(events: Iterable[Event], losses: Losses | None = None) -> list[Wire]:
    encoder, grammar = CODEC.stream_encoder(Losses() if losses is None else losses), CODEC.grammar()
    frames = [frame for event in events for frame in encoder.feed(event)]
    frames += encoder.close()
    for frame in frames:
        grammar.feed(frame)
    grammar.close()
    assert all(frame.event == frame.data["type"] for frame in frames)
    return [frame.data for frame in frames]


def written(*parts: AnyPart, stop: Stop = Stop("end")) -> list[Wire]:  # noqa: B008 - frozen
    """The frames between the announcement and the end."""
    frames = frames_of(unfold(Response("r", "m", parts, stop)))
    assert [frame["type"] for frame in (frames[0], *frames[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    return [short_block(frame) for frame in frames[1:-2]]


def short_block(frame: Wire) -> Wire:
    """`frame` without the fields that only fill the shape of its block."""
    if "content_block" not in frame:
        return frame
    filling = (("citations", None), ("caller", {"type": "direct"}))
    block = {key: value for key, value in frame["content_block"].items() if (key, value) not in filling}
    return {**frame, "content_block": block}


GEMINI = State("gemini", "c2ln")
SEALED = seal_state(GEMINI, "anthropic")
# name: (parts, frames)
WRITTEN: dict[str, tuple[list[AnyPart], list[Wire]]] = {
    "text": ([Text("hi")], text(0, "hi")),
    "G03 empty parts take no index": ([Text(""), Reasoning(""), Text("hi"), Refusal("")], text(0, "hi")),
    "a call": ([ToolCall("t", "f", '{"a": 1}')], call(0, '{"a": 1}')),
    "G64 a call without arguments": ([ToolCall("t", "f", "")], call(0)),
    "text and calls": (
        [Text("hi"), ToolCall("t", "f", "{}"), ToolCall("t", "f", '{"b": 2}')],
        [*text(0, "hi"), *call(1, "{}"), *call(2, '{"b": 2}')],
    ),
    "G25 the signature is the last delta of its block": (
        [Reasoning("hm", state=GEMINI), Text("hi")],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature=SEALED),
            closed(0),
            *text(1, "hi"),
        ],
    ),
    "reasoning without a signature": (
        [Reasoning("hm")],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            closed(0),
        ],
    ),
    "a signature without text": (
        [Reasoning("", state=State("anthropic", "S"))],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "signature_delta", signature="S"),
            closed(0),
        ],
    ),
    "hidden reasoning": (
        [Reasoning(hidden=True, state=GEMINI)],
        [opened(0, type="redacted_thinking", data=SEALED), closed(0)],
    ),
    "hidden reasoning without state": ([Reasoning(hidden=True), Text("hi")], text(0, "hi")),
    "own extras are announced": (
        [ToolCall("t", "f", "{}", extras={"anthropic": {"caller": {"type": "code", "tool_id": "s"}}})],
        call(0, "{}", caller={"type": "code", "tool_id": "s"}),
    ),
    "a call of a hosted tool, in deltas": (
        [
            Foreign(
                "anthropic",
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            )
        ],
        [
            opened(0, type="server_tool_use", id="s", name="web_search", input={}),
            delta(0, "input_json_delta", partial_json='{"query":"q"}'),
            closed(0),
        ],
    ),
    "other own blocks, whole": (
        [Foreign("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})],
        [opened(0, type="web_search_tool_result", tool_use_id="s", content=[]), closed(0)],
    ),
    "what others made": (
        [Foreign("gemini", {}), Media("image", "image/png", Base64("x")), Text("hi")],
        text(0, "hi"),
    ),
}


@pytest.mark.parametrize(("parts", "frames"), WRITTEN.values(), ids=WRITTEN)
def test_parts_become_blocks(parts: list[AnyPart], frames: list[Wire]) -> None:
    assert written(*parts) == frames


def test_what_cannot_be_written_is_reported() -> None:
    losses = Losses()
    frames_of(
        unfold(Response("r", "m", (Media("image", "image/png", Base64("x"), where="M"),), Stop("end"))),
        losses,
    )
    assert [str(loss) for loss in losses] == ["dropped M: an Anthropic client expects no image in a reply"]


def test_citations_are_deltas() -> None:
    frames = written(Text("hi", (Citation("https://a", "A"),)))
    assert [frame["delta"]["type"] for frame in frames if "delta" in frame] == [
        "citations_delta",
        "text_delta",
    ]
    assert frames[1]["delta"]["citation"]["url"] == "https://a"


def test_the_announcement_and_the_end() -> None:
    events = [
        ResponseStart("r", "m", Usage(40, cached=30)),
        ResponseEnd(Stop("length", "x"), Usage(41, 9, 30, reasoning=3)),
    ]
    first, last, _ = frames_of(events)
    counts = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 30}
    assert first["message"] == {
        "id": "msg_r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            **counts,
            "output_tokens": 1,  # G33
            "output_tokens_details": {"thinking_tokens": 0},
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": None,
            "service_tier": "standard",
            "inference_geo": None,
            "speed": None,
        },
    }
    details = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}}
    assert last["delta"] == {
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    assert last["usage"] == {**counts, "input_tokens": 11, **details, "server_tool_use": None}


def test_the_end_repeats_the_usage_of_the_start_where_it_says_none() -> None:
    _, last, _ = frames_of([ResponseStart("r", "m", Usage(4)), ResponseEnd(Stop("end"))])
    assert last["usage"]["input_tokens"] == 4


def test_g29_a_refusal() -> None:
    events = unfold(Response("r", "m", (Refusal("I "), Refusal("won't.")), Stop("end")))
    *_, last, _ = frames_of(events)
    assert last["delta"]["stop_reason"] == "refusal"
    assert last["delta"]["stop_details"] == {"type": "refusal", "category": None, "explanation": "I won't."}


def test_g28_a_cut_call_is_closed_and_the_stop_reason_says_so() -> None:
    losses = Losses()
    cut = ToolCall("t", "f", '{"a": "x', complete=False)
    *blocks, last, _ = frames_of(unfold(Response("r", "m", (cut,), Stop("length"))), losses)[1:]
    assert [short_block(block) for block in blocks] == call(0, '{"a": "x')
    assert last["delta"]["stop_reason"] == "max_tokens"
    assert not list(losses)


def test_a_failure_is_the_last_frame() -> None:
    events = [ResponseStart("r", "m"), ResponseFailed(Failure("overloaded", "later", 503))]
    assert frames_of(events)[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "later"},
    }


def test_g24_a_sign_of_life_is_a_ping() -> None:
    assert list(CODEC.stream_encoder(Losses()).feed(KeepAlive())) == [Frame("ping", {"type": "ping"})]


def test_a_stream_goes_back_as_it_came() -> None:
    """Bookkeeping included; only empty text blocks are left out."""
    source = [
        start(
            usage={"input_tokens": 5, "output_tokens": 1, "service_tier": "standard"},
            container=None,
            id="chat-1",
        ),
        *call(0, '{"a": 1}', caller={"type": "direct"}),
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "bored",
                "stop_sequence": None,
                "container": {"id": "c"},
                "stop_details": None,
            },
            "usage": {"input_tokens": 5, "output_tokens": 7, "service_tier": "standard"},
            "context_management": {"applied_edits": []},
        },
        STOP,
    ]
    first, *rest = frames_of(out for event in events_of(source) for out in _sequenced(event))
    assert first["message"] == source[0]["message"] | {"stop_sequence": None}
    assert rest == source[1:]


def _sequenced(event: Event, sequencer: Sequencer = Sequencer()) -> Iterable[Event]:  # noqa: B008 - one stream only
    return sequencer.feed(event)
