"""Anthropic streams for tests: frames, and the events that the decoder makes of them."""

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import Event, ResponseFailed, fold
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Response, Wire
from dragoman.protocols.anthropic import CODEC

OWN = {"anthropic": {}}
TRUNCATED = ResponseFailed(Failure("truncated", "the upstream's stream ended without message_stop", 502))


def start(**more: Any) -> Wire:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], **more}
    return {
        "type": "message_start",
        "message": {"stop_reason": None, "usage": {"input_tokens": 5, "output_tokens": 1}} | message,
    }


def opened(index: int | None, **block: Any) -> Wire:
    return {"type": "content_block_start", "content_block": block} | (
        {} if index is None else {"index": index}
    )


def delta(index: int | None, kind: str, **more: Any) -> Wire:
    body = {"type": "content_block_delta", "delta": {"type": kind, **more}}
    return body if index is None else body | {"index": index}


def closed(index: int | None) -> Wire:
    return {"type": "content_block_stop"} | ({} if index is None else {"index": index})


def end(reason: str | None = "end_turn", **more: Any) -> Wire:
    stop = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}, **more}


def text(index: int | None, *pieces: str) -> list[Wire]:
    return [
        opened(index, type="text", text=""),
        *(delta(index, "text_delta", text=piece) for piece in pieces),
        closed(index),
    ]


def call(index: int, *pieces: str, **more: Any) -> list[Wire]:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}} | more
    return [
        opened(index, **block),
        *(delta(index, "input_json_delta", partial_json=piece) for piece in pieces),
        closed(index),
    ]


STOP = {"type": "message_stop"}


def events_of(bodies: Iterable[Any], losses: Losses | None = None) -> list[Event]:
    decoder = CODEC.stream_decoder(Losses() if losses is None else losses)
    events: list[Event] = []
    for body in bodies:
        name = body["type"] if isinstance(body, dict) else ""
        events += decoder.feed(Frame(name, body if isinstance(body, bytes) else jsontext.encode(body)))
    return [*events, *decoder.close()]


def read(bodies: Iterable[Any]) -> Response:
    return fold(events_of(bodies))
