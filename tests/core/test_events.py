"""A response as events and as a whole: fold, unfold, and what breaks them."""

import pytest

from dragoman.core.errors import GrammarError, UpstreamError
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
)

STATE = State("gemini", "sig")
PARTS: dict[str, AnyPart] = {
    "text": Text("hello"),
    "empty text": Text(""),
    "text with citations": Text("hello", (Citation("https://a", "A", start=0, end=2), Citation("https://b"))),
    "signed text": Text("hello", state=STATE),
    "reasoning": Reasoning("hm", state=STATE),
    "hidden reasoning": Reasoning(hidden=True, state=STATE),
    "refusal": Refusal("no"),
    "call": ToolCall("1", "f", '{"a":1}', extras={"p": {"caller": 1}}),
    "cut call": ToolCall("1", "f", '{"a":', complete=False),
    "custom call": ToolCall("1", "f", "raw", kind="custom", namespace="n"),
    "media": Media("image", "image/png", Base64("iVBO")),
    "foreign": Foreign("p", {"type": "x"}, "words"),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_fold_undoes_unfold(part: AnyPart) -> None:
    response = Response(
        "id", "m", (part, Text("end")), Stop("end", "stop"), Usage(1, 2), 7, extras={"p": {"x": 1}}
    )
    assert fold(unfold(response)) == response


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_start_is_empty_and_deltas_fill_it(part: AnyPart) -> None:
    _, start, *_, end, _ = unfold(Response("id", "m", (part,), Stop("end")))
    assert isinstance(start, PartStart)
    assert start.part.state is None
    assert getattr(start.part, "text", "") == ("words" if isinstance(part, Foreign) else "")
    assert getattr(start.part, "arguments", "") == ""
    assert end == PartEnd(0, getattr(part, "complete", True))


def test_interleaved_parts_and_later_states() -> None:
    events: list[Event] = [
        ResponseStart("id", "m", Usage(5), extras={"p": {"a": 1}, "q": {"b": 2}}),
        PartStart(3, ToolCall("x", "f")),
        PartStart(1, Reasoning()),
        KeepAlive(),
        PartDelta(1, "h"),
        PartDelta(3, '{"a"'),
        PartDelta(1, state=State("p", "first")),
        PartDelta(1, "m", state=State("p", "second")),
        PartEnd(1),
        PartDelta(3, ":1}"),
        PartEnd(3),
        ResponseEnd(Stop("tool_calls"), extras={"p": {"a": 2, "c": 3}}),
    ]
    assert fold(events) == Response(
        "id",
        "m",
        (ToolCall("x", "f", '{"a":1}'), Reasoning("hm", state=State("p", "second"))),
        Stop("tool_calls"),
        Usage(5),  # what the start knew, as the end said nothing
        extras={"p": {"a": 2, "c": 3}, "q": {"b": 2}},
    )


def test_a_failure_is_an_upstream_error() -> None:
    failure = Failure("overloaded", "later", 529)
    with pytest.raises(UpstreamError, match="later") as caught:
        fold([ResponseStart("id", "m"), ResponseFailed(failure)])
    assert caught.value.failure == failure


def test_events_without_an_end_are_no_response() -> None:
    with pytest.raises(GrammarError, match="without ResponseEnd"):
        fold([ResponseStart("id", "m")])


def test_equality_of_values_looks_past_their_places() -> None:
    assert Text("a", where="here") == Text("a", where="there")
    assert not Text("a", where="here") != Text("a", where="there")  # noqa: SIM202 - both operators are ours
    assert Text("a") != Text("b")
    assert Text("a") != Refusal("a")
    assert Text("a", extras={"p": {}}) != Text("a")
