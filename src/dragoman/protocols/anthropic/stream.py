"""Named stream events <-> neutral events.

Blocks are announced, filled and closed in order, which is the neutral grammar itself; the
signature of a thinking block arrives as its last delta and replaces what was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    emptied,
    spelled,
)
from dragoman.core.fields import Fields
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.anthropic.http import decode_error, encode_error, truncated
from dragoman.protocols.anthropic.parts import decode_block, decode_citation, encode_citation, encode_part
from dragoman.protocols.anthropic.response import (
    decode_stop,
    decode_usage,
    encode_id,
    encode_stop,
    encode_usage,
)
from dragoman.protocols.anthropic.wire import PROTOCOL, QUIET_RESPONSE


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._open: dict[int, AnyPart] = {}
        self._cut: set[int] = set()
        self._usage: Wire = {}
        self._stop: Stop | None = None
        self._ended = False

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        body = _parse(frame)
        if self._ended:
            return ()
        match body.get("type"):
            case "content_block_delta":
                return self._delta(body)
            case "content_block_start":
                return self._start_block(body)
            case "content_block_stop":
                return self._stop_block(body)
            case "message_start":
                return self._start(body)
            case "message_delta":
                return self._end(body)
            case "message_stop":
                return self._finish()
            case "ping":
                return (KeepAlive(),)
            case "error":
                self._ended = True
                failure = decode_error(body, 0)
                return (ResponseFailed(failure),) if failure else ()
            case other:
                self._losses.dropped(f"event {other}", f"only {PROTOCOL} understands it")
                return ()

    def close(self) -> Iterable[Event]:
        return () if self._ended else (ResponseFailed(truncated("message_stop")),)

    def _start(self, body: Wire) -> Iterable[Event]:
        message = Fields(body.get("message"), "message", PROTOCOL)
        usage = message.fields("usage")
        self._usage = usage.rest.copy() if usage else {}
        id, model = message.text("id"), message.text("model")
        for key in ("content", "stop_reason", "stop_sequence"):
            message.rest.pop(key, None)
        known = decode_usage(usage, self._losses) if usage else None
        return (ResponseStart(id, model, known, extras=message.extras(self._losses, quiet=QUIET_RESPONSE)),)

    def _start_block(self, body: Wire) -> Iterable[Event]:
        index = _index(body)
        part = decode_block(body.get("content_block"), f"content[{index}]", self._losses)
        self._open[index] = part
        events: list[Event] = [PartStart(index, emptied(part))]
        text = spelled(part)
        if text and not (
            isinstance(part, ToolCall) and text == "{}"
        ):  # servers announce a call with input {}
            events.append(PartDelta(index, text))
        if part.state:
            events.append(PartDelta(index, state=part.state))
        return events

    def _delta(self, body: Wire) -> Iterable[Event]:
        index, delta = _index(body), body.get("delta")
        if index not in self._open:
            raise WireError(PROTOCOL, "index", f"content_block_delta for block {index}, which is not open")
        if not is_object(delta):
            raise WireError(PROTOCOL, "delta", "expected an object")
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                return (PartDelta(index, text),)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                return (PartDelta(index, text),) if text else ()
            case {"type": "thinking_delta", "thinking": str(text)}:
                return (PartDelta(index, text),)
            case {"type": "signature_delta", "signature": str(signature)}:
                return (PartDelta(index, state=unseal_state(signature, PROTOCOL)),)
            case {"type": "citations_delta"}:
                citation = decode_citation(delta.get("citation"), f"content[{index}].citations", self._losses)
                return (PartDelta(index, citation=citation),)
            case _:
                kind = str(delta.get("type"))
                if kind in _DELTAS:
                    raise WireError(PROTOCOL, "delta", f"{kind} without its text")
                self._losses.dropped(f"content[{index}].{kind}", f"only {PROTOCOL} understands it")
                return ()

    def _stop_block(self, body: Wire) -> Iterable[Event]:
        index = _index(body)
        if self._open.pop(index, None) is None:
            raise WireError(PROTOCOL, "index", f"content_block_stop for block {index}, which is not open")
        return (PartEnd(index),)

    def _end(self, body: Wire) -> Iterable[Event]:
        self._stop = decode_stop(Fields(body.get("delta"), "delta", PROTOCOL))
        if is_object(usage := body.get("usage")):
            self._usage.update({key: value for key, value in usage.items() if value is not None})
        return ()

    def _finish(self) -> Iterable[Event]:
        self._ended = True
        cut: list[Event] = [PartEnd(index, complete=False) for index in self._open]
        usage = decode_usage(Fields(self._usage, "usage", PROTOCOL), self._losses) if self._usage else None
        return (*cut, ResponseEnd(self._stop or Stop("other"), usage))


_DELTAS = frozenset({"text_delta", "input_json_delta", "thinking_delta", "signature_delta"})


class StreamEncoder:
    """Block indices count from 0 without gaps; a block opens when it has something to say."""

    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._index = -1
        self._part: AnyPart | None = None
        self._open = False
        self._delta = ("", "")
        self._state: State | None = None
        self._usage = Usage()
        self._refused = False

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case PartDelta():
                return self._fill(event)
            case PartStart(_, part):
                self._part, self._open, self._state = part, False, part.state
                self._delta = _DELTA_OF.get(type(part), ("", ""))
                return self._open_block() if isinstance(part, ToolCall) else ()
            case PartEnd():
                return self._close_block()
            case ResponseStart():
                return self._start(event)
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                return (_frame(encode_error(event.failure)[1]),)
            case KeepAlive():
                return (_PING,)

    def close(self) -> Iterable[Frame]:
        return ()

    def _start(self, event: ResponseStart) -> Iterable[Frame]:
        self._usage = event.usage or Usage()
        message: dict[str, Any] = {
            "id": encode_id(event.id),
            "type": "message",
            "role": "assistant",
            "model": event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**encode_usage(self._usage), "output_tokens": self._usage.output or 1},
        }
        return (_frame({"type": "message_start", "message": message}),)

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        if delta.state:
            self._state = delta.state
        if not delta.text and not delta.citation:
            return ()
        start = () if self._open else self._open_block()
        if delta.citation:
            body: Wire = {"type": "citations_delta", "citation": encode_citation(delta.citation)}
        else:
            kind, key = self._delta
            body = {"type": kind, key: delta.text}
        frame = Frame(
            "content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": body}
        )
        return (*start, frame) if start else (frame,)

    def _open_block(self) -> tuple[Frame, ...]:
        self._open = True
        match part := self._part:
            case ToolCall():
                block: Wire = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            case Reasoning(hidden=False):
                block = {"type": "thinking", "thinking": "", "signature": ""}
            case Text() | Refusal():
                self._refused |= isinstance(part, Refusal)
                block = {"type": "text", "text": ""}
            case Reasoning() | Media() | Foreign():
                blocks = encode_part(replace(part, state=self._state), self._losses)
                if not blocks:
                    self._open = False
                    return ()
                block = blocks[0]
            case _:
                self._open = False
                return ()
        self._index += 1
        return (_frame({"type": "content_block_start", "index": self._index, "content_block": block}),)

    def _close_block(self) -> Iterable[Frame]:
        frames: list[Frame] = []
        if not self._open and not isinstance(self._part, Text | Refusal):
            frames += self._open_block()
        if not self._open:
            return frames
        if self._state and isinstance(self._part, Reasoning) and not self._part.hidden:
            signature = {"type": "signature_delta", "signature": seal_state(self._state, PROTOCOL)}
            frames.append(_frame({"type": "content_block_delta", "index": self._index, "delta": signature}))
        frames.append(_frame({"type": "content_block_stop", "index": self._index}))
        self._open = False
        return frames

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        usage = encode_usage(event.usage or self._usage)
        delta = {"type": "message_delta", "delta": encode_stop(event.stop, self._refused), "usage": usage}
        return (_frame(delta), _frame({"type": "message_stop"}))


_DELTA_OF: dict[type, tuple[str, str]] = {
    Text: ("text_delta", "text"),
    Refusal: ("text_delta", "text"),
    Reasoning: ("thinking_delta", "thinking"),
    ToolCall: ("input_json_delta", "partial_json"),
}


def _frame(body: Wire) -> Frame:
    return Frame(body["type"], body)


_PING = _frame({"type": "ping"})


def _parse(frame: Frame) -> Wire:
    try:
        body = jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(PROTOCOL, f"event {frame.event or '(unnamed)'}", str(error)) from None
    if not is_object(body):
        raise WireError(PROTOCOL, f"event {frame.event or '(unnamed)'}", "expected an object")
    return body


def _index(body: Wire) -> int:
    """Some servers leave the index out of one-block streams."""
    index = body.get("index", 0)
    if type(index) is not int:
        raise WireError(PROTOCOL, "index", "expected a whole number")
    return index
