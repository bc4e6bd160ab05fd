"""A streamed reply as the events that users of the client see, and the whole reply at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.client.calling import ModelCall
from dragoman.client.events import (
    Finish,
    OutputDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from dragoman.client.messages import openai_call
from dragoman.client.partial_json import PartialJson
from dragoman.client.results import Result
from dragoman.core.errors import UpstreamError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseFailed, fold
from dragoman.core.model import AnyPart, Reasoning, Refusal, Text, ToolCall


class StreamReader:
    """`feed` and `close` raise UpstreamError where the upstream fails, breaks its protocol or is cut off."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._frames: list[Any] = []
        self._reader = call.pipeline.read_stream(self._frames)
        self._events: list[Event] = []
        self._part: AnyPart | None = None  # the open one
        self._text: list[str] = []
        self._calls = -1
        self.result: Result[Any] | None = None
        self._expected = call.expected
        self._partial, self._shown_output = PartialJson(), None

    def feed(self, data: bytes) -> list[StreamEvent]:
        return [shown for event in self._reader.feed(data) for shown in self._shown(event)]

    def close(self) -> list[StreamEvent]:
        return [shown for event in self._reader.close() for shown in self._shown(event)]

    def _shown(self, event: Event) -> Iterable[StreamEvent]:
        self._events.append(event)
        match event:
            case PartDelta() if event.text:
                return self._delta(event.text)
            case PartStart():
                return self._start(event.part)
            case PartEnd():
                return self._end(event.complete)
            case ResponseEnd():
                self.result = self._call.result(fold(self._events), frames=self._frames)
                return (Finish(self.result.finish_reason, self.result.usage),)
            case ResponseFailed():
                raise UpstreamError(event.failure)
            case _:
                return ()

    def _start(self, part: AnyPart) -> Iterable[StreamEvent]:
        self._part = part
        self._text = []
        if self._expected:
            self._partial = PartialJson()
            if isinstance(part, ToolCall) and part.name == self._expected.tool:
                self._part = Text()  # the call gives the answer: see ExpectedOutput.restore
        if not isinstance(self._part, ToolCall):
            return ()
        self._calls += 1
        return (ToolCallStart(self._calls, self._part.id, self._part.name),)

    def _delta(self, text: str) -> Iterable[StreamEvent]:
        match self._part:
            case Text():
                return (TextDelta(text), *self._output_delta(text)) if self._expected else (TextDelta(text),)
            case Reasoning():
                return (ReasoningDelta(text),)
            case Refusal():
                return (RefusalDelta(text),)
            case ToolCall():
                self._text.append(text)
                return (ToolCallDelta(self._calls, text),)
            case _:
                return ()

    def _output_delta(self, text: str) -> Iterable[StreamEvent]:
        self._partial.feed(text)
        value = self._expected.partial(self._partial.value()) if self._expected else None
        if value is None or value == self._shown_output:
            return ()
        self._shown_output = value
        return (OutputDelta(value),)

    def _end(self, complete: bool) -> Iterable[StreamEvent]:
        part, self._part = self._part, None
        if not isinstance(part, ToolCall):
            return ()
        whole = openai_call(ToolCall(part.id, part.name, "".join(self._text))) if complete else None
        return (ToolCallEnd(self._calls, whole),)
