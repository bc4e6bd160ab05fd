"""Interleaved parts come out one after another, nothing lost, nothing doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseStart
from dragoman.core.model import Stop, Text, ToolCall
from dragoman.transforms.sequence import Sequencer

A, B = PartStart(0, ToolCall("a", "f")), PartStart(1, ToolCall("b", "g"))
END = ResponseEnd(Stop("end"))


def delta(index: int, text: str) -> PartDelta:
    return PartDelta(index, text)


CASES = {
    "in order": (
        [A, delta(0, "x"), PartEnd(0), B, PartEnd(1), END],
        [A, delta(0, "x"), PartEnd(0), B, PartEnd(1), END],
    ),
    "G02 interleaved deltas": (
        [A, B, delta(1, "2"), delta(0, "1"), PartEnd(0), delta(1, "3"), PartEnd(1), END],
        [A, delta(0, "1"), PartEnd(0), B, delta(1, "2"), delta(1, "3"), PartEnd(1), END],
    ),
    "the second ends first": ([A, B, PartEnd(1), PartEnd(0), END], [A, PartEnd(0), B, PartEnd(1), END]),
    "an end with open parts": (
        [A, B, delta(1, "2"), END],
        [A, PartEnd(0, complete=False), B, delta(1, "2"), PartEnd(1, complete=False), END],
    ),
}


def run(events: list[Event]) -> list[Event]:
    stage = Sequencer()
    return [out for event in events for out in stage.feed(event)] + list(stage.close())


@pytest.mark.parametrize("events, expected", CASES.values(), ids=CASES)
def test_sequence(events: list[Event], expected: list[Event]) -> None:
    assert run(events) == expected


@given(st.data())
def test_any_interleaving_gives_the_same_parts(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    tracks: list[list[Event]] = [
        [
            PartStart(i, Text()),
            *[PartDelta(i, f"{i}{n}") for n in range(data.draw(st.integers(0, 3)))],
            PartEnd(i),
        ]
        for i in range(count)
    ]
    mixed: list[Event] = [ResponseStart("", "")]
    waiting = [list(track) for track in tracks]
    started = 0
    while any(waiting):
        choices = [i for i, track in enumerate(waiting) if track and (i <= started)]
        index = data.draw(st.sampled_from(choices))
        started = max(started, index + 1)
        mixed.append(waiting[index].pop(0))
    out = run([*mixed, END])
    assert out == [mixed[0], *[event for track in tracks for event in track], END]
