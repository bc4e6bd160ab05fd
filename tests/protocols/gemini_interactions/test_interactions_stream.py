"""Streams of Interactions as servers may send them, what the grammar refuses, and the errors in them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError, UpstreamError, WireError
from dragoman.core.events import (
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
    Citation,
    ExecutedCall,
    Foreign,
    Media,
    Reasoning,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
)
from dragoman.protocols import codec

CODEC = codec("gemini-interactions")
OWN = "gemini-interactions"


def event(kind: str, **body: Any) -> dict[str, Any]:
    return {"event_type": kind, **body}


def start(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return event("step.start", index=index, step={"type": kind, **more})


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return event("step.delta", index=index, delta={"type": kind, **more})


def stop(index: int) -> dict[str, Any]:
    return event("step.stop", index=index)


CREATED = event("interaction.created", interaction={"id": "i", "model": "m", "status": "in_progress"})


def done(status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {"total_input_tokens": 1, "total_output_tokens": 1, "total_tokens": 2}
    return event("interaction.completed", interaction={"id": "i", "status": status, "usage": usage, **more})


def read(*events: dict[str, Any], losses: Losses | None = None) -> Response:
    decoder = CODEC.stream_decoder(Losses() if losses is None else losses)
    out = [got for each in events for got in decoder.feed(Frame("", jsontext.encode(each)))]
    return fold([*out, *decoder.close()])


CITED = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 2, "end_index": 4}
CASES: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "a text in the start is continued": (
        [
            start(0, "model_output", content=[{"type": "text", "text": "a"}]),
            delta(0, "text", text="b"),
            stop(0),
        ],
        [Text("ab")],
    ),
    "a step that nobody announced": ([delta(0, "text", text="a"), stop(0)], [Text("a")]),
    "a step that nobody stopped": ([start(0, "model_output"), delta(0, "text", text="a")], [Text("a")]),
    "steps that are interleaved": (
        [
            *(start(0, "model_output"), start(1, "function_call", id="c", name="f", arguments={})),
            *(
                delta(0, "text", text="a"),
                delta(1, "arguments_delta", arguments="{}"),
                delta(0, "text", text="b"),
            ),
            *(stop(1), stop(0)),
        ],
        [ToolCall("c", "f", "{}"), Text("ab")],
    ),
    "arguments that are whole at the start": (
        [start(0, "function_call", id="c", name="f", arguments={"a": 1}), stop(0)],
        [ToolCall("c", "f", '{"a":1}')],
    ),
    "a signature of a call": (
        [start(0, "function_call", id="c", name="f", arguments={}, signature="c2ln"), stop(0)],
        [ToolCall("c", "f", "", state=State(OWN, "c2ln"))],
    ),
    "a thought without a summary": (
        [start(0, "thought"), delta(0, "thought_signature", signature="c2ln"), stop(0)],
        [Reasoning("", True, state=State(OWN, "c2ln"))],
    ),
    "a thought without anything": ([start(0, "thought"), stop(0)], []),
    "an image between two texts": (
        [
            *(start(0, "model_output"), delta(0, "text", text="a")),
            delta(0, "image", data="iVBO", mime_type="image/png"),
            *(delta(0, "text", text="b"), stop(0)),
        ],
        [Text("a"), Media, Text("b")],
    ),
    "a step that only the end holds": ([], [Text("late")]),
}


def shape(part: Any) -> Any:
    match part:
        case Text():
            return ("text", part.text)
        case Reasoning():
            return ("thought", part.text, part.hidden, part.state)
        case ToolCall():
            return ("call", part.id, part.name, part.arguments, part.state, part.complete)
        case Media():
            return Media
        case _:
            return part


@pytest.mark.parametrize("name", CASES)
def test_a_stream(name: str) -> None:
    events, expected = CASES[name]
    late = [{"type": "model_output", "content": [{"type": "text", "text": "late"}]}]
    end = done(steps=late) if name == "a step that only the end holds" else done()
    found = [shape(part) for part in read(CREATED, *events, end).parts]
    assert sorted(map(repr, found)) == sorted(repr(shape(part)) for part in expected)


def test_bytes_of_citations_are_characters() -> None:
    response = read(
        CREATED,
        start(0, "model_output"),
        delta(0, "text_annotation_delta", annotations=[CITED]),
        delta(0, "text", text="éab"),
        stop(0),
        done(),
    )
    (text,) = response.parts
    assert isinstance(text, Text)
    (citation,) = text.citations
    assert (citation.url, citation.start, citation.end) == ("https://a.test", 1, 3)


def test_a_call_that_a_server_ran() -> None:
    events = [
        start(0, "mcp_server_tool_call", id="m", name="f", server_name="s"),
        delta(0, "mcp_server_tool_call", name="f", server_name="s", arguments={"a": 1}),
        stop(0),
        start(1, "mcp_server_tool_result", call_id="m"),
        delta(1, "mcp_server_tool_result", result=[{"type": "text", "text": "done"}]),
        stop(1),
    ]
    call, result = read(CREATED, *events, done()).parts
    assert isinstance(call, Foreign)
    assert isinstance(result, Foreign)
    assert result.executed == ExecutedCall("m", "both", "mcp", "f", '{"a":1}', "s", "done")


@pytest.mark.parametrize(
    "status, stop_reason, called",
    [
        ("completed", "tool_calls", True),
        ("requires_action", "tool_calls", True),
        ("incomplete", "length", False),
        ("requires_continuation", "pause", False),
        ("budget_exceeded", "other", False),
    ],
)
def test_statuses(status: str, stop_reason: str, called: bool) -> None:
    calls = [start(0, "function_call", id="c", name="f", arguments={}), stop(0)] if called else []
    assert read(CREATED, *calls, done(status)).stop.reason == stop_reason


def test_a_call_that_was_cut_is_incomplete() -> None:
    begun = [
        start(0, "function_call", id="c", name="f", arguments={}),
        delta(0, "arguments_delta", arguments='{"a'),
    ]
    (call,) = read(CREATED, *begun, done("incomplete")).parts
    assert isinstance(call, ToolCall)
    assert not call.complete


FAILURES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a number": (event("error", error={"code": 429, "message": "slow"}), "rate_limit", "slow"),
    "a URI": (
        event("error", error={"code": "https://a.test/errors/resource_exhausted", "message": "slow"}),
        "rate_limit",
        "slow",
    ),
    "nothing": (event("error"), "server", "without saying why"),
    "an interaction that failed": (
        done("failed", errors=[{"code": "INTERNAL", "message": "broke"}]),
        "server",
        "broke",
    ),
}


@pytest.mark.parametrize("last, kind, message", FAILURES.values(), ids=FAILURES)
def test_failures(last: dict[str, Any], kind: str, message: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        read(CREATED, last)
    assert caught.value.failure.kind == kind
    assert message in caught.value.failure.message


BEFORE_STEPS = [
    event("interaction.start", interaction={"id": "i", "model": "m", "status": "in_progress"}),
    event("content.start", index=0, content={"type": "thought"}),
    event(
        "content.delta", index=0, delta={"type": "thought_summary", "content": {"type": "text", "text": "hm"}}
    ),
    event("content.delta", index=0, delta={"type": "thought_signature", "signature": "c2ln"}),
    event("content.stop", index=0),
    event("content.start", index=1, content={"type": "text"}),
    event("content.delta", index=1, delta={"type": "text", "text": "Hi"}),
    event("content.stop", index=1),
    event("content.start", index=2, content={"type": "function_call"}),
    event(
        "content.delta",
        index=2,
        delta={"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
    ),
    event("content.stop", index=2),
    {**done("requires_action"), "event_type": "interaction.complete"},
]


def test_the_schema_before_steps_is_read() -> None:
    losses = Losses()
    streamed = read(*BEFORE_STEPS, losses=losses)
    outputs = [
        {"type": "thought", "summary": [{"type": "text", "text": "hm"}], "signature": "c2ln"},
        {"type": "text", "text": "Hi"},
        {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
    ]
    whole = CODEC.decode_response({"id": "i", "status": "requires_action", "outputs": outputs}, losses)
    for response in (streamed, whole):
        thought, text, call = response.parts
        assert isinstance(thought, Reasoning)
        assert isinstance(text, Text)
        assert isinstance(call, ToolCall)
        assert (thought.text, thought.state, text.text) == ("hm", State(OWN, "c2ln"), "Hi")
        assert (call.id, call.name, call.arguments, call.complete) == ("c", "f", '{"a":1}', True)
        assert response.stop.reason == "tool_calls"
    assert [*losses] == []


@pytest.mark.parametrize("data", [b"{}", b'{"type": "object"}', b'{"error": {}}', b'{"error": null}'])
def test_an_event_named_error_fails_whatever_its_data_says(data: bytes) -> None:
    (last,) = CODEC.stream_decoder(Losses()).feed(Frame("error", data))
    assert isinstance(last, ResponseFailed)


@pytest.mark.parametrize(
    "bad",
    [
        event("step.start", index="0", step={"type": "thought"}),
        event("step.start", index=0, step={}),
        event("step.delta", index=0, delta="x"),
        delta(0, "arguments_delta", arguments="{}"),
        delta(0, "text", text=7),
    ],
)
def test_malformed_events(bad: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        read(CREATED, bad)


CALL_START = start(0, "function_call", id="c", name="f", arguments={})
REFUSED: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "ends without"),
    "no beginning": ([stop(0)], "before interaction.created"),
    "a gap": ([CREATED, start(1, "thought")], "expected 0"),
    "a delta of another step": ([CREATED, delta(0, "text", text="a")], "not open"),
    "a text in a thought": (
        [CREATED, start(0, "thought"), delta(0, "text", text="a")],
        "a delta of type text",
    ),
    "sources without a text": (
        [CREATED, start(0, "model_output"), delta(0, "text_annotation_delta", annotations=[CITED])],
        "without a text",
    ),
    "an empty event": ([CREATED, {}], "an empty one"),
    "an open call at the end": ([CREATED, CALL_START, done("requires_action")], "while step [0] is open"),
    "another id": (
        [CREATED, event("interaction.completed", interaction={"id": "x", "status": "completed"})],
        "has id",
    ),
    "more": ([CREATED, done(), stop(0)], "after the end"),
    "a call without a name": ([CREATED, start(0, "function_call", id="c")], "without id, name"),
}


@pytest.mark.parametrize("events, problem", REFUSED.values(), ids=REFUSED)
def test_the_grammar_refuses(events: list[Any], problem: str) -> None:
    with pytest.raises(GrammarError) as caught:
        check(events)
    assert problem in str(caught.value)


def test_sources_of_an_empty_text_stand_behind_it() -> None:
    """Of a server that tells the sources of nothing: readers add them to the text before them."""
    source = Citation("https://a.test")
    encoder = CODEC.stream_encoder(Losses(), None)
    events = [
        ResponseStart("i", "m"),
        *(PartStart(0, Text()), PartDelta(0, citation=source), PartEnd(0)),
        ResponseEnd(Stop("end")),
    ]
    frames = [frame for each in events for frame in encoder.feed(each)]
    check([frame.data for frame in frames if frame.event != "done"])
    deltas = [frame.data["delta"]["type"] for frame in frames if frame.event == "step.delta"]
    assert deltas == ["text", "text_annotation_delta"]


def check(events: list[Any]) -> None:
    grammar = CODEC.grammar()
    for each in events:
        list(grammar.feed(Frame("", each)))
    list(grammar.close())


def test_a_whole_reply_that_still_runs_is_no_reply() -> None:
    with pytest.raises(UpstreamError, match="is in_progress, not completed"):
        CODEC.decode_response({"id": "i", "status": "in_progress"}, Losses())


@pytest.mark.parametrize("body", [{}, {"detail": "nothing here"}])
def test_a_body_that_is_no_interaction(body: dict[str, Any]) -> None:
    failure = CODEC.decode_error(body, 200)
    assert failure
    assert failure.kind == "server"
