"""Anthropic stream frames to events: parts, usage, stops, failures, broken wire."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import (
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    fold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Failure,
    Foreign,
    Reasoning,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.anthropic import CODEC
from protocols.anthropic.streams import (
    OWN,
    STOP,
    TRUNCATED,
    call,
    closed,
    delta,
    end,
    events_of,
    opened,
    read,
    start,
    text,
)

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
