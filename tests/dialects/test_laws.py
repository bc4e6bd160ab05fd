"""What holds for every dialect in the registry."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dialects.parsing import events, in_short, joined, parse, tool
from dialects.strategies import FRAGMENTS, calls, cuts, texts, tidy
from dragoman.core.events import EventStage, PartDelta, PartEnd, PartStart
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Message,
    Reasoning,
    Request,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
)
from dragoman.dialects import dialect, names, recovery
from dragoman.dialects.engine.dialect import Dialect

READ = tool("read", ["path"], path="string", content="string", count="integer")
TOOLS = (READ, tool("f", x="number"), tool("now"))
LONGEST_MARKER = 140  # "[" and a name of 128 characters
every = pytest.mark.parametrize("name", names())


def every_call(name: str) -> Dialect:
    return replace(dialect(name), only_first=False)


def written(
    dialect: Dialect, tools: tuple[ToolDeclaration, ...], *parts: Text | Reasoning | ToolCall
) -> tuple[str, list[str]]:
    """What the model would have said, and what the dialect reports about it."""
    losses = Losses()
    request = dialect.render(Request("m", (Message("assistant", parts),), tools=tools), losses)
    return "".join(part.text for part in request.messages[0].parts if isinstance(part, Text)), [
        loss.why for loss in losses
    ]


@every
@given(st.data())
def test_render_then_parse_is_identity_or_reported(name: str, data: st.DataObject) -> None:
    made = data.draw(st.lists(calls(), min_size=1, max_size=3, unique_by=lambda pair: pair[0].name))
    tools = tuple(declared for declared, _ in made)
    text, reported = written(every_call(name), tools, *(call for _, call in made))
    parts, stop, losses = parse(every_call(name), tools, text)
    if not reported:
        assert in_short(*parts) == [(call.name, call.arguments) for _, call in made]
        assert (stop, losses) == ("tool_calls", [])


@every
@given(calls(strings=tidy))
def test_plain_values_are_never_reported(name: str, made: tuple[ToolDeclaration, ToolCall]) -> None:
    declared, call = made
    text, reported = written(every_call(name), (declared,), Text("Well."), call)
    assert reported == []
    parts, _, _ = parse(every_call(name), (declared,), text)
    assert in_short(*parts)[-1] == (call.name, call.arguments)


@every
@given(tidy.filter(str.strip))
def test_reasoning_comes_back(name: str, thought: str) -> None:
    text, reported = written(
        every_call(name), TOOLS, Reasoning(thought), Text("So."), ToolCall("", "now", "{}")
    )
    if not reported:
        parts, _, _ = parse(every_call(name), TOOLS, text)
        assert in_short(*parts) == [("think", thought), "So.", ("now", "{}")]


@every
@given(st.data())
def test_g117_where_the_text_is_cut_does_not_matter(name: str, data: st.DataObject) -> None:
    text = data.draw(texts)
    pieces = data.draw(cuts(text))
    stop = Stop(data.draw(st.sampled_from(["end", "length"])))
    whole, cut = Losses(), Losses()
    first = joined(events(dialect(name).parser(TOOLS, whole), [text], stop))
    assert joined(events(dialect(name).parser(TOOLS, cut), pieces, stop)) == first
    assert list(cut) == list(whole)


# Markers that are left out wherever they stand alone
MARKERS = re.compile(
    r"^\s*<think>|</think>|</tool_call>|\[/?THINK\]|<channel\|>|<tool_call\|>|<\|?tool_response\|?>"
    r"|<\|observation\|>|<\|tool_calls?_(?:section_)?(?:begin|end)\|>|<｜tool▁calls?▁end｜>"
)


@every
@given(texts)
def test_text_without_calls_is_unchanged(name: str, text: str) -> None:
    parts, stop, _ = parse(dialect(name), TOOLS, text)
    if all(isinstance(part, Text) for part in parts) and not MARKERS.search(text):
        assert "".join(part.text for part in parts if isinstance(part, Text)) == text
        assert stop == "end"


@every
@given(st.lists(st.one_of(texts, tidy), max_size=3), st.booleans(), st.sampled_from(["end", "length"]))
def test_a_whole_reply_is_read_as_its_events(name: str, read: list[str], reasons: bool, stop: Any) -> None:
    parts: list[AnyPart] = [Text(text, state=State("o", "s"), where=f"[{i}]") for i, text in enumerate(read)]
    if reasons and parts:
        parts[0] = Reasoning(read[0])
    reply = Response("r", "m", tuple(parts), Stop(stop))
    for make in (dialect(name).parser, recovery):
        losses, alike = Losses(), Losses()
        assert make(TOOLS, losses).whole(reply) == EventStage.whole(make(TOOLS, alike), reply)
        assert list(losses) == list(alike)


@every
@given(tidy)
def test_prose_is_not_held_back(name: str, text: str) -> None:
    stage = dialect(name).parser(TOOLS, Losses())
    stage.feed(PartStart(0, Text()))
    shown = "".join(_text(stage.feed(PartDelta(0, char))) for char in f"It says: {text}!")
    assert shown == f"It says: {text}!"


half_markers = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS).map(lambda marker: marker[:-1].replace("\n", "") + "z"), tidy),
    max_size=6,
).map(" ".join)


@every
@given(half_markers)
def test_g116_text_waits_no_longer_than_a_marker(name: str, text: str) -> None:
    stage = dialect(name).parser((), Losses())
    stage.feed(PartStart(0, Text()))
    text, shown = f"It says: {text}", 0
    for count, char in enumerate(text, 1):
        shown += len(_text(stage.feed(PartDelta(0, char))))
        assert count - shown <= LONGEST_MARKER + (count - len(text[:count].rstrip()))


@every
@given(texts)
def test_parts_follow_each_other(name: str, text: str) -> None:
    open_part = None
    count = 0
    for event in events(dialect(name).parser(TOOLS, Losses()), text, Stop("end")):
        match event:
            case PartStart(index):
                assert (open_part, index) == (None, count)
                open_part, count = index, count + 1
            case PartDelta(index):
                assert index == open_part
            case PartEnd(index):
                assert index == open_part
                open_part = None
            case _:
                pass


def _text(events: object) -> str:
    return "".join(event.text for event in list(events) if isinstance(event, PartDelta))  # type: ignore[call-overload]
