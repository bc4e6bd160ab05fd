"""A streamed reply: bytes -> neutral events -> what is shown, and the whole of it at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.client.calling import ModelCall
from dragoman.client.events import (
    Finish,
    ReasoningDelta,
    RefusalDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from dragoman.client.messages import openai_call
from dragoman.client.results import Result
from dragoman.core.codec import Frame
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    fold,
    unfold,
)
from dragoman.core.fields import read_body
from dragoman.core.model import AnyPart, Failure, Reasoning, Refusal, Text, ToolCall
from dragoman.core.stage import Pipe, Stage
from dragoman.framing import jsonarray, sse

_CUT = Failure("truncated", "the upstream's stream ended before its end was announced", 502)


class StreamReader:
    """`feed` raises UpstreamError where the upstream reports a failure or breaks its protocol."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._decoder = call.codec.stream_decoder(call.losses)
        self._decode: Callable[[Frame], Iterable[Event]] = self._decoder.feed
        self._stages = Pipe(call.stages())
        self._framing: Stage[bytes, Frame] | None = None
        self._frames: list[Any] = []
        self._events: list[Event] = []
        self._part: AnyPart | None = None  # the one under way
        self._text: list[str] = []
        self._calls = -1
        self.result: Result | None = None

    def feed(self, data: bytes) -> list[StreamEvent]:
        if self._framing is None:
            if not data.strip():
                return []
            self._framing = self._framed(data.lstrip()[:1])
        try:
            return self._read(self._framing.feed(data))
        except WireError as error:
            raise UpstreamError(Failure("server", f"malformed upstream stream: {error}", 502)) from None

    def close(self) -> list[StreamEvent]:
        """Raises UpstreamError where the stream was cut."""
        out: list[StreamEvent] = []
        try:
            out += self._read(self._framing.close() if self._framing else ())
            for event in self._decoder.close():
                out += self._show(event)
        except WireError:  # what was broken is the frame in which the stream was cut
            pass
        for event in self._stages.close():
            out += self._shown(event)
        if self.result is None:
            raise UpstreamError(_CUT)
        return out

    def _framed(self, first: bytes) -> Stage[bytes, Frame]:
        """Told from the first byte: an array of chunks, a whole body, or server-sent events."""
        if first == b"[":
            return jsonarray.Decoder()
        if first == b"{":
            self._decode = self._decode_whole
            return _WholeBody()
        return sse.Decoder()

    def _decode_whole(self, frame: Frame) -> Iterable[Event]:
        """A server that does not stream answers with a whole body."""
        codec = self._call.codec
        wire = read_body(frame.data, codec.name)
        failure = codec.decode_error(wire, 0)
        return (
            (ResponseFailed(failure),) if failure else unfold(codec.decode_response(wire, self._call.losses))
        )

    def _read(self, frames: Iterable[Frame]) -> list[StreamEvent]:
        out: list[StreamEvent] = []
        for frame in frames:
            self._frames.append(frame.data)
            for event in self._decode(frame):
                out += self._show(event)
        return out

    def _show(self, event: Event) -> list[StreamEvent]:
        return [shown for passed in self._stages.feed(event) for shown in self._shown(passed)]

    def _shown(self, event: Event) -> Iterable[StreamEvent]:
        if self.result is not None:
            return ()
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
        if not isinstance(part, ToolCall):
            return ()
        self._calls += 1
        return (ToolCallStart(self._calls, part.id, part.name),)

    def _delta(self, text: str) -> Iterable[StreamEvent]:
        match self._part:
            case Text():
                return (TextDelta(text),)
            case Reasoning():
                return (ReasoningDelta(text),)
            case Refusal():
                return (RefusalDelta(text),)
            case ToolCall():
                self._text.append(text)
                return (ToolCallDelta(self._calls, text),)
            case _:
                return ()

    def _end(self, complete: bool) -> Iterable[StreamEvent]:
        part, self._part = self._part, None
        if not isinstance(part, ToolCall):
            return ()
        whole = openai_call(ToolCall(part.id, part.name, "".join(self._text))) if complete else None
        return (ToolCallEnd(self._calls, whole),)


class _WholeBody:
    """Bytes of one JSON body -> one frame, at the end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, item: bytes, /) -> tuple[()]:
        self._pieces.append(item)
        return ()

    def close(self) -> tuple[Frame]:
        return (Frame("", b"".join(self._pieces)),)
