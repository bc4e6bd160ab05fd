"""A streamed response as neutral events, and the way between stream and whole.

    response := ResponseStart (PartStart PartDelta* PartEnd)* ResponseEnd | … ResponseFailed

`PartStart` announces an empty part and only `PartDelta` fills it; media and foreign parts arrive
whole in their start. Decoders may interleave parts; `transforms.sequence` puts them in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import GrammarError, UpstreamError
from dragoman.core.model import (
    AnyPart,
    Citation,
    Extras,
    Failure,
    Reasoning,
    Refusal,
    Response,
    RoundUsage,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
)


class ResponseStart(Struct, frozen=True, gc=False):
    id: str
    model: str
    usage: Usage | None = None  # what is known at the start: input tokens
    created: int = 0
    extras: Extras | None = None


class PartStart(Struct, frozen=True, gc=False):
    index: int
    part: AnyPart


class PartDelta(Struct, frozen=True, gc=False):
    """`text` is appended; `state` replaces what was there; `citation` is added."""

    index: int
    text: str = ""
    state: State | None = None
    citation: Citation | None = None


class PartEnd(Struct, frozen=True, gc=False):
    """`complete` is false for a call that the reply cut short."""

    index: int
    complete: bool = True


class ResponseEnd(Struct, frozen=True, gc=False):
    stop: Stop
    usage: Usage | None = None
    extras: Extras | None = None
    rounds: tuple[RoundUsage, ...] = ()


class ResponseFailed(Struct, frozen=True, gc=False):
    failure: Failure


class KeepAlive(Struct, frozen=True, gc=False):
    """The upstream is alive and has nothing to say; carries no meaning and may be left out."""


Event = ResponseStart | PartStart | PartDelta | PartEnd | ResponseEnd | ResponseFailed | KeepAlive


def fold(events: Iterable[Event]) -> Response:
    """The whole response that `events` spell. Raises UpstreamError where they end in a failure."""
    start, end = ResponseStart("", ""), None
    parts: dict[int, _Growing] = {}
    for event in events:
        if type(event) is PartDelta:
            growing = parts[event.index]
            if event.text:
                growing.texts.append(event.text)
            if event.state:
                growing.state = event.state
            if event.citation:
                growing.citations.append(event.citation)
        elif type(event) is PartStart:
            parts[event.index] = _Growing(event.part)
        elif type(event) is PartEnd:
            parts[event.index].complete = event.complete
        elif type(event) is ResponseStart:
            start = event
        elif type(event) is ResponseEnd:
            end = event
        elif type(event) is ResponseFailed:
            raise UpstreamError(event.failure)
    if end is None:
        raise GrammarError("the events end without ResponseEnd or ResponseFailed")
    return Response(
        start.id,
        start.model,
        tuple([part.value() for part in parts.values()]),
        end.stop,
        end.usage or start.usage,
        start.created,
        end.rounds,
        extras=_merged(start.extras, end.extras),
    )


def unfold(response: Response) -> Iterator[Event]:
    """The events that spell `response`, each part in one delta."""
    yield ResponseStart(response.id, response.model, None, response.created, response.extras)
    for index, part in enumerate(response.parts):
        yield PartStart(index, emptied(part))
        for citation in part.citations if isinstance(part, Text) else ():
            yield PartDelta(index, citation=citation)
        if text := spelled(part):
            yield PartDelta(index, text)
        if part.state:
            yield PartDelta(index, state=part.state)
        yield PartEnd(index, part.complete if isinstance(part, ToolCall) else True)
    yield ResponseEnd(response.stop, response.usage, rounds=response.rounds)


class EventStage:
    """A stage of neutral events, from which all passes as it is where a subclass does not say otherwise."""

    held = 0  # deltas that were held back until their part ends
    # A class of characters: while the stage `flows`, only texts without them pass; None: all pass
    special: re.Pattern[str] | None = None

    def flows(self) -> bool:
        """Whether the deltas of the open part pass as they are, or are held back, alone or several as one."""
        return False

    def feed(self, event: Event, /) -> Iterable[Event]:
        return (event,)

    def close(self) -> Iterable[Event]:
        return ()

    def whole(self, response: Response) -> Response:
        """What feeding a whole response and closing give; a stage that needs no events says it directly."""
        passed: list[Event] = []
        for event in unfold(response):
            passed += self.feed(event)
        passed += self.close()
        return fold(passed)


def emptied(part: AnyPart) -> AnyPart:
    """`part` as its PartStart announces it."""
    return _filled(part, "", (), None, True)


def spelled(part: AnyPart) -> str:
    """The text that deltas of `part` spell."""
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""


class _Growing:
    """A part while its deltas come in."""

    __slots__ = ("citations", "complete", "part", "state", "texts")

    def __init__(self, part: AnyPart) -> None:
        self.part, self.complete = part, True
        self.texts: list[str] = []
        self.citations: list[Citation] = []
        self.state: State | None = None

    def value(self) -> AnyPart:
        return _filled(self.part, "".join(self.texts), tuple(self.citations), self.state, self.complete)


def _filled(
    part: AnyPart, text: str, citations: tuple[Citation, ...], state: State | None, complete: bool
) -> AnyPart:
    """`part` with this text, or these arguments; media and foreign parts have neither."""
    match part:
        case Text():
            return replace(part, text=text, citations=citations, state=state)
        case Reasoning() | Refusal():
            return replace(part, text=text, state=state)
        case ToolCall():
            return replace(part, arguments=text, state=state, complete=complete)
        case _:
            return replace(part, state=state)


def _merged(first: Extras | None, second: Extras | None) -> Extras | None:
    if not first or not second:
        return first or second
    return {name: {**first.get(name, {}), **second.get(name, {})} for name in {**first, **second}}
