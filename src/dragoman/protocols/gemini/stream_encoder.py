"""Neutral events -> stream chunks.

Every chunk is a whole response object. States of a part:

    none --PartStart--> open               nothing is sent
    open --PartDelta of a text--> open     a chunk with the text
    open --PartDelta of a call--> open     nothing: a call is sent when it is complete (G10: vercel/ai#16838)
    open --PartEnd--> none                 the call; or, where a text has state, an empty text that carries it

ResponseEnd sends the last chunk, with finishReason, usage and sources; ResponseFailed one with the error.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

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
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Reasoning,
    Refusal,
    Request,
    State,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.gemini.hosted import encode_grounding
from dragoman.protocols.gemini.parts import encode_part, signed
from dragoman.protocols.gemini.response import encode_names, encode_stop, encode_usage
from dragoman.protocols.gemini.wire import CUT_CALL
from dragoman.protocols.google import encode_error


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._model = request.model if request else ""
        self._names = encode_names("", self._model)
        self._part: AnyPart | None = None
        self._pieces: list[str] = []
        self._state: State | None = None
        self._citations: list[Citation] = []
        self._cited: list[tuple[str, list[Citation]]] = []
        self._thought: Wire = {}
        self._refused = False
        self._usage = Usage()

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case PartDelta():
                return self._fill(event)
            case PartStart(_, part):
                self._part, self._state = part, part.state
                self._pieces, self._citations = [], []
                self._thought = {"thought": True} if isinstance(part, Reasoning) else {}
                self._refused |= isinstance(part, Refusal)
                return ()
            case PartEnd():
                return self._finish_part(event.complete)
            case ResponseStart():
                self._names = encode_names(event.id, event.model or self._model)
                self._usage = event.usage or self._usage
                return ()
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                return (Frame("", encode_error(event.failure)[1]),)
            case KeepAlive():
                return ()  # google-genai takes no comments and no empty chunks; the gateway sends blank lines

    def close(self) -> Iterable[Frame]:
        return ()

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        if delta.state:
            self._state = delta.state
        if delta.citation:
            self._citations.append(delta.citation)
        if not delta.text:
            return ()
        self._pieces.append(delta.text)
        if isinstance(self._part, ToolCall):
            return ()
        return (self._chunk({"text": delta.text, **self._thought}),)

    def _finish_part(self, complete: bool) -> Iterable[Frame]:
        """A text is followed by its state; every other part is sent now."""
        part, text = self._part, "".join(self._pieces)
        match part:
            case Text() | Reasoning() | Refusal():
                if isinstance(part, Text):
                    self._cited.append((text, self._citations))
                return (
                    (self._chunk(signed({"text": "", **self._thought}, self._state)),) if self._state else ()
                )
            case ToolCall() if not complete:
                self._losses.dropped(part.where or "tool call", CUT_CALL, "call.incomplete")
                return ()
            case ToolCall():
                part = replace(part, arguments=text, state=self._state)
            case None:
                return ()
            case _:
                part = replace(part, state=self._state)
        return [self._chunk(wire) for wire in encode_part(part, self._losses)]

    def _chunk(self, part: Wire) -> Frame:
        content = {"parts": [part], "role": "model"}
        return Frame("", {"candidates": [{"content": content, "index": 0}], **self._names})

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        """With an empty text, as in Google's last chunks: google-genai drops turns with empty contents."""
        candidate: Wire = {
            "content": {"parts": [{"text": ""}], "role": "model"},
            "finishReason": encode_stop(event.stop, self._refused),
            "index": 0,
            **encode_grounding(self._cited, self._losses),
        }
        usage = encode_usage(event.usage or self._usage)
        return (Frame("", {"candidates": [candidate], "usageMetadata": usage, **self._names}),)
