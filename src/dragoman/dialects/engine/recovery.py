"""Calls that a native upstream's model wrote as text, in whatever dialect, become calls.

Only calls of declared tools count, and only in a reply without a native call. Whether one comes is
known at the end, so from the first call in the text on, everything waits for the end of the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseFailed
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, Text, ToolCall
from dragoman.dialects.engine.declared import declare
from dragoman.dialects.engine.grammar import Call, Grammar
from dragoman.dialects.engine.parser import Parser
from dragoman.dialects.engine.scanner import Scanner


class Recovery(Parser):
    def __init__(self, grammars: tuple[Grammar, ...], tools: Iterable[AnyTool], losses: Losses) -> None:
        declared = declare(tools, losses)
        self._leaks: dict[int, Call] = {}
        self._waiting: list[Event] = []
        self._native: dict[int, NativeCall] = {}

        def scanner(first: bool) -> Scanner:
            return Scanner(grammars, declared, admits=declared.__contains__)

        super().__init__(scanner, losses, "")

    def feed(self, event: Event, /) -> Iterable[Event]:
        self._watch(event)
        events = super().feed(event)
        if not self._leaks:
            return events
        self._waiting += events
        return self._release(event) if isinstance(event, ResponseEnd | ResponseFailed) else ()

    def close(self) -> Iterable[Event]:
        waiting, self._waiting = self._waiting, []
        return (*waiting, *super().close())

    def _watch(self, event: Event) -> None:
        match event:
            case PartStart(index, ToolCall() as call):
                self._native[index] = NativeCall(call.name)
            case PartDelta(index, text) if index in self._native:
                self._native[index].arguments.append(text)
            case _:
                pass

    def _found(self, index: int, call: Call) -> None:
        self._leaks[index] = call

    def _framed(self, raw: str) -> None:
        if self._leaks:
            index, leak = self._leaks.popitem()
            self._leaks[index] = replace(leak, raw=leak.raw + raw)

    def _release(self, last: ResponseEnd | ResponseFailed) -> Iterator[Event]:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            match event:
                case PartStart(index) | PartDelta(index) | PartEnd(index) if index in self._leaks:
                    yield from self._judged(event, self._leaks[index])
                case ResponseEnd():
                    yield last if self._native else event
                case _:
                    yield event

    def _judged(self, event: PartStart | PartDelta | PartEnd, leak: Call) -> Iterator[Event]:
        """A leaked call with all that is known: it is a call, a twin of a native one, or text after all."""
        if not self._native:
            yield event
            self._losses.changed("text", f"a call of {leak.name} was written as text; it became a call")
        elif any(native.says(leak) for native in self._native.values()):
            self._losses.dropped("text", f"a call of {leak.name} was written as text and made natively too")
        elif isinstance(event, PartStart):
            yield PartStart(event.index, Text())
            yield PartDelta(event.index, leak.raw)
        elif isinstance(event, PartEnd):
            yield event


class NativeCall:
    """A call while it arrives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: list[str] = []

    def says(self, leak: Call) -> bool:
        """Whether `leak` is the same call."""
        mine = jsontext.decode_object("".join(self.arguments))
        return self.name == leak.name and (mine or {}) == jsontext.decode_object(leak.arguments)
