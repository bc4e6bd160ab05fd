"""The parts of a streamed answer as events.

Texts continue the one before of their kind, a signed part stands alone, calls come whole or value by
value, and a part ends where the next one begins. Sources come after the text that they support.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, emptied, spelled
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Text, ToolCall, Wire
from dragoman.core.seal import unseal_state
from dragoman.protocols.gemini.grounding import decode_grounding
from dragoman.protocols.gemini.objects import opened, printed
from dragoman.protocols.gemini.partial import PartialArguments
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

TEXT, THOUGHT = Text(), Reasoning()


class Assembly:
    """Every method adds the events that follow to `events`."""

    def __init__(self, losses: Losses) -> None:
        self.called = False
        self._losses = losses
        self._index = -1
        self._open: AnyPart | None = None
        self._arguments: PartialArguments | None = None  # of the open call
        self._texts: list[list[str]] = []  # pieces of each text, for citations to count in
        self._sources: Any = None
        self._uncited = 0  # texts that ended before their sources came

    def say(self, kind: Text | Reasoning, text: str, events: list[Event]) -> None:
        """More of a text or thought; `kind` is TEXT or THOUGHT."""
        if not text:
            return
        if self._open is not kind:
            self._start(kind, events)
        if kind is TEXT:
            self._texts[-1].append(text)
        events.append(PartDelta(self._index, text))

    def add(self, part: AnyPart, events: list[Event]) -> None:
        """A part that came whole."""
        if isinstance(part, Text | Reasoning) and part.state is None:
            self.say(TEXT if isinstance(part, Text) else THOUGHT, part.text, events)
            return
        self._start(replace(emptied(part), extras=None), events)
        if text := spelled(part):
            events.append(PartDelta(self._index, text))
            if isinstance(part, Text):
                self._texts[-1].append(text)
        if part.state:
            events.append(PartDelta(self._index, state=part.state))
        self.end(events)

    def add_call(self, part: Wire, where: str, events: list[Event]) -> None:
        """A piece of a call: its name, some of its arguments, or its end."""
        call = opened(part["functionCall"], f"{where}.functionCall")
        if name := call.text("name"):
            self._start(ToolCall(call.text("id"), name, where=where), events)
            self._arguments = PartialArguments()
        if self._arguments is None:
            if call.rest.get("partialArgs"):
                raise WireError(
                    PROTOCOL_NAME, call.path("partialArgs"), "expected a call that was begun by its name"
                )
            return
        if isinstance(signature := part.get("thoughtSignature"), str) and signature:
            events.append(PartDelta(self._index, state=unseal_state(signature, PROTOCOL_NAME)))
        if (arguments := call.object("args")) is not None:
            self._arguments.whole = printed(arguments, call.path("args"))
        if (pieces := call.list("partialArgs")) is not None:
            self._arguments.add(pieces, call.path("partialArgs"))
        if not call.take("willContinue", bool):
            self.end(events)

    def grows(self) -> bool:
        """Whether a call is under way."""
        return self._arguments is not None

    def cite(self, sources: Any) -> None:
        """What is known of the sources by now; the last word counts."""
        if self._sources is None:
            self._uncited = len(self._texts) - isinstance(self._open, Text)
        self._sources = sources

    def end(self, events: list[Event], cut: bool = False) -> None:
        """The open part ends. `cut`: because the answer does, so that a call may not be whole."""
        if self._open is None:
            return
        complete = True
        if self._arguments is not None:
            if text := self._arguments.text():
                events.append(PartDelta(self._index, text))
            complete = not cut and self._arguments.complete
            self._arguments = None
        elif isinstance(self._open, Text) and self._sources is not None:
            events += [
                PartDelta(self._index, citation=c) for n, c in self._cited() if n == len(self._texts) - 1
            ]
        self.called |= complete and isinstance(self._open, ToolCall)
        self._open = None
        events.append(PartEnd(self._index, complete))

    def close(self, events: list[Event], cut: bool) -> None:
        self.end(events, cut)
        if self._uncited and any(number < self._uncited for number, _ in self._cited()):
            self._losses.dropped("candidates[0].groundingMetadata", "sources came after their text had ended")

    def _start(self, part: AnyPart, events: list[Event]) -> None:
        self.end(events)
        self._index += 1
        self._open = part
        if isinstance(part, Text):
            self._texts.append([])
        events.append(PartStart(self._index, part))

    def _cited(self) -> list[Any]:
        texts = ["".join(pieces) for pieces in self._texts]
        return decode_grounding(self._sources, texts, "candidates[0].groundingMetadata", self._losses)
