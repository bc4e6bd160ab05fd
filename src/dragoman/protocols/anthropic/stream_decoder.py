"""Named stream events -> neutral events.

Blocks are opened, filled and closed in order, which is the neutral grammar itself; the signature of a
thinking block arrives as its last delta and replaces what was there.

States of the stream:

    waiting   --message_start, or any other event--> open      (ResponseStart)
    open      --content_block_start / _delta / _stop, message_delta--> open
    open      --message_stop--> ended                          (ResponseEnd)
    waiting, open  --error, a second message_start after content, end of input--> ended   (ResponseFailed)
    ended     --anything--> ended                              (nothing)

States of a block, by its index:

    opened    --first text, thought, citation or signature--> announced   (PartStart; a call at once)
    announced --delta--> announced                                        (PartDelta)
    announced --content_block_stop--> closed                              (PartEnd)
    opened    --content_block_stop--> closed          (nothing: an empty block; a Foreign is emitted whole)

A call whose JSON is not complete at its content_block_stop is *unsettled*: the next block or a stop_reason
other than a cut ends it as complete, a cut (`max_tokens`) or a failure as incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object
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
from dragoman.core.failures import truncated
from dragoman.core.fields import Fields, describe, rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Failure, Foreign, Reasoning, Stop, Text, ToolCall, Wire
from dragoman.core.seal import unseal_state
from dragoman.protocols.anthropic.errors import decode_error
from dragoman.protocols.anthropic.parts import decode_block, decode_citation
from dragoman.protocols.anthropic.response import CUT, decode_stop, decode_usage, read_usage
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, QUIET_RESPONSE

# The delta that fills a part, and the field that holds its text
_DELTAS: dict[type, tuple[str, str]] = {
    Text: ("text_delta", "text"),
    Reasoning: ("thinking_delta", "thinking"),
    ToolCall: ("input_json_delta", "partial_json"),
    Foreign: ("input_json_delta", "partial_json"),
}


class _OpenBlock:
    """A block that is open. A text or thinking block is announced with its first content."""

    __slots__ = ("announced", "cited", "json", "key", "kind", "part")

    def __init__(self, part: AnyPart) -> None:
        self.part, self.announced = part, False
        self.cited = len(part.citations) if isinstance(part, Text) else 0
        self.kind, self.key = _DELTAS.get(type(part), ("", ""))
        self.json: list[str] | None = [] if isinstance(part, ToolCall | Foreign) else None

    def announce(self, index: int) -> list[Event]:
        if self.announced:
            return []
        self.announced = True
        return [PartStart(index, emptied(self.part))]


def is_end(frame: Frame) -> bool:
    """Whether a frame ends the stream: `message_stop`, or an error."""
    event = frame_object(frame)
    return bool(event) and event.get("type", frame.event) in ("message_stop", "error")


def delta_text(event: Wire) -> str:
    """The text of an event that only continues a block; empty for any other."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not is_object(delta) or len(delta) != 2:
        return ""
    text = delta.get(_TEXT_FIELDS.get(delta.get("type"), ""))
    return text if type(text) is str else ""


_TEXT_FIELDS: dict[Any, str] = dict(_DELTAS.values())
_STATE = {"thinking": "signature", "signature_delta": "signature", "redacted_thinking": "data"}


