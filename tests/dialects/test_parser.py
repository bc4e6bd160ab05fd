"""The stage among other events: what is not a model's text passes."""

from __future__ import annotations

from dialects.parsing import tool
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.losses import Losses
from dragoman.core.model import Citation, Failure, Reasoning, Stop, Text, ToolCall, Usage
from dragoman.dialects import dialect

CALL = '<tool_call>{"name": "now"}</tool_call>'
START, END = ResponseStart("r", "m"), ResponseEnd(Stop("end", "stop"), Usage(1, 2))


def run(*given: Event) -> list[Event]:
    stage = dialect("hermes").parser((tool("now"),), Losses())
    return [out for event in given for out in stage.feed(event)] + list(stage.close())


def test_parts_are_counted_anew() -> None:
    assert run(
        START,
        PartStart(0, Reasoning()),
        PartDelta(0, CALL),  # what a model thinks before its text is no call, and waits for that text
        PartEnd(0),
        KeepAlive(),
        PartStart(1, Text()),
        PartDelta(1, f"a\n{CALL}"),
        PartEnd(1),
        PartStart(2, ToolCall("n", "native")),
        PartDelta(2, "{}"),
        PartEnd(2),
        END,
    ) == [
        START,
        PartStart(0, Reasoning()),
        KeepAlive(),
        PartDelta(0, CALL),
        PartEnd(0),
        PartStart(1, Text()),
        PartDelta(1, "a"),
        PartEnd(1),
        PartStart(2, ToolCall("", "now")),
        PartDelta(2, "{}"),
        PartEnd(2),
        PartStart(3, ToolCall("n", "native")),
        PartDelta(3, "{}"),
        PartEnd(3),
        ResponseEnd(Stop("tool_calls", "stop"), Usage(1, 2)),
    ]


def test_an_empty_text_is_kept() -> None:
    events = [START, PartStart(0, Text()), PartEnd(0), END]
    assert run(*events) == events


def test_extras_go_with_the_first_text() -> None:
    given = Text(extras={"x": {"a": 1}})
    starts = [
        event.part
        for event in run(START, PartStart(0, given), PartDelta(0, f"a{CALL}b"), PartEnd(0), END)
        if isinstance(event, PartStart) and isinstance(event.part, Text)
    ]
    assert starts == [given, Text()]


def test_citations_pass() -> None:
    citation = Citation("https://x.y")
    events = [
        START,
        PartStart(0, Text()),
        PartDelta(0, citation=citation),
        PartDelta(0, "a"),
        PartEnd(0),
        END,
    ]
    assert run(*events) == events


def test_a_failure_releases_what_was_held() -> None:
    failed = ResponseFailed(Failure("truncated", "gone"))
    assert run(START, PartStart(0, Text()), PartDelta(0, 'a <tool_call>{"na'), failed) == [
        START,
        PartStart(0, Text()),
        PartDelta(0, "a "),
        PartDelta(0, '<tool_call>{"na'),
        PartEnd(0, complete=False),
        failed,
    ]


def test_a_stream_that_ends_without_an_end_releases_too() -> None:
    assert run(START, PartStart(0, Text()), PartDelta(0, "a <tool_"))[-2:] == [
        PartDelta(0, "<tool_"),
        PartEnd(0, complete=False),
    ]
