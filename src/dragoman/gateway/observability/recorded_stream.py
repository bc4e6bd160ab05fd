"""A recorded stream taken apart: the frames of both wires and the neutral events between them, with times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    fold,
)
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, ToolCall
from dragoman.framing import aws_events, jsonarray, sse
from dragoman.gateway.observability.recording import RecordedBody, Recording
from dragoman.protocols import protocol


class Tick(Struct, frozen=True):
    """Something at `ms`. `track`: upstream (a frame), neutral (an event), client (a frame)."""

    ms: float
    track: str
    name: str
    text: str


def timeline(recording: Recording) -> list[Tick]:
    """Everything that happened in a streamed reply, in order of time."""
    ticks: list[Tick] = []
    attempt = recording.answered
    if attempt and attempt.protocol:
        decoder = protocol(attempt.protocol).codec.stream_decoder(Losses())
        for ms, frame in frames(attempt.reply.body):
            ticks.append(Tick(ms, "upstream", _name(frame), _text(frame)))
            try:
                ticks += [_event_tick(ms, event) for event in decoder.feed(frame)]
            except (DragomanError, RecursionError, ValueError) as error:
                ticks.append(Tick(ms, "neutral", "error", str(error)))
                break
    ticks += [Tick(ms, "client", _name(frame), _text(frame)) for ms, frame in frames(recording.reply.body)]
    return sorted(ticks, key=lambda tick: tick.ms)


def frames(body: RecordedBody) -> Iterator[tuple[float, Frame]]:
    """The frames of a stream, each with the time of the piece that completed it."""
    pieces = body.pieces or ((0.0, len(body.data)),)
    first = body.data.lstrip()[:1]
    if first == b"{":
        yield pieces[-1][0], Frame("", body.data)
        return
    chosen = {b"[": jsonarray.Decoder, b"\0": aws_events.Decoder}  # by the first byte; else SSE
    decoder = chosen.get(first, sse.Decoder)()
    start = 0
    ms = 0.0
    try:
        for ms, end in pieces:
            for frame in decoder.feed(body.data[start:end]):
                yield ms, frame
            start = end
        for frame in decoder.close():
            yield ms, frame
    except DragomanError:
        return


def reply_parts(protocol_name: str, data: bytes) -> tuple[AnyPart, ...]:
    """The parts of a reply, whole or streamed, as far as they can be read."""
    try:
        codec = protocol(protocol_name).codec
        wire = jsontext.decode(data) if data.lstrip()[:1] == b"{" else None
        if is_object(wire):
            if codec.decode_error(wire, 0):
                return ()
            return codec.decode_response(wire, Losses()).parts
        decoder = codec.stream_decoder(Losses())
        events = [event for _, frame in frames(RecordedBody(data)) for event in decoder.feed(frame)]
        events += decoder.close()
        return fold(_rows(events)).parts
    except (DragomanError, RecursionError, ValueError):
        return ()


def _rows(events: list[Event]) -> list[Event]:
    from dragoman.transforms.sequence import Sequencer

    sequencer = Sequencer()
    ordered = [out for event in events for out in sequencer.feed(event)]
    return [*ordered, *sequencer.close()]


def _event_tick(ms: float, event: Event) -> Tick:
    name = type(event).__name__
    match event:
        case PartStart():
            part = event.part
            label = (
                f"{type(part).__name__} {part.name}" if isinstance(part, ToolCall) else type(part).__name__
            )
            return Tick(ms, "neutral", name, f"#{event.index} {label}")
        case PartDelta():
            return Tick(
                ms, "neutral", name, f"#{event.index} {event.text}" + (" +state" if event.state else "")
            )
        case PartEnd():
            return Tick(ms, "neutral", name, f"#{event.index}" + ("" if event.complete else " incomplete"))
        case ResponseEnd():
            return Tick(ms, "neutral", name, f"{event.stop.reason}")
        case ResponseFailed():
            return Tick(ms, "neutral", name, event.failure.message)
        case _:
            return Tick(ms, "neutral", name, "")


def _name(frame: Frame) -> str:
    if frame.event:
        return frame.event
    value = jsontext.decode_object(_text(frame))
    kind = value.get("type") if value else None
    return kind if isinstance(kind, str) else "data"


def _text(frame: Frame) -> str:
    data: Any = frame.data
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else jsontext.dumps(data)
