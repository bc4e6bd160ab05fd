"""The parts of a reply while its pieces come in, in any mixture.

Nothing in a chunk marks where a part ends: text, reasoning and refusal end when another kind
begins, and calls stay open to the end, because their pieces may be interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.events import Event, PartDelta, PartEnd, PartStart
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Citation, Reasoning, Refusal, Text
from dragoman.protocols.openai_chat.reasoning import Details
from dragoman.protocols.openai_chat.stream_calls import Call, Calls, Piece

TEXT, REASONING, REFUSAL = Text(), Reasoning(), Refusal()


class Parts:
    """`flow` is the text, reasoning or refusal that is open, `index` its index."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._events: list[Event] = []
        self._count = 0
        self._sources: list[Citation] = []
        self.flow: AnyPart | None = None
        self.index = -1
        self.calls = Calls(losses)
        self.details = Details()
        self.refused = False

    def __bool__(self) -> bool:
        """Whether the reply has said anything."""
        return self._count > 0 or len(self.calls) > 0

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def say(self, kind: AnyPart, text: str) -> None:
        """Text of the part that is open, or of a new one."""
        if not text:
            return
        if self.flow is not kind:
            self._close_flow(opening=kind)
            self._start(self.calls.waiting())
            self.flow, self.index = kind, self._open(kind)
            self.refused |= kind is REFUSAL
            if self._sources:
                self._say_sources()
        self._events.append(PartDelta(self.index, text))

    def whole(self, part: AnyPart) -> None:
        """A part that comes in one piece."""
        self._close_flow()
        self._events.append(PartEnd(self._open(part)))

    def cite(self, source: Citation) -> None:
        """A source belongs to the text that is open, or to the next one."""
        self._sources.append(source)
        if self.flow is TEXT:
            self._say_sources()

    def call(self, piece: Piece) -> None:
        """A call is announced with its first arguments, when its name is sure to be whole."""
        call, text, state = piece
        if call.part >= 0:
            if text:
                self._events.append(PartDelta(call.part, text))
            if state:
                self._events.append(PartDelta(call.part, state=state))
        elif call.name and call.pieces:
            self._start([*self.calls.waiting(before=call), call])

    def close(self, cut: bool) -> None:
        """Ends everything; `cut`: calls whose arguments are not whole are incomplete."""
        self._close_flow()
        self._start(self.calls.waiting())
        self.calls.report_nameless()
        for call in self.calls:
            if call.part >= 0:
                self._events.append(PartEnd(call.part, not (cut and call.is_broken())))
        if self._sources:
            self._losses.dropped("choices[0].delta.annotations", "no text came that they could support")

    def _open(self, part: AnyPart) -> int:
        index, self._count = self._count, self._count + 1
        self._events.append(PartStart(index, part))
        return index

    def _start(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self._close_flow()
            call.part = self._open(call.announced())
            if text := "".join(call.pieces):
                self._events.append(PartDelta(call.part, text))
            if call.state:
                self._events.append(PartDelta(call.part, state=call.state))

    def _say_sources(self) -> None:
        if self.flow is TEXT:
            self._events += [PartDelta(self.index, citation=source) for source in self._sources]
            self._sources = []

    def _close_flow(self, opening: AnyPart | None = None) -> None:
        """The state of reasoning is known when it ends; state without any text is a hidden part."""
        state = None if opening is REASONING else self.details.settle()
        if state and self.flow is not REASONING:
            self._end_flow()
            self.flow, self.index = REASONING, self._open(Reasoning(hidden=True))
        if state:
            self._events.append(PartDelta(self.index, state=state))
        self._end_flow()

    def _end_flow(self) -> None:
        if self.flow is not None:
            self._events.append(PartEnd(self.index))
            self.flow = None
