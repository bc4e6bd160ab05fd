"""Neutral events -> stream events.

    ResponseStart          interaction.created
    PartStart, PartDelta   step.start (a call at once, text and thoughts with their first piece), step.delta
    PartEnd                what a text or a thought ends with (sources, signature), step.stop; a call that was
                           cut gets no stop, because agents run a call when its step is whole
    ResponseEnd            interaction.completed with status and usage, then [DONE]
    ResponseFailed         error

Each part is a step of its own. Media, and steps that only this protocol has, come whole.
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
from dragoman.core.jsontext import dumps
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Media,
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
from dragoman.protocols.gemini_interactions.errors import encode_failure
from dragoman.protocols.gemini_interactions.parts import encode_annotations, encode_block
from dragoman.protocols.gemini_interactions.response import (
    encode_stop,
    encode_usage,
    frame_interaction,
    lacks_thought,
)
from dragoman.protocols.gemini_interactions.wire import CUT_CALL, PROTOCOL_NAME
from dragoman.transforms.arguments import as_object, is_begun_object


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._model = request.model if request else ""
        self._lacks_thought = lacks_thought(request)
        self._interaction: Wire = {}
        self._usage = Usage()
        self._index = -1  # of the last step
        self._part: AnyPart | None = None
        self._is_open = False
        self._streams = False  # whether the arguments of the call go out as they come
        self._texts: list[str] = []
        self._citations: list[Citation] = []
        self._state: State | None = None

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case PartDelta():
                return self._fill(event)
            case PartStart(_, part):
                return self._begin(part)
            case PartEnd(_, complete):
                return self._end_part(complete)
            case ResponseStart():
                self._usage = event.usage or Usage()
                self._interaction = frame_interaction(event.id, event.model or self._model, event.created)
                return (_event("interaction.created", {"interaction": self._interaction}),)
            case ResponseEnd():
                usage = {"usage": encode_usage(event.usage or self._usage)}
                body = {"interaction": {**self._interaction, **encode_stop(event.stop), **usage}}
                return (_event("interaction.completed", body), Frame("done", b"[DONE]"))
            case ResponseFailed():
                return (_event("error", {"error": encode_failure(event.failure)}),)
            case KeepAlive():
                return ()

    def close(self) -> Iterable[Frame]:
        return ()

    # Parts

    def _begin(self, part: AnyPart) -> Iterable[Frame]:
        self._part, self._state, self._is_open = part, part.state, False
        self._texts, self._citations, self._streams = [], [], True
        before: tuple[Frame, ...] = ()
        if self._lacks_thought:
            self._lacks_thought = False
            before = () if isinstance(part, Reasoning) else self._whole({"type": "thought"})
        return (*before, *self._open()) if isinstance(part, ToolCall) else before

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        text = delta.text
        if delta.state:
            self._state = delta.state
        if delta.citation:
            self._citations.append(delta.citation)
        if not text or self._part is None:
            return ()
        is_first = not self._texts
        self._texts.append(text)
        if isinstance(self._part, ToolCall):
            if is_first:  # what is no object goes out when it is whole, inside of one
                self._streams = is_begun_object(text)
            return (self._delta({"type": "arguments_delta", "arguments": text}),) if self._streams else ()
        opened = () if self._is_open else self._open()
        if isinstance(self._part, Reasoning):
            content = {"type": "text", "text": text}
            return (*opened, self._delta({"type": "thought_summary", "content": content}))
        return (*opened, self._delta({"type": "text", "text": text}))

    def _open(self) -> tuple[Frame, ...]:
        self._index, self._is_open = self._index + 1, True
        match self._part:
            case ToolCall(id, name):
                step: Wire = {"type": "function_call", "id": id, "name": name, "arguments": {}}
            case Reasoning():
                step = {"type": "thought"}
            case _:
                step = {"type": "model_output"}
        return (_event("step.start", {"index": self._index, "step": step}),)

    def _end_part(self, complete: bool) -> Iterable[Frame]:
        match part := self._part:
            case ToolCall() if not complete:
                self._losses.dropped(part.where or "tool call", CUT_CALL, "call.incomplete")
                return ()
            case ToolCall() if not self._streams:
                arguments = as_object(replace(part, arguments="".join(self._texts)), self._losses)
                delta = self._delta({"type": "arguments_delta", "arguments": dumps(arguments)})
                return (delta, self._stop())
            case ToolCall():
                return (self._stop(),)
            case Reasoning() if self._state:
                opened = () if self._is_open else self._open()
                signature = seal_state(self._state, PROTOCOL_NAME)
                signed = self._delta({"type": "thought_signature", "signature": signature})
                return (*opened, signed, self._stop())
            case Text() if self._citations:
                return self._end_cited(replace(part, text="".join(self._texts)))
            case Text() | Refusal() | Reasoning():
                return (self._stop(),) if self._is_open else ()
            case None:
                return ()
            case _:
                blocks = encode_block(part, self._losses)
                return [frame for wire in blocks for frame in self._come_whole(part, wire)]

    def _end_cited(self, part: Text) -> Iterable[Frame]:
        """Sources stand behind a text, if only an empty one: readers add them to it."""
        opened = () if self._is_open else (*self._open(), self._delta({"type": "text", "text": ""}))
        notes = encode_annotations(replace(part, citations=tuple(self._citations)), self._losses)
        if not notes:
            return (*opened, self._stop())
        return (*opened, self._delta({"type": "text_annotation_delta", "annotations": notes}), self._stop())

    def _come_whole(self, part: AnyPart, wire: Wire) -> Iterable[Frame]:
        """A block of media is a delta; a step of a hosted tool has all its fields when it starts."""
        if not isinstance(part, Media):
            return self._whole(wire)
        return (*self._open(), self._delta(wire), self._stop())

    def _whole(self, step: Wire) -> tuple[Frame, ...]:
        self._index += 1
        return (_event("step.start", {"index": self._index, "step": step}), self._stop())

    def _delta(self, delta: Wire) -> Frame:
        return _event("step.delta", {"index": self._index, "delta": delta})

    def _stop(self) -> Frame:
        return _event("step.stop", {"index": self._index})


def _event(kind: str, body: Wire) -> Frame:
    return Frame(kind, {"event_type": kind, **body})
