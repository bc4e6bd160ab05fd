"""Several rounds as one reply: one start, numbered through, one end, usage summed."""

from __future__ import annotations

from dragoman.core.events import Event, ResponseFailed, ResponseStart, fold, unfold
from dragoman.core.model import Failure, Response, Stop, Text, ToolCall, Usage
from dragoman.transforms.rounds import RoundHooks, RoundJoiner

FIRST = Response(
    "a",
    "m",
    (Text("Looking."), ToolCall("1", "search", "{}"), ToolCall("2", "weather", "{}")),
    Stop("tool_calls"),
    Usage(10, 1, cached=2),
    extras={"p": {"usage": 1}},
)
SECOND = Response("b", "m", (Text("Found."),), Stop("end"), Usage(20, 2))


class Searches(RoundHooks):
    def withholds(self, call: ToolCall) -> bool:
        return call.name == "search"


def played(joiner: RoundJoiner, response: Response) -> list[Event]:
    joiner.begin_round()
    events = [joined for event in unfold(response) for joined in joiner.feed(event)]
    joiner.is_begun = True
    return events


def test_two_rounds_are_one_reply() -> None:
    joiner = RoundJoiner(Searches())
    events = played(joiner, FIRST)
    first = joiner.end_round()
    assert (first.parts, first.stop, first.usage) == (FIRST.parts, FIRST.stop, FIRST.usage)
    events += joiner.add(Text("between"))
    events += played(joiner, SECOND)
    events.append(joiner.end(joiner.end_round().stop))
    reply = fold(events)
    assert [event.id for event in events if isinstance(event, ResponseStart)] == ["a"]
    assert reply.parts == (FIRST.parts[0], FIRST.parts[2], Text("between"), SECOND.parts[0])
    assert (reply.stop, reply.usage, reply.extras) == (Stop("end"), Usage(30, 3, cached=2), None)
    assert joiner.calls == 1


def test_a_part_in_front() -> None:
    joiner = RoundJoiner()
    joiner.lead(Text("summary"))
    events = [*played(joiner, SECOND), joiner.end(SECOND.stop)]
    assert fold(events).parts == (Text("summary"), *SECOND.parts)


def test_a_failure_does_not_pass_and_the_round_can_be_tried_again() -> None:
    joiner, failure = RoundJoiner(), Failure("overloaded", "later", 529)
    joiner.lead(Text("summary"))
    joiner.begin_round()
    start, *_ = unfold(SECOND)
    joiner.feed(start)
    assert joiner.feed(ResponseFailed(failure)) == ()
    assert joiner.end_round().failure == failure
    events = [*played(joiner, SECOND), joiner.end(SECOND.stop)]
    assert fold(events).parts == (Text("summary"), *SECOND.parts)
    assert joiner.usage is None or joiner.usage == SECOND.usage
    joiner.begin_round()
    assert joiner.end_round().failure
