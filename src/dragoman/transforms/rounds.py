"""Several rounds with an upstream as one reply: one start, parts numbered through, one end, usage summed.

    before   --ResponseStart of the first round--> open    (it passes)
    open     --ResponseStart of a later round----> open    (it does not)
    open     --parts-----------------------------> open    (renumbered; calls that are withheld do not pass)
    open     --ResponseEnd, ResponseFailed-------> open    (noted: who runs the rounds decides)
    open     --`end`, `fail`---------------------> ended

A reply has passed before a failure in its first round is known to be final, so nothing of a failure passes by
itself: the round may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    emptied,
    fold,
    spelled,
)
from dragoman.core.model import AnyPart, Failure, Stop, Text, ToolCall, Usage


class RoundEnd(Struct, frozen=True):
    """How one round ended. `parts` are all of its parts, those that were withheld too."""

    parts: tuple[AnyPart, ...] = ()
    stop: Stop = Stop("end")
    usage: Usage | None = None
    failure: Failure | None = None


def passes_all(call: ToolCall) -> bool:
    return False


class RoundJoiner:
    """`withholds` says which calls are not for the client: whoever runs the rounds answers them."""

    def __init__(self, withholds: Callable[[ToolCall], bool] = passes_all) -> None:
        self._withholds = withholds
        self.usage: Usage | None = None  # of all rounds that ended
        self.is_begun = False  # the start of the reply went out; until then a round may begin anew
        self.calls = 0  # that passed
        self._count = 0  # parts that passed
        self._leading: list[AnyPart] = []  # that come before those of the first round
        self._seen: list[Event] = []  # of this round
        self._index = -1  # under which the open part passes; -1: it is withheld

    def begin_round(self) -> None:
        self._seen = []
        if not self.is_begun:
            self._count = self.calls = 0

    def feed(self, event: Event) -> tuple[Event, ...]:
        self._seen.append(event)
        match event:
            case PartDelta():
                passed = PartDelta(self._index, event.text, event.state, event.citation)
                return (passed,) if self._index >= 0 else ()
            case PartStart(_, part):
                if type(part) is ToolCall and self._withholds(part):
                    self._index = -1
                    return ()
                self._index, self._count = self._count, self._count + 1
                return (PartStart(self._index, part),)
            case PartEnd():
                if self._index < 0:
                    return ()
                self.calls += event.complete and self._is_call()
                return (PartEnd(self._index, event.complete),)
            case ResponseStart():
                # what only the upstream's own protocol says of its reply is not true of all rounds
                first = ResponseStart(event.id, event.model, event.usage, event.created)
                if self.is_begun:
                    return ()
                return (first, *(event for part in self._leading for event in self.add(part)))
            case ResponseEnd() | ResponseFailed():
                return ()
            case KeepAlive():
                return (event,)

    def _is_call(self) -> bool:
        started = next(event for event in reversed(self._seen) if type(event) is PartStart)
        return type(started.part) is ToolCall

    def end_round(self) -> RoundEnd:
        last = self._seen[-1] if self._seen else None
        if not isinstance(last, ResponseEnd):
            failure = last.failure if isinstance(last, ResponseFailed) else None
            return RoundEnd(failure=failure or Failure("truncated", "the upstream's answer was empty", 502))
        usage = last.usage
        self.add_usage(usage)
        return RoundEnd(fold(self._seen).parts, last.stop, usage)

    def add_usage(self, usage: Usage | None) -> None:
        if usage:
            self.usage = self.usage + usage if self.usage else usage

    def lead(self, part: AnyPart) -> None:
        """Put a part before those of the first round."""
        self._leading.append(part)

    def add(self, part: AnyPart) -> tuple[Event, ...]:
        """A part that no upstream sent."""
        index, self._count = self._count, self._count + 1
        text = spelled(part)
        citations = part.citations if isinstance(part, Text) else ()
        return (
            PartStart(index, emptied(part)),
            *(PartDelta(index, citation=citation) for citation in citations),
            *((PartDelta(index, text),) if text else ()),
            *((PartDelta(index, state=part.state),) if part.state else ()),
            PartEnd(index),
        )

    def end(self, stop: Stop) -> ResponseEnd:
        return ResponseEnd(stop, self.usage)
