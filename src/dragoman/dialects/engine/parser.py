"""The stage from a model's text to its calls.

It sees the text parts of a reply and nothing else of the conversation, so what a user or a tool
wrote is never read as a call. Every other part passes; indices are counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from dragoman.core.events import (
    Event,
    EventStage,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
)
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Stop, Text, ToolCall
from dragoman.dialects.engine.grammar import Call, Framing, Problem, Said, Thought, Token
from dragoman.dialects.engine.scanner import Scanner


class Parser(EventStage):
    """`scanner` makes a new one for each text part; `only_first`: further calls are dropped.

    Without a `dialect` to name, broken calls are not reported: nobody was asked to write any.
    """

    def __init__(
        self, scanner: Callable[[bool], Scanner], losses: Losses, dialect: str, *, only_first: bool = False
    ) -> None:
        self._scanner, self._losses, self._dialect = scanner, losses, dialect
        self._only_first = only_first
        self._texts: dict[int, TextPart] = {}
        self._others: dict[int, int] = {}
        self._count = 0
        self._called = self._reasoned = False

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            return self._delta(event)
        if type(event) is PartStart:
            return self._start(event.index, event.part)
        if type(event) is PartEnd:
            return self._end(event)
        if type(event) is ResponseEnd:
            events = self._finish()
            stop = Stop("tool_calls", event.stop.raw) if self._called else event.stop
            return (*events, replace(event, stop=stop))
        return (*self._finish(), event) if type(event) is ResponseFailed else (event,)

    def close(self) -> Iterable[Event]:
        return self._finish()

    def _start(self, index: int, part: AnyPart) -> Iterable[Event]:
        if type(part) is Text:
            self._texts[index] = TextPart(part, self._scanner(not self._reasoned))
            return ()
        self._reasoned |= type(part) is Reasoning
        self._others[index] = place = self._next()
        return (PartStart(place, part),)

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        text = self._texts.get(delta.index)
        if text is None:
            return (replace(delta, index=self._others[delta.index]),)
        events = self._spoken(text, text.scanner.feed(delta.text)) if delta.text else []
        if delta.state or delta.citation:
            events += self._say(text, "") if text.open is None else ()
            events.append(PartDelta(text.open or 0, "", delta.state, delta.citation))
        return events

    def _end(self, end: PartEnd) -> Iterable[Event]:
        text = self._texts.pop(end.index, None)
        if text is None:
            return (replace(end, index=self._others.pop(end.index)),)
        return self._ended(text, complete=end.complete)

    def _finish(self) -> list[Event]:
        """The reply ends while texts are open: they end here."""
        texts, self._texts = self._texts, {}
        return [event for text in texts.values() for event in self._ended(text, complete=False)]

    def _ended(self, text: TextPart, *, complete: bool) -> list[Event]:
        events = self._spoken(text, text.scanner.close())
        if text.untouched:  # an empty text is one all the same
            events += self._say(text, "")
        return [*events, *self._close(text, complete=complete)]

    def _spoken(self, text: TextPart, tokens: list[Token]) -> list[Event]:
        events: list[Event] = []
        for token in _joined(tokens) if len(tokens) > 1 else tokens:
            match token:
                case Said():
                    events += self._say(text, token.text)
                case Thought():
                    events += self._open(text, Reasoning()) if not isinstance(text.kind, Reasoning) else ()
                    events.append(PartDelta(text.open or 0, token.text))
                case Call():
                    events += self._call(text, token)
                case Framing():
                    self._framed(token.raw)
                case Problem():
                    if self._dialect:
                        self._losses.changed(text.part.where or "text", f"{self._dialect}: {token.why}")
        return events

    def _say(self, text: TextPart, said: str) -> list[Event]:
        events = list(self._open(text, text.part)) if not isinstance(text.kind, Text) else []
        if said:
            events.append(PartDelta(text.open or 0, said))
        return events

    def _call(self, text: TextPart, call: Call) -> Iterator[Event]:
        text.untouched = False
        if self._only_first and self._called:
            why = f"{self._dialect} allows one call in a reply; a further call of {call.name} is left out"
            self._losses.dropped(text.part.where or "text", why)
            return
        self._called = True
        yield from self._close(text)
        index = self._next()
        self._found(index, call)
        yield PartStart(index, ToolCall(call.id, call.name))
        yield PartDelta(index, call.arguments)
        yield PartEnd(index)

    def _found(self, index: int, call: Call) -> None:
        """A call is about to go out as the part with this index."""

    def _framed(self, raw: str) -> None:
        """What closed the last call, as it was written."""

    def _open(self, text: TextPart, part: Text | Reasoning) -> Iterator[Event]:
        yield from self._close(text)
        text.kind, text.open, text.untouched = part, self._next(), False
        yield PartStart(text.open, part)
        if part is text.part:  # what else the upstream said about its text goes with the first piece of it
            text.part = Text(where=text.part.where)

    def _close(self, text: TextPart, *, complete: bool = True) -> Iterator[Event]:
        if text.open is not None:
            yield PartEnd(text.open, complete)
        text.kind, text.open = None, None

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


class TextPart:
    """A text of the upstream while it is read: `open` is the index of the part that it has open now."""

    __slots__ = ("kind", "open", "part", "scanner", "untouched")

    def __init__(self, part: Text, scanner: Scanner) -> None:
        self.part, self.scanner = part, scanner
        self.kind: Text | Reasoning | None = None
        self.open: int | None = None
        self.untouched = True


def _joined(tokens: list[Token]) -> Iterator[Token]:
    """Neighbours of one kind as one."""
    run: list[str] = []
    kind: type[Said] | type[Thought] = Said
    for token in tokens:
        if run and type(token) is not kind:
            yield kind("".join(run))
            run = []
        if isinstance(token, Said | Thought):
            kind = type(token)
            run.append(token.text)
        else:
            yield token
    if run:
        yield kind("".join(run))
