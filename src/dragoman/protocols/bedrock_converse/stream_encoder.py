"""Neutral events -> events of ConverseStream. Parts come in a row, so one block is open at a time."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.codec import Frame
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.fields import own
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Refusal, Request, Text, ToolCall, Usage, Wire
from dragoman.core.seal import seal_state
from dragoman.protocols.bedrock_converse.errors import encode_error
from dragoman.protocols.bedrock_converse.parts import encode_citation
from dragoman.protocols.bedrock_converse.response import (
    encode_reason,
    encode_reply_part,
    encode_usage,
    report_reasoning,
)
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._blocks = 0
        self._part: AnyPart | None = None
        self._open = False
        self._extras: Wire = {}

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case ResponseStart():
                self._extras |= own(event.extras, PROTOCOL_NAME)
                return (Frame("messageStart", {"role": "assistant"}),)
            case PartStart():
                return self._start(event.part)
            case PartDelta():
                return self._fill(event)
            case PartEnd():
                return self._end_block(event)
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                _, body = encode_error(event.failure)
                return (Frame(str(body.pop("__type")), body),)
            case _:
                return ()

    def close(self) -> Iterable[Frame]:
        return ()

    def _start(self, part: AnyPart) -> Iterable[Frame]:
        self._part, self._open = part, False
        match part:
            case ToolCall():
                self._open = True
                start = {"toolUse": {"toolUseId": part.id, "name": part.name}}
                return (self._frame("contentBlockStart", {"start": start}),)
            case Text() | Reasoning() | Refusal():
                return ()  # begins with its first delta
            case _:
                return self._whole(part)

    def _whole(self, part: AnyPart) -> Iterable[Frame]:
        """An image comes whole; nothing else has a form in a stream."""
        for block in encode_reply_part(part, self._losses):
            if image := block.get("image"):
                self._open = True
                yield self._frame("contentBlockStart", {"start": {"image": {"format": image["format"]}}})
                yield self._frame("contentBlockDelta", {"delta": {"image": {"source": image["source"]}}})
            else:
                kind = next(iter(block), "part")
                self._losses.dropped(part.where or kind, "Bedrock streams no such block.", "part.unknown")

    def _fill(self, event: PartDelta) -> Iterable[Frame]:
        for delta in _deltas(self._part, event):
            self._open = True
            yield self._frame("contentBlockDelta", {"delta": delta})

    def _end_block(self, event: PartEnd) -> Iterable[Frame]:
        if not event.complete:
            where = self._part.where if self._part else ""
            why = "The reply was cut inside this call, so it must not run."
            self._losses.dropped(where or "tool call", why, "call.incomplete")
        if not self._open:
            return ()
        self._open, frame = False, self._frame("contentBlockStop", {})
        self._blocks += 1
        return (frame,)

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        extras = self._extras | own(event.extras, PROTOCOL_NAME)
        native = event.extras is not None and PROTOCOL_NAME in event.extras
        stop: Wire = {"stopReason": encode_reason(event.stop, native)}
        if fields := extras.pop("additionalModelResponseFields", None):
            stop["additionalModelResponseFields"] = fields
        report_reasoning(event.usage, self._losses)
        usage = encode_usage(event.usage or Usage())
        metadata = {"usage": usage, "metrics": {"latencyMs": 0}} | extras
        return (Frame("messageStop", stop), Frame("metadata", metadata))

    def _frame(self, name: str, fields: Wire) -> Frame:
        return Frame(name, {"contentBlockIndex": self._blocks, **fields})


def _deltas(part: AnyPart | None, event: PartDelta) -> Iterable[Wire]:
    """What a delta adds to its part; a signature and a citation are deltas of their own."""
    if event.text:
        match part:
            case ToolCall():
                yield {"toolUse": {"input": event.text}}
            case Reasoning():
                yield {"reasoningContent": {"text": event.text}}
            case _:
                yield {"text": event.text}
    if event.state and isinstance(part, Reasoning):
        data = seal_state(event.state, PROTOCOL_NAME)
        yield {"reasoningContent": {"redactedContent" if part.hidden else "signature": data}}
    if event.citation:
        yield {"citation": encode_citation(event.citation)}
