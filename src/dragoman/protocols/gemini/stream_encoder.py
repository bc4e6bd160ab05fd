"""Neutral events -> stream chunks.

Every chunk is complete in itself: texts go out as they come, calls only when they are whole (G10), and
the state of a text, which is known last, in an empty text after it.
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
from dragoman.protocols.gemini.grounding import encode_grounding
from dragoman.protocols.gemini.http import encode_error
from dragoman.protocols.gemini.parts import encode_part, signed
from dragoman.protocols.gemini.response import encode_names, encode_stop, encode_usage
from dragoman.protocols.gemini.wire import CUT_CALL


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._names = encode_names("", "")
        self._part: AnyPart | None = None
        self._said: list[str] = []
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
                self._said, self._citations = [], []
                self._thought = {"thought": True} if isinstance(part, Reasoning) else {}
                self._refused |= isinstance(part, Refusal)
                return ()
            case PartEnd():
                return self._finish_part(event.complete)
            case ResponseStart():
                self._names = encode_names(event.id, event.model)
                self._usage = event.usage or self._usage
                return ()
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                return (Frame("", encode_error(event.failure)[1]),)
            case KeepAlive():
                return ()  # a chunk must have something to say; the gateway sends blank lines

    def close(self) -> Iterable[Frame]:
        return ()

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        if delta.state:
            self._state = delta.state
        if delta.citation:
            self._citations.append(delta.citation)
        if not delta.text:
            return ()
        self._said.append(delta.text)
        if isinstance(self._part, ToolCall):
            return ()
        return (self._chunk({"text": delta.text, **self._thought}),)

    def _finish_part(self, complete: bool) -> Iterable[Frame]:
        """A text is followed by its state; everything else was held back until now."""
        part, said = self._part, "".join(self._said)
        match part:
            case Text() | Reasoning() | Refusal():
                if isinstance(part, Text):
                    self._cited.append((said, self._citations))
                return (
                    (self._chunk(signed({"text": "", **self._thought}, self._state)),) if self._state else ()
                )
            case ToolCall() if not complete:
                self._losses.dropped("tool call", CUT_CALL)
                return ()
            case ToolCall():
                part = replace(part, arguments=said, state=self._state)
            case None:
                return ()
            case _:
                part = replace(part, state=self._state)
        return [self._chunk(wire) for wire in encode_part(part, self._losses)]

    def _chunk(self, part: Wire) -> Frame:
        content = {"parts": [part], "role": "model"}
        return Frame("", {"candidates": [{"content": content, "index": 0}], **self._names})

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        """An empty text, as Google's last chunks have: google-genai forgets turns with empty contents."""
        candidate: Wire = {
            "content": {"parts": [{"text": ""}], "role": "model"},
            "finishReason": encode_stop(event.stop, self._refused),
            "index": 0,
            **encode_grounding(self._cited, self._losses),
        }
        usage = encode_usage(event.usage or self._usage)
        return (Frame("", {"candidates": [candidate], "usageMetadata": usage, **self._names}),)
