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

from collections.abc import Sequence

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
from dragoman.core.model import AnyPart, Citation, Failure, RoundUsage, Stop, Text, ToolCall, Usage


class RoundEnd(Struct, frozen=True):
    """How one round ended. `parts` are all of its parts, those that were withheld too."""

    parts: tuple[AnyPart, ...] = ()
    stop: Stop = Stop("end")
    usage: Usage | None = None
    failure: Failure | None = None


class RoundHooks:
    """What whoever runs the rounds decides of their parts; here: all pass as they are. `separator`: what
    stands between the texts of two rounds."""

    separator = ""

    def begin_round(self) -> None:
        """A round begins; it may be the same one again, of which nothing went out."""

    def withholds(self, call: ToolCall) -> bool:
        """Whether a call is not for the client."""
        return False

    def begin_call(self, call: ToolCall) -> Sequence[AnyPart]:
        """A withheld call is complete, while the rest of its round may still come; the parts that show it."""
        return ()

    def cite(self, text: str) -> Sequence[Citation]:
        """The sources of a finished text that came without any."""
        return ()


class RoundJoiner:
    def __init__(self, hooks: RoundHooks | None = None) -> None:
        self._hooks = hooks or RoundHooks()
        self.usage: Usage | None = None  # of all rounds that ended
        self._rounds: list[RoundUsage] = []
        self.is_begun = False  # the start of the reply went out; until then a round may begin anew
        self.calls = 0  # that passed
        self._count = 0  # parts that passed
        self._leading: list[AnyPart] = []  # that come before those of the first round
        self._seen: list[Event] = []  # of this round
        self._said = self._said_before = ""  # the last text that passed; the last of the rounds before
        self._index = -1  # under which the open part passes; -1: it is withheld

    def begin_round(self) -> None:
        self._seen = []
        self._hooks.begin_round()
        self._said_before = self._said
        if not self.is_begun:
            self._count = self.calls = 0

    def feed(self, event: Event) -> Sequence[Event]:
        self._seen.append(event)
        match event:
            case PartDelta():
                passed = PartDelta(self._index, event.text, event.state, event.citation)
                return (passed,) if self._index >= 0 else ()
            case PartStart(_, part):
                if type(part) is ToolCall and self._hooks.withholds(part):
                    self._index = -1
                    return ()
                separated = self._separate(part)
                self._index, self._count = self._count, self._count + 1
                return (*separated, PartStart(self._index, part))
            case PartEnd():
                return self._end_part(event)
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

    def _end_part(self, event: PartEnd) -> Sequence[Event]:
        index, part = self._index, self._last_part(event)
        if isinstance(part, ToolCall):
            if index < 0:
                shown = self._hooks.begin_call(part) if part.complete else ()
                return [event for each in shown for event in self.add(each)]
            self.calls += part.complete
        ended = PartEnd(index, event.complete)
        if not isinstance(part, Text):
            return (ended,)
        self._said = part.text
        if part.citations:
            return (ended,)
        return (*(PartDelta(index, citation=citation) for citation in self._hooks.cite(part.text)), ended)

    def _separate(self, part: AnyPart) -> Sequence[Event]:
        """What stands before the first text of a round."""
        before, separator = self._said_before, self._hooks.separator
        if not before or not separator or type(part) is not Text:
            return ()
        self._said_before = ""
        return () if before[-1].isspace() else self.add(Text(separator))

    def _last_part(self, end: PartEnd) -> AnyPart:
        """The part that just ended: parts come in a row."""
        events = self._seen
        start = next(i for i in range(len(events) - 1, -1, -1) if type(events[i]) is PartStart)
        return fold([*events[start:-1], end, ResponseEnd(Stop("end"))]).parts[0]

    def end_round(self) -> RoundEnd:
        last = self._seen[-1] if self._seen else None
        if not isinstance(last, ResponseEnd):
            failure = last.failure if isinstance(last, ResponseFailed) else None
            return RoundEnd(failure=failure or Failure("truncated", "the upstream's answer was empty", 502))
        usage = last.usage
        if usage:
            self._rounds.append(RoundUsage("answer", usage))
            self._count_usage(usage)
        return RoundEnd(fold(self._seen).parts, last.stop, usage)

    def add_summary(self, usage: Usage, counts: bool) -> None:
        """A summary of the conversation came first; `counts`: the usage of the reply includes it."""
        self._rounds.append(RoundUsage("summary", usage))
        if counts:
            self._count_usage(usage)

    def _count_usage(self, usage: Usage) -> None:
        self.usage = self.usage + usage if self.usage else usage

    def lead(self, part: AnyPart) -> None:
        """Put a part before those of the first round."""
        self._leading.append(part)

    def add(self, part: AnyPart) -> tuple[Event, ...]:
        """A part that no upstream sent."""
        index, self._count = self._count, self._count + 1
        self.calls += isinstance(part, ToolCall)
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
        rounds = tuple(self._rounds) if len(self._rounds) > 1 else ()
        return ResponseEnd(stop, self.usage, rounds=rounds)