def state_slots(reply: Wire) -> Iterable[tuple[Wire, str]]:
    """The blocks of a whole reply, or of a frame, that hold opaque state, each with its field."""
    message = reply.get("message")
    blocks = [reply.get("delta"), reply.get("content_block"), *rows(reply.get("content"))]
    for block in [*blocks, *rows(message.get("content") if is_object(message) else None)]:
        if is_object(block) and (field := _STATE.get(str(block.get("type")))):
            yield block, field


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._begun = self._called = self._ended = False
        self._open: dict[int, _OpenBlock] = {}
        self._next = 0
        self._unsettled: int | None = None  # index of a call whose block ended before its JSON did
        self._stop: Stop | None = None
        self._usage: Wire = {}
        self._extras: Wire = {}

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended:
            return ()
        body = _parse(frame)
        kind = body.get("type") or frame.event
        if kind == "content_block_delta":
            return self._fill(body)
        if not isinstance(kind, str):
            raise WireError(PROTOCOL_NAME, "type", f"expected a string, got {describe(kind)}")
        if self._begun or kind in _BEFORE_ANYTHING:
            return self._step(kind, body)
        self._begun = True
        return (ResponseStart("", ""), *self._step(kind, body))

    def close(self) -> Iterable[Event]:
        return () if self._ended else self._fail(truncated("message_stop"))

    def _step(self, kind: str, body: Wire) -> Iterable[Event]:
        match kind:
            case "content_block_start":
                return self._open_block(body)
            case "content_block_stop":
                return self._close_block(body)
            case "message_start":
                return self._start(body)
            case "message_delta":
                return self._end(body)
            case "message_stop":
                return self._finish()
            case "ping":
                return (KeepAlive(),)
            case "error":
                return self._fail(decode_error(body, 0) or Failure("server", "the upstream failed", 500))
            case _:
                self._losses.dropped(
                    f"event {kind}", f"Only {PROTOCOL_NAME} has this event.", "event.unknown"
                )
                return ()

    def _start(self, body: Wire) -> Iterable[Event]:
        if self._begun:
            return self._restart()
        self._begun = True
        message = Fields(body.get("message"), "message", PROTOCOL_NAME)
        usage, content = message.object("usage"), message.list("content")
        self._usage = {} if usage is None else usage.copy()
        id, model = message.nonempty("id"), message.nonempty("model")
        blocks = [event for i, block in enumerate(content or ()) for event in self._whole_block(i, block)]
        if message.rest.get("stop_reason"):
            self._stop = decode_stop(message, self._called, self._losses)
        for key in ("stop_reason", "stop_sequence"):
            message.rest.pop(key, None)
        message.where = ""  # the place in a whole reply
        extras = message.extras(self._losses, quiet=QUIET_RESPONSE)
        if usage is not None:
            extras[PROTOCOL_NAME]["usage"] = self._usage.copy()
        # the end repeats the counts, and what is unknown among them is reported there
        counted = None if usage is None else read_usage(usage, "message.usage")
        return (ResponseStart(id, model, counted, extras=extras), *blocks)

    def _whole_block(self, index: int, block: Any) -> list[Event]:
        """Programmatic tool calling: a reply may have its whole content in message_start."""
        started = self._open_block({"index": index, "content_block": block})
        return [*started, *self._close_block({"index": index})]

    def _restart(self) -> Iterable[Event]:
        """A proxy retried its upstream: harmless before any content, a failure afterwards."""
        if self._next == 0:
            return ()
        return self._fail(Failure("server", "the upstream began a second message in one stream", 502))

    def _open_block(self, body: Wire) -> Iterable[Event]:
        index = _index(body, self._next)
        if index in self._open:
            raise WireError(PROTOCOL_NAME, "index", f"content_block_start for block {index}, which is open")
        block = _OpenBlock(decode_block(body.get("content_block"), f"content[{index}]", self._losses))
        events = self._settle(complete=True)
        self._next, self._open[index] = max(self._next, index + 1), block
        match part := block.part:
            case Foreign():
                return events  # it is emitted whole at its end
            case ToolCall():
                self._called = True
                return [*events, *block.announce(index)]
            case _:
                return [*events, *_initial_content(index, part, block)]

    def _fill(self, body: Wire) -> Iterable[Event]:
        index, delta = body.get("index"), body.get("delta")
        if type(index) is not int:
            index = _index(body, next(reversed(self._open), -1))
        block = self._open.get(index)
        if block is None:
            raise WireError(
                PROTOCOL_NAME, "index", f"content_block_delta for block {index}, which is not open"
            )
        if not is_object(delta):
            raise WireError(PROTOCOL_NAME, "delta", f"expected an object, got {describe(delta)}")
        if delta.get("type") != block.kind:
            return self._fill_otherwise(index, block, delta)
        text = delta.get(block.key)
        if type(text) is not str:
            raise WireError(PROTOCOL_NAME, f"delta.{block.key}", f"expected a string, got {describe(text)}")
        if block.json is not None:
            block.json.append(text)
            return (PartDelta(index, text),) if text and block.announced else ()
        if block.announced:
            return (PartDelta(index, text),)
        return (*block.announce(index), PartDelta(index, text)) if text else ()

    def _fill_otherwise(self, index: int, block: _OpenBlock, delta: Wire) -> Iterable[Event]:
        where = f"content[{index}]"
        match block.part, delta:
            case Reasoning(), {"type": "signature_delta", "signature": str(signature)}:
                state = unseal_state(signature, PROTOCOL_NAME)
                return (*block.announce(index), PartDelta(index, state=state)) if signature else ()
            case Text(), {"type": "citations_delta"}:
                place = f"{where}.citations[{block.cited}]"
                block.cited += 1
                citation = decode_citation(delta.get("citation"), place, self._losses)
                return (*block.announce(index), PartDelta(index, citation=citation))
            case Foreign() as part, {"type": "compaction_delta"}:
                filled = {key: value for key, value in delta.items() if key != "type"}
                block.part = replace(part, body=part.body | filled)
                return ()
            case _:
                why = "It does not belong to such a block."
                self._losses.dropped(f"{where}.{delta.get('type')}", why, "event.unknown")
                return ()

    def _close_block(self, body: Wire) -> Iterable[Event]:
        index = _index(body, next(reversed(self._open), -1))
        block = self._open.pop(index, None)
        if block is None:
            raise WireError(
                PROTOCOL_NAME, "index", f"content_block_stop for block {index}, which is not open"
            )
        match block.part:
            case Foreign() as part:
                return (PartStart(index, _filled(part, "".join(block.json or ()))), PartEnd(index))
            case ToolCall() as call:
                return self._close_call(index, call, "".join(block.json or ()))
            case _:
                return (PartEnd(index),) if block.announced else ()

    def _close_call(self, index: int, call: ToolCall, text: str) -> Iterable[Event]:
        """The input may be in content_block_start; only the stop reason identifies a cut call."""
        events: list[Event] = []
        if not text and call.arguments:
            text = call.arguments
            events.append(PartDelta(index, text))
        if text not in ("", "{}") and jsontext.is_complete(text):
            return [*events, PartEnd(index)]
        self._unsettled = index
        return events

    def _settle(self, complete: bool) -> list[Event]:
        index, self._unsettled = self._unsettled, None
        return [] if index is None else [PartEnd(index, complete)]

    def _end(self, body: Wire) -> Iterable[Event]:
        delta = Fields(body.get("delta") or {}, "delta", PROTOCOL_NAME)
        usage = Fields(body.get("usage") or {}, "usage", PROTOCOL_NAME)
        self._usage.update({key: value for key, value in usage.rest.items() if value is not None})
        reason = delta.rest.get("stop_reason")
        if reason is not None and type(reason) is not str:
            raise delta.wrong("stop_reason", "str", reason)
        delta.where = ""  # from here on losses name the place in a whole reply
        stop = decode_stop(delta, self._called, self._losses)
        delta.rest.pop("stop_reason", None)
        beside = Fields(body, "", PROTOCOL_NAME)
        for key in ("type", "delta", "usage"):
            beside.rest.pop(key, None)
        for fields in (delta, beside):
            self._extras |= fields.extras(self._losses, quiet=QUIET_RESPONSE)[PROTOCOL_NAME]
        if not reason:
            return ()
        self._stop = stop
        return self._settle(complete=stop.reason not in CUT)

    def _finish(self) -> Iterable[Event]:
        self._ended = True
        events = [*self._settle(complete=True), *self._left_open()]
        usage = decode_usage(self._usage, "usage", self._losses) if self._usage else None
        stop = self._stop or Stop("tool_calls" if self._called else "end")
        extras = {**self._extras, "usage": self._usage} if self._usage else self._extras
        return (*events, ResponseEnd(stop, usage, {PROTOCOL_NAME: extras} if extras else None))

    def _fail(self, failure: Failure) -> Iterable[Event]:
        self._ended = True
        return (*self._settle(complete=False), *self._left_open(), ResponseFailed(failure))

    def _left_open(self) -> list[Event]:
        """Ends of the blocks that were not closed; a call is complete where its JSON is."""
        return [
            PartEnd(index, block.json is None or jsontext.is_complete("".join(block.json)))
            for index, block in self._open.items()
            if block.announced
        ]


