"""Neutral events -> named stream events, as the SDK and the agents read them.

States:

    start   --ResponseStart--> idle                     message_start
    idle    --PartStart of a call--> open               content_block_start
    idle    --PartStart of another part--> pending      (nothing: an empty block would be refused when echoed)
    pending --PartDelta--> open                         content_block_start, content_block_delta
    open    --PartDelta--> open                         content_block_delta
    idle    --PartStart of an action--> held            (nothing: its name is among its arguments)
    held    --PartDelta--> held                         (nothing)
    held    --PartEnd--> idle                           the whole block
    pending --PartEnd--> idle                           the whole block, or nothing where it is empty
    open    --PartEnd--> idle                           signature_delta after thinking, content_block_stop
    idle    --ResponseEnd--> end                        message_delta, message_stop
    any     --ResponseFailed--> end                     error

Block indices count from 0 without gaps: the SDK uses them as list indices (G03: omlx#1353).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.fields import own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
    Reasoning,
    Refusal,
    Request,
    State,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.anthropic.errors import encode_error
from dragoman.protocols.anthropic.hosted import count_requests, encode_search
from dragoman.protocols.anthropic.parts import encode_citation, report_ranges
from dragoman.protocols.anthropic.response import (
    encode_id,
    encode_management,
    encode_reply_part,
    encode_stop,
    encode_usage,
)
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, is_native
from dragoman.transforms.arguments import is_begun_object, is_broken, wrap_raw

# The delta that fills a part, and the field that holds its text
_DELTAS: dict[type, tuple[str, str]] = {
    Text: ("text_delta", "text"),
    Refusal: ("text_delta", "text"),
    Reasoning: ("thinking_delta", "thinking"),
    ToolCall: ("input_json_delta", "partial_json"),
}


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses, self._request = losses, request
        self._id = ""
        self._cited: list[Citation] = []
        self._placed = self._length = 0  # how many of them belong to earlier texts; the length of this one
        self._index = -1
        self._part: AnyPart | None = None
        self._open = False
        self._fresh = False  # a call of which nothing is written yet
        self._held: list[str] | None = None  # the arguments of an action of a computer
        self._delta = ("", "")
        self._state: State | None = None
        self._usage = Usage()
        self._extras: Wire | None = None  # fields of an Anthropic upstream, which are repeated
        self._refusal: list[str] | None = None
        self._foreign: list[Wire] = []  # blocks of hosted tools among them

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case PartDelta():
                return self._fill(event)
            case PartStart():
                return self._begin(event.part)
            case PartEnd():
                return self._close_block(event.complete)
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
        self._id, self._usage = event.id, event.usage or Usage()
        self._extras = event.extras.get(PROTOCOL_NAME) if event.extras else None
        counted = {**encode_usage(self._usage), "output_tokens": self._usage.output or 1}
        message: Wire = {
            "id": encode_id(event.id) if self._extras is None or not event.id else event.id,
            "type": "message",
            "role": "assistant",
            "model": event.model or (self._request.model if self._request else ""),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": counted,
        }
        if self._extras is None:
            message |= {"stop_details": None, "container": None}
        return (_frame({"type": "message_start", "message": message | (self._extras or {})}),)

    def _begin(self, part: AnyPart) -> Iterable[Frame]:
        self._part, self._open, self._state = part, False, part.state
        self._placed, self._length = len(self._cited), 0
        self._fresh = isinstance(part, ToolCall)
        self._delta = _DELTAS.get(type(part), ("", ""))
        if isinstance(part, Refusal) and self._refusal is None:
            self._refusal = []
        if not isinstance(part, ToolCall):
            return ()
        if part.kind == "computer":
            self._held = []
            return ()
        return self._open_block(_empty_block(part))

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        if delta.state:
            self._state = delta.state
        if not delta.text and not delta.citation:
            return ()
        if self._held is not None:
            self._held.append(delta.text)
            return ()
        if self._fresh:
            self._fresh = False
            part = self._part  # what begins otherwise is whole: an Anthropic input is an object
            if not is_begun_object(delta.text) and not (
                type(part) is ToolCall and is_broken(part, delta.text)
            ):
                delta = replace(delta, text=wrap_raw(delta.text))
        start = () if self._open or self._part is None else self._open_block(_empty_block(self._part))
        if self._refusal is not None and isinstance(self._part, Refusal):
            self._refusal.append(delta.text)
        if delta.citation:
            self._cited.append(delta.citation)
            body: Wire = {"type": "citations_delta", "citation": encode_citation(delta.citation)}
        else:
            kind, key = self._delta
            body = {"type": kind, key: delta.text}
            self._length += len(delta.text)
        frame = Frame(
            "content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": body}
        )
        return (*start, frame) if start else (frame,)

    def _open_block(self, block: Wire) -> tuple[Frame, ...]:
        self._open = True
        self._index += 1
        return (_frame({"type": "content_block_start", "index": self._index, "content_block": block}),)

    def _close_block(self, complete: bool) -> Iterable[Frame]:
        """A part without deltas is written whole now; an empty text is not written at all."""
        frames: list[Frame] = []
        part, self._part = self._part, None
        if self._held is not None and isinstance(part, ToolCall):
            part = replace(part, arguments="".join(self._held), complete=complete)
            self._held = None
        if part is not None and not self._open and not isinstance(part, Text | Refusal):
            frames += self._whole(replace(part, state=self._state))
        if not self._open:
            return frames
        if self._cited:
            report_ranges(self._cited[self._placed :], self._length, self._losses)
        if self._state and isinstance(part, Reasoning) and not part.hidden:
            frames.append(
                self._delta_frame("signature_delta", "signature", seal_state(self._state, PROTOCOL_NAME))
            )
        return [*frames, self._block_stop()]

    def _block_stop(self) -> Frame:
        self._open = False
        return _frame({"type": "content_block_stop", "index": self._index})

    def _whole(self, part: AnyPart) -> Iterable[Frame]:
        """The blocks of a part that had no deltas."""
        if isinstance(part, Reasoning) and not part.hidden:
            return self._open_block(_empty_block(part)) if part.state else ()
        blocks = encode_reply_part(part, self._losses)
        if isinstance(part, Foreign):
            self._foreign += blocks
        return [frame for block in blocks for frame in self._filled_block(block)]

    def _filled_block(self, block: Wire) -> Iterable[Frame]:
        """Clients other than the SDK read the input of a call from deltas only, and every one a summary."""
        if block["type"] == "compaction":
            start = self._open_block({**block, "content": None})
            return (*start, self._delta_frame("compaction_delta", "content", block["content"]))
        value = block.get("input")
        if not is_object(value) or not value:
            return self._open_block(block)
        start = self._open_block({**block, "input": {}})
        return (*start, self._delta_frame("input_json_delta", "partial_json", jsontext.dumps(value)))

    def _delta_frame(self, kind: str, key: str, text: str) -> Frame:
        delta = {"type": kind, key: text}
        return _frame({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        requests = count_requests(self._foreign) if self._foreign else None
        blocks: list[Frame] = []
        if self._cited and not requests:
            search = encode_search(self._id, self._cited, self._request, self._losses)
            requests = count_requests(search)
            for block in search:
                blocks += (*self._filled_block(block), self._block_stop())
        native = own(event.extras, PROTOCOL_NAME) or {**(self._extras or {}), "usage": None}
        refusal = None if self._refusal is None else "".join(self._refusal)
        delta = encode_stop(event.stop, refusal, native=self._extras is not None)
        for key in _IN_DELTA:
            if key in native:
                delta[key] = native[key]
        done = encode_management(self._request) if self._extras is None else {}
        if "stop_reason" in done:
            delta["stop_reason"] = done["stop_reason"]
        usage = native.get("usage") or self._final_usage(event, requests)
        end: Wire = {"type": "message_delta", "delta": delta, "usage": usage}
        for key, value in (*native.items(), *done.items()):
            if key in _BESIDE_DELTA:
                end[key] = value
        return (*blocks, _frame(end), _frame({"type": "message_stop"}))

    def _final_usage(self, event: ResponseEnd, requests: Wire | None) -> Wire:
        """Claude Code keeps the count of message_start where the last one is 0: a prompt that was read from
        the cache as a whole would count twice. So one of its tokens counts as read anew."""
        usage = event.usage or self._usage
        wire = encode_usage(usage, requests, event.rounds)
        for name in _AT_THE_START:
            wire.pop(name, None)
        if self._usage.input > self._usage.cached and not wire["input_tokens"] and usage.cached:
            wire |= {"input_tokens": 1, "cache_read_input_tokens": usage.cached - 1}
        return wire


_IN_DELTA = "stop_details", "container"
_BESIDE_DELTA = "context_management", "input_transformations"
_AT_THE_START = "cache_creation", "service_tier", "inference_geo", "speed"  # counts that are not repeated


def _empty_block(part: AnyPart) -> Wire:
    """The block that content_block_start opens for `part`."""
    extras = own(part.extras, PROTOCOL_NAME)
    match part:
        case ToolCall():
            added = extras if is_native(part) else {"caller": {"type": "direct"}}
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}, **added}
        case Reasoning():
            return {"type": "thinking", "thinking": "", "signature": "", **extras}
        case _:
            return {"type": "text", "text": "", **(extras if is_native(part) else {"citations": None})}


def _frame(body: Wire) -> Frame:
    return Frame(body["type"], body)


_PING = _frame({"type": "ping"})
