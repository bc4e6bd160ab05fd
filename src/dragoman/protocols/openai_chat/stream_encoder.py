"""Neutral events -> chunks.

    start --ResponseStart--> headed --first part or end--> open --ResponseEnd--> finish chunk, usage, [DONE]
    any   --ResponseFailed--> an error chunk, without [DONE] (G14)

The first chunk has the role. Each call sends id and name once and counts from 0. The finish reason has a
chunk of its own, followed by the usage where the client wants it.
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
from dragoman.core.fields import own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
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
from dragoman.protocols.openai_chat.calls import encode_call_state
from dragoman.protocols.openai_chat.errors import encode_error
from dragoman.protocols.openai_chat.parts import encode_citation, encode_details, encode_part
from dragoman.protocols.openai_chat.response import declares_functions, encode_id, encode_stop, encode_usage
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME

_DONE = Frame("", b"[DONE]")
_FIELDS: dict[type, str] = {Text: "content", Reasoning: "reasoning_content", Refusal: "refusal"}


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses = losses
        self._model = request.model if request else ""
        self._wants_usage = _wants_usage(request)
        self._legacy = declares_functions(request)
        self._head: Wire = {}
        self._fresh = True  # no chunk was sent yet; the first one has the role
        self._part: AnyPart | None = None
        self._field = ""
        self._texts: list[str] = []
        self._state: State | None = None
        self._calls = self._details = self._images = 0
        self._unsigned: list[Wire] = []  # details of reasoning without state, while none with state came
        self._length = self._begin = 0  # of the content so far, and where its open part begins
        self._citations: list[Citation] = []
        self._annotations: list[Wire] = []
        self._cited = 0  # annotations that were sent
        self._refused = False
        self._usage: Usage | None = None

    def feed(self, event: Event, /) -> Iterable[Frame]:
        match event:
            case PartDelta():
                return self._fill(event)
            case PartStart(_, part):
                return self._start_part(part)
            case PartEnd():
                return self._end_part(event.complete)
            case ResponseStart():
                return self._start(event)
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                return (Frame("", encode_error(event.failure)[1]),)
            case KeepAlive() if not self._head:  # a chunk needs the id of the response
                return ()
            case KeepAlive():
                return (self._chunk({"content": ""} if self._fresh else {}),)

    def close(self) -> Iterable[Frame]:
        return ()

    def _start(self, event: ResponseStart) -> Iterable[Frame]:
        self._usage = event.usage
        self._head = {
            "id": encode_id(event.id),
            "object": "chat.completion.chunk",
            "created": event.created,
            "model": event.model or self._model,
        }
        return ()

    def _chunk(self, delta: Wire, finish: str | None = None) -> Frame:
        if self._fresh:
            self._fresh = False
            delta = {"role": "assistant", **delta}
        return Frame("", {**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _start_part(self, part: AnyPart) -> Iterable[Frame]:
        if self._annotations and type(part) is not Text:
            return (*self._flush_annotations(), *self._open_part(part))
        return self._open_part(part)

    def _open_part(self, part: AnyPart) -> Iterable[Frame]:
        self._part, self._state = part, part.state
        self._field = _FIELDS.get(type(part), "")
        self._texts, self._citations, self._begin = [], [], self._length
        match part:
            case ToolCall():
                return self._start_call(part)
            case Media(kind="image"):
                image = {**encode_part(part, self._losses), "index": self._images}
                self._images += 1
                return (self._chunk({"images": [image]}),)
            case Foreign() if part.origin == PROTOCOL_NAME and "type" not in part.body:
                return (self._chunk(part.body),)
            case Media():
                self._losses.dropped(
                    part.where or part.kind, f"Chat has no {part.kind} in a reply.", f"media.{part.kind}"
                )
            case Text() if self._calls:
                self._losses.changed(
                    part.where or "text", "Chat puts the text of a message before its calls.", "message.order"
                )
            case _:
                self._refused |= isinstance(part, Refusal)
        return ()

    def _start_call(self, call: ToolCall) -> Iterable[Frame]:
        first: Wire = {"content": None} if self._fresh else {}
        self._calls += 1
        if self._legacy:
            if self._calls > 1:
                self._losses.dropped(
                    call.where or call.name,
                    "A client that declares functions takes one call at a time.",
                    "call.parallel",
                )
                return ()
            return (self._chunk({**first, "function_call": {"name": call.name, "arguments": ""}}),)
        kind, key = _kind(call)
        entry = {"index": self._calls - 1, "id": call.id, "type": kind, kind: {"name": call.name, key: ""}}
        return (self._chunk({**first, "tool_calls": [entry]}),)

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        text, field = delta.text, self._field
        if delta.state:
            self._state = delta.state
        if delta.citation:
            self._citations.append(delta.citation)
        if not text:
            return ()
        if field == "content":
            self._length += len(text)
            return (self._chunk({"content": text}),)
        self._texts.append(text)
        return (self._chunk({field: text}),) if field else self._fill_call(text)

    def _fill_call(self, text: str) -> Iterable[Frame]:
        call = self._part
        if not isinstance(call, ToolCall):
            return ()
        if self._legacy:
            return (self._chunk({"function_call": {"arguments": text}}),) if self._calls == 1 else ()
        kind, key = _kind(call)
        return (self._chunk({"tool_calls": [{"index": self._calls - 1, kind: {key: text}}]}),)

    def _end_part(self, complete: bool) -> Iterable[Frame]:
        match part := self._part:
            case ToolCall():
                return self._end_call(part, complete)
            case Reasoning():
                return self._end_reasoning(part)
            case Text():
                if 0 < self._begin < self._length:
                    self._losses.changed(
                        part.where or "text", "It was joined to the text before it.", "text.join"
                    )
                self._cite()
                return ()
            case _:
                return ()

    def _end_reasoning(self, part: Reasoning) -> Iterable[Frame]:
        """Once some reasoning has state, all of it comes back in the details."""
        reasoning = replace(part, text="".join(self._texts), state=self._state)
        place = self._details + len(self._unsigned)
        entries = [*self._unsigned, *encode_details(reasoning, place, self._length > 0)]
        if not self._state and not self._details:
            self._unsigned = entries
            return ()
        self._unsigned = []
        self._details += len(entries)
        return (self._chunk({"reasoning_details": entries}),)

    def _end_call(self, call: ToolCall, complete: bool) -> Iterable[Frame]:
        """A call without arguments gets `{}`; its signature follows in a chunk of its own."""
        frames: list[Frame] = []
        if complete and not self._texts and call.kind != "custom":
            frames += self._fill_call("{}")
        if self._state and not self._legacy:
            kind, key = _kind(call)
            signed: Wire = {"index": self._calls - 1, kind: {key: ""}, **encode_call_state(self._state)}
            frames.append(self._chunk({"tool_calls": [signed]}))
        return frames

    def _cite(self) -> None:
        """Annotations are sent at once, where their text ends: a decoder adds them to the open text."""
        length = self._length - self._begin
        for citation in self._citations:
            if annotation := encode_citation(citation, self._begin, length):
                self._annotations.append(annotation)

    def _flush_annotations(self) -> tuple[Frame, ...]:
        """SDKs replace nothing and append only entries with an `index`, which a second list therefore has."""
        found, self._annotations = self._annotations, []
        if not found:
            return ()
        if self._cited:
            found = [{**entry, "index": self._cited + i} for i, entry in enumerate(found)]
        self._cited += len(found)
        return (self._chunk({"annotations": found}),)

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        if self._fresh:
            yield self._chunk({"content": ""})
        yield from self._flush_annotations()
        yield self._chunk({}, encode_stop(event.stop, self._refused, self._legacy))
        if self._wants_usage and (usage := event.usage or self._usage):
            yield Frame("", {**self._head, "choices": [], "usage": encode_usage(usage)})
        yield _DONE


def _kind(call: ToolCall) -> tuple[str, str]:
    return ("custom", "input") if call.kind == "custom" else ("function", "arguments")


def _wants_usage(request: Request | None) -> bool:
    """A Chat client gets the usage chunk if it requests one; without a request it is always sent."""
    if request is None or request.extras is None or PROTOCOL_NAME not in request.extras:
        return True
    extras = own(request.extras, PROTOCOL_NAME)
    options, usage = extras.get("stream_options"), extras.get("usage")
    return (is_object(options) and options.get("include_usage") is True) or (
        is_object(usage) and usage.get("include") is True
    )