_BEFORE_ANYTHING = frozenset({"message_start", "ping", "error"})


def _initial_content(index: int, part: AnyPart, block: _OpenBlock) -> list[Event]:
    """The events for what content_block_start holds already."""
    deltas: list[Event] = []
    if text := spelled(part):
        deltas.append(PartDelta(index, text))
    if isinstance(part, Text):
        deltas += [PartDelta(index, citation=citation) for citation in part.citations]
    if part.state:
        deltas.append(PartDelta(index, state=part.state))
    return [*block.announce(index), *deltas] if deltas or not block.kind else []


def _filled(part: Foreign, text: str) -> Foreign:
    """A call of a hosted tool with the input from its deltas."""
    if not text:
        return part
    value = jsontext.decode_object(text)
    return replace(part, body={**part.body, "input": text if value is None else value})


def _parse(frame: Frame) -> Wire:
    try:
        body = jsontext.decode(frame.data)
    except ValueError as error:
        if frame.data == b"[DONE]":  # compatible servers end a stream as Chat does (G20: vllm#37510)
            return {"type": "ping"}
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", str(error)) from None
    if not is_object(body):
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", "expected an object")
    return body


def _index(body: Wire, default: int) -> int:
    """Compatible servers leave the index out: then it is the next block, or the one that is open."""
    index = body.get("index")
    if index is None:
        return default
    if type(index) is not int or index < 0:
        raise WireError(PROTOCOL_NAME, "index", f"expected a whole number, got {describe(index)}")
    return index
