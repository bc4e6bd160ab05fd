"""Gemini streams for tests: chunks, events and frames."""

from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import Event, ResponseEnd, ResponseStart
from dragoman.core.losses import Losses
from dragoman.core.model import Response, State, Stop, Usage, Wire
from dragoman.protocols.gemini import CODEC

SIG = State("gemini", "c2ln")
START = ResponseStart("", "")


def chunk(*parts: Wire, finish: str = "", **more: Any) -> Wire:
    candidate: Wire = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **more}


def events(*chunks: Any, losses: Losses | None = None) -> list[Event]:
    decoder = CODEC.stream_decoder(Losses() if losses is None else losses)
    out = [
        e for c in chunks for e in decoder.feed(Frame("", c if isinstance(c, bytes) else jsontext.encode(c)))
    ]
    return [*out, *decoder.close()]


def frames(*events: Event, losses: Losses | None = None) -> list[Wire]:
    encoder = CODEC.stream_encoder(Losses() if losses is None else losses)
    out = [frame for event in events for frame in encoder.feed(event)] + list(encoder.close())
    assert all(frame.event == "" for frame in out)
    return [jsontext.decode(jsontext.encode(frame.data)) for frame in out]


TEXT, THOUGHT, STOP = {"text": "a"}, {"text": "hm", "thought": True}, chunk(finish="STOP")
CALL = {"functionCall": {"id": "1", "name": "f", "args": {"n": 1.0}}}
END = ResponseEnd(Stop("end", "STOP"))
ENDED = Stop("end")
CALLS = ResponseEnd(Stop("tool_calls", "STOP"))


def response(*parts: Any, stop: Stop = ENDED, usage: Usage | None = None) -> Response:
    return Response("r1", "m", parts, stop, usage)
