"""A recorded stream taken apart: the frames of both wires and the neutral events between them, with times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseFailed, fold
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Response, Stop, ToolCall, Wire
from dragoman.pipeline import decoder_for
from dragoman.protocols import protocol, routes
from dragoman.recording.values import RecordedBody, Recording
from dragoman.serving.routes import RouteTable


class TimedFrame(Struct, frozen=True):
    """Something at `ms`. `track`: upstream (a frame), neutral (an event), client (a frame)."""

    ms: float
    track: str
    name: str
    text: str


def timeline(recording: Recording) -> list[TimedFrame]:
    """Everything that happened in a streamed reply, in order of time."""
    ticks: list[TimedFrame] = []
    begun = 0  # parts of earlier rounds
    for attempt in recording.attempts:
        if not attempt.protocol or (attempt is not recording.answered and attempt.reply.status >= 400):
            continue
        before = begun
        decoder = protocol(attempt.protocol).codec.stream_decoder(Losses())
        for ms, frame in frames(
            attempt.reply.body, protocol(attempt.protocol).framing, attempt.first_ms or 0.0
        ):
            ticks.append(TimedFrame(ms, "upstream", _name(frame), _text(frame)))
            try:
                for event in decoder.feed(frame):
                    begun += isinstance(event, PartStart)
                    ticks.append(_event_tick(ms, event, before))
            except (DragomanError, RecursionError, ValueError) as error:
                ticks.append(TimedFrame(ms, "neutral", "error", str(error)))
                break
    for ms, frame in frames(
        recording.reply.body, client_framing(recording), recording.summary.first_ms or 0.0
    ):
        ticks.append(TimedFrame(ms, "client", _name(frame), _text(frame)))
    return sorted(ticks, key=lambda tick: tick.ms)


def client_framing(recording: Recording) -> Framing:
    """How the client's stream is framed: as its path demands, or else as its protocol has it."""
    url = urlsplit(recording.request.url)
    found = _routes().find(
        recording.request.method, url.path, dict(parse_qsl(url.query)), recording.request.headers
    )
    framing = found[0].framing if found else None
    return framing or protocol(recording.summary.client).framing


@cache
def _routes() -> RouteTable[str]:
    return RouteTable(routes())


def frames(body: RecordedBody, framing: Framing, at: float = 0.0) -> Iterator[tuple[float, Frame]]:
    """The frames of a stream, each with the time of the piece that completed it; `at` where it came whole."""
    pieces = body.pieces or ((at, len(body.data)),)
    if body.data.lstrip()[:1] == b"{":
        yield pieces[-1][0], Frame("", body.data)
        return
    decoder = decoder_for(framing, body.data)
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


def reply_parts(protocol_name: str, data: bytes, framing: Framing | None = None) -> tuple[AnyPart, ...]:
    """The parts of a reply, whole or streamed, as far as they can be read."""
    response = _response(protocol_name, data, framing)
    return response.parts if response else ()


def assemble_reply(protocol_name: str, data: bytes, framing: Framing | None = None) -> Wire | None:
    """A streamed reply as the protocol would send it whole; None for one that came so or cannot be read."""
    if not protocol_name or data.lstrip()[:1] in (b"{", b""):
        return None
    response = _response(protocol_name, data, framing)
    return protocol(protocol_name).codec.encode_response(response, Losses(), None) if response else None


def _response(protocol_name: str, data: bytes, framing: Framing | None) -> Response | None:
    """What was cut off, or is still under way, ends where it ends."""
    try:
        spoken = protocol(protocol_name)
        codec, framing = spoken.codec, framing or spoken.framing
        wire = jsontext.decode(data) if data.lstrip()[:1] == b"{" else None
        if is_object(wire):
            return None if codec.decode_error(wire, 0) else codec.decode_response(wire, Losses())
        decoder = codec.stream_decoder(Losses())
        events = [event for _, frame in frames(RecordedBody(data), framing) for event in decoder.feed(frame)]
        events += decoder.close()
        ordered = [event for event in _rows(events) if not isinstance(event, ResponseFailed)]
        if not any(isinstance(event, ResponseEnd) for event in ordered):
            ordered.append(ResponseEnd(Stop("other")))
        return fold(ordered)
    except (DragomanError, RecursionError, ValueError):
        return None


def _rows(events: list[Event]) -> list[Event]:
    from dragoman.transforms.sequence import Sequencer

    sequencer = Sequencer()
    ordered = [out for event in events for out in sequencer.feed(event)]
    return [*ordered, *sequencer.close()]


def _event_tick(ms: float, event: Event, before: int) -> TimedFrame:
    """`before`: so many parts stand before those of this reply."""
    name = type(event).__name__
    match event:
        case PartStart():
            part = event.part
            label = (
                f"{type(part).__name__} {part.name}" if isinstance(part, ToolCall) else type(part).__name__
            )
            return TimedFrame(ms, "neutral", name, f"#{before + event.index} {label}")
        case PartDelta():
            state = " +state" if event.state else ""
            return TimedFrame(ms, "neutral", name, f"#{before + event.index} {event.text}{state}")
        case PartEnd():
            return TimedFrame(
                ms, "neutral", name, f"#{before + event.index}" + ("" if event.complete else " incomplete")
            )
        case ResponseEnd():
            return TimedFrame(ms, "neutral", name, f"{event.stop.reason}")
        case ResponseFailed():
            return TimedFrame(ms, "neutral", name, event.failure.message)
        case _:
            return TimedFrame(ms, "neutral", name, "")


def _name(frame: Frame) -> str:
    if frame.event:
        return frame.event
    value = jsontext.decode_object(_text(frame))
    kind = value.get("type") if value else None
    return kind if isinstance(kind, str) else "data"


def _text(frame: Frame) -> str:
    data: Any = frame.data
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else jsontext.dumps(data)
