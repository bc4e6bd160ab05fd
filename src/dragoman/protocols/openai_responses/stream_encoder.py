"""Neutral events -> stream events.

    ResponseStart          response.created, response.in_progress
    PartStart, PartDelta   output_item.added (a call at once, other parts with their first text), inner part
                           .added, then deltas; some items are only sent whole, when they end
    PartEnd                .done of the text and of the inner part, output_item.done; a call that was cut gets
                           no .done, because agents run a call when its item is done, whatever its status
    ResponseEnd            response.completed or response.incomplete, which repeats all items
    ResponseFailed         response.failed, the only error event that Codex reads (G16: codex-proxy-rs#90)

Each part is an item of its own, and every event has the next `sequence_number` (G18).

The item of a hosted tool has events of its own between added and done. It may come twice: in progress, which
opens it, and finished, at the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import with_encoded_tools
from dragoman.core.codec import Frame, KeepAliveEvents
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
from dragoman.framing import sse
from dragoman.protocols.openai_responses.errors import encode_failure
from dragoman.protocols.openai_responses.hosted import claimed
from dragoman.protocols.openai_responses.parts import encode_citations
from dragoman.protocols.openai_responses.response import (
    encode_id,
    encode_item,
    encode_stop,
    encode_tool_usage,
    encode_usage,
    frame_response,
    item_id,
    opened_item,
)
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME


class _ItemForm(Struct, frozen=True):
    """The events that fill an item: `field` holds the text in `done` and in `inner`.

    An `inner` part is announced by `outer`.added, numbered by `number` and ended by `outer`.done.
    """

    delta: str
    done: str
    field: str
    outer: str = ""
    number: str = ""
    inner: Wire = {}
    more: Wire = {}


class _HostedForm(Struct, frozen=True):
    """The events of a hosted tool's item: `running` while it is in progress, then `response.TYPE.` and its
    status, where that is one of `ends`. `empty`: fields that are not known when it opens."""

    running: tuple[str, ...]
    ends: tuple[str, ...] = ("completed",)
    empty: Wire = {}


_HOSTED = {
    "web_search_call": _HostedForm(("in_progress", "searching")),
    "mcp_call": _HostedForm(("in_progress",), ("completed", "failed"), {"arguments": "", "output": None}),
    "mcp_list_tools": _HostedForm(("in_progress",), ("completed", "failed"), {"tools": []}),
}
_ARGUMENTS = "response.function_call_arguments"
_INPUT = "response.custom_tool_call_input"
_TEXT = "response.output_text"
_REFUSAL = "response.refusal"
_SUMMARY = "response.reasoning_summary_text"
_FORMS: dict[Any, _ItemForm] = {  # by the kind of a call, or the type of a part
    "function": _ItemForm(f"{_ARGUMENTS}.delta", f"{_ARGUMENTS}.done", "arguments"),
    "custom": _ItemForm(f"{_INPUT}.delta", f"{_INPUT}.done", "input"),
    Text: _ItemForm(
        f"{_TEXT}.delta",
        f"{_TEXT}.done",
        "text",
        "response.content_part",
        "content_index",
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
        {"logprobs": []},
    ),
    Refusal: _ItemForm(
        f"{_REFUSAL}.delta",
        f"{_REFUSAL}.done",
        "refusal",
        "response.content_part",
        "content_index",
        {"type": "refusal", "refusal": ""},
    ),
    Reasoning: _ItemForm(
        f"{_SUMMARY}.delta",
        f"{_SUMMARY}.done",
        "text",
        "response.reasoning_summary_part",
        "summary_index",
        {"type": "summary_text", "text": ""},
    ),
}


def _form(part: AnyPart) -> _ItemForm | None:
    """How the item of `part` is filled; None for one that comes whole."""
    if own(part.extras, PROTOCOL_NAME).get("type") == "tool_search_call":
        return None
    return _FORMS.get(part.kind if isinstance(part, ToolCall) else type(part))


class StreamEncoder:
    def __init__(self, losses: Losses, request: Request | None = None) -> None:
        self._losses, self._request = losses, request
        self._sequence = -1
        self._response: Wire = {}
        self._usage, self._created = Usage(), 0
        self._output: list[Wire] = []
        self._running: dict[str, int] = {}  # items of hosted tools in progress, with their places
        self._refused = False
        self._part: AnyPart | None = None
        self._form: _ItemForm | None = None  # set while the item of the part is open
        self._place: Wire = {}
        self._template: Wire = {}
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
                return self._start(event)
            case ResponseEnd():
                return self._end(event)
            case ResponseFailed():
                return self._fail(event)
            case KeepAlive():  # an SSE comment is no frame, and an unknown event breaks clients
                return ()

    def close(self) -> Iterable[Frame]:
        return ()

    def skip_numbers(self, count: int) -> None:
        """So many events went to the client without passing here."""
        self._sequence += count

    # The response

    def _start(self, event: ResponseStart) -> Iterable[Frame]:
        self._usage, self._created = event.usage or Usage(), event.created
        response = frame_response(encode_id(event.id), event.model, event.created, self._request)
        self._response = with_encoded_tools(response, self._request.tools if self._request else ())
        body = {"response": self._response}
        return (self._frame("response.created", body), self._frame("response.in_progress", body))

    def _end(self, event: ResponseEnd) -> Iterable[Frame]:
        ended = encode_stop(event.stop, self._created, self._refused)
        filled = {"output": self._output, "usage": encode_usage(event.usage or self._usage)}
        filled |= encode_tool_usage(self._output)
        return (
            self._frame(f"response.{ended['status']}", {"response": {**self._response, **ended, **filled}}),
        )

    def _fail(self, event: ResponseFailed) -> Iterable[Frame]:
        """`response.failed`: the SDK passes it on, while it raises an exception at an `error` event."""
        model = self._request.model if self._request else ""
        begun = () if self._response else self._start(ResponseStart("", model))
        failed = {"status": "failed", "error": encode_failure(event.failure), "output": self._output}
        return (*begun, self._frame("response.failed", {"response": {**self._response, **failed}}))

    # Parts

    def _begin(self, part: AnyPart) -> Iterable[Frame]:
        part = claimed(part, self._request, item_id(part, self._response.get("id", ""), len(self._output)))
        self._part, self._form, self._state = part, None, part.state
        self._texts, self._citations = [], []
        return self._open(part) if isinstance(part, ToolCall) else ()

    def _fill(self, delta: PartDelta) -> Iterable[Frame]:
        text = delta.text
        if text and self._form is not None:
            self._texts.append(text)
            self._sequence += 1
            return (
                Frame(self._form.delta, {**self._template, "delta": text, "sequence_number": self._sequence}),
            )
        if delta.state:
            self._state = delta.state
        if delta.citation:
            self._citations.append(delta.citation)
        if not text or self._part is None:
            return ()
        opened = self._open(self._part)
        if self._form is None:
            self._texts.append(text)
            return ()
        return (*opened, *self._fill(PartDelta(delta.index, text)))

    def _open(self, part: AnyPart) -> tuple[Frame, ...]:
        """Announce the item and the inner part that deltas fill; an item without a form is sent whole."""
        form = self._form = _form(part)
        if form is None:
            return ()
        index = len(self._output)
        id = item_id(part, self._response.get("id", ""), index)
        self._place = {"item_id": id, "output_index": index}
        item = self._frame(
            "response.output_item.added", {"output_index": index, "item": opened_item(part, id, self._losses)}
        )
        if form.number:
            self._place[form.number] = 0
        self._template = {"type": form.delta, **self._place, **form.more}
        return (item, self._placed(f"{form.outer}.added", {"part": form.inner})) if form.outer else (item,)

    def _end_part(self, complete: bool) -> Iterable[Frame]:
        part, form = self._filled(complete), self._form
        self._part = self._form = None
        if part is None:
            return ()
        id = (
            self._place["item_id"] if form else item_id(part, self._response.get("id", ""), len(self._output))
        )
        cut = isinstance(part, ToolCall) and not complete
        if cut and not form:
            self._losses.dropped(
                part.where or "tool call",
                "The reply was cut inside this call, so it must not run.",
                "call.incomplete",
            )
            return ()
        item = encode_item(part, id, self._losses)
        if item is None:
            return ()
        kind = item.get("type")
        if isinstance(kind, str) and (hosted := _HOSTED.get(kind)):
            return self._hosted_item(item, hosted)
        self._output.append(item)
        self._refused |= isinstance(part, Refusal)
        if cut:  # agents run a call when its item is done, whatever its status says
            return ()
        return (
            self._finish(form, part, item)
            if form
            else (self._item_frame("added", item), self._item_frame("done", item))
        )

    def _hosted_item(self, item: Wire, form: _HostedForm) -> Iterable[Frame]:
        """The events of an item that opens, that finishes, or both."""
        kind, id, status = item["type"], str(item.get("id")), item.get("status")
        frames: list[Frame] = []
        index = self._running.pop(id, -1)
        if index < 0:
            index = len(self._output)
            self._output.append(item)
            opened = item | {key: value for key, value in form.empty.items() if key in item}
            opened |= {"status": "in_progress"} if "status" in item else {}
            frames = self._opened_hosted(opened, index, item.get("arguments"), form)
        place = {"item_id": id, "output_index": index}
        if status == "in_progress":
            self._running[id] = index
            return frames
        self._output[index] = item
        end = "failed" if item.get("error") else status or "completed"
        if end in form.ends:
            frames.append(self._frame(f"response.{kind}.{end}", place))
        done = {"output_index": index, "item": item}
        return (*frames, self._frame("response.output_item.done", done))

    def _opened_hosted(self, item: Wire, index: int, arguments: Any, form: _HostedForm) -> list[Frame]:
        kind, place = item["type"], {"item_id": str(item.get("id")), "output_index": index}
        frames = [self._frame("response.output_item.added", {"output_index": index, "item": item})]
        frames += [self._frame(f"response.{kind}.{step}", place) for step in form.running]
        if "arguments" in form.empty and arguments:
            frames.append(self._frame(f"response.{kind}_arguments.delta", {**place, "delta": arguments}))
            frames.append(self._frame(f"response.{kind}_arguments.done", {**place, "arguments": arguments}))
        return frames

    def _finish(self, form: _ItemForm, part: AnyPart, item: Wire) -> Iterable[Frame]:
        text = item.get(form.field, "") if isinstance(part, ToolCall) else "".join(self._texts)
        inner = {**form.inner, form.field: text}
        frames: list[Frame] = []
        if not self._texts and text:  # `{}` of a call without arguments
            frames.append(self._frame(form.delta, {**self._template, "delta": text}))
        if isinstance(part, Text) and part.citations:
            inner["annotations"] = encode_citations(part, self._losses)
            for i, annotation in enumerate(inner["annotations"]):
                added = {"annotation_index": i, "annotation": annotation}
                frames.append(self._placed(f"{_TEXT}.annotation.added", added))
        named = {"name": part.name} if isinstance(part, ToolCall) and part.kind == "function" else {}
        frames.append(self._placed(form.done, {**named, form.field: text, **form.more}))
        if form.outer:
            frames.append(self._placed(f"{form.outer}.done", {"part": inner}))
        frames.append(self._item_frame("done", item))
        return frames

    def _filled(self, complete: bool) -> AnyPart | None:
        text = "".join(self._texts)
        match part := self._part:
            case Text():
                return replace(part, text=text, citations=tuple(self._citations))
            case Refusal():
                return replace(part, text=text)
            case Reasoning():
                return replace(part, text=text, state=self._state)
            case ToolCall():
                return replace(part, arguments=text, complete=complete)
            case _:
                return part

    # Frames

    def _frame(self, kind: str, body: Wire) -> Frame:
        self._sequence += 1
        return Frame(kind, {"type": kind, **body, "sequence_number": self._sequence})

    def _placed(self, kind: str, body: Wire) -> Frame:
        return self._frame(kind, {**self._place, **body})

    def _item_frame(self, what: str, item: Wire) -> Frame:
        return self._frame(
            f"response.output_item.{what}", {"output_index": len(self._output) - 1, "item": item}
        )


_NUMBER = re.compile(rb'"sequence_number":\s*(\d{1,18})\b')  # more digits would not be a count
_NAMED = re.compile(rb'"response":\s*{\s*"id":\s*"([^"]+)"')
# The last: of an answer whose `response.created` became one, as an opening went out before it (`_join`)
_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")


def continued(frame: Frame, first: bytes, last: bytes) -> Frame:
    """Fit a frame of ours to the end of an upstream's stream: its next number, and the same response id."""
    numbers, named = _NUMBER.findall(last), _NAMED.search(first)
    data = dict(frame.data)
    if numbers:
        data["sequence_number"] = int(numbers[-1]) + 1
    if named:
        data["response"] = {**data["response"], "id": named[1].decode("utf-8", "replace")}
    return Frame(frame.event, data)


def _keep_alive_event(first: bytes, last: bytes) -> bytes:
    """`response.in_progress` again, with the response that `first` announced and the next number.

    Codex ends a stream without an event for 300 s, and comments are no events to it.
    """
    decoder = sse.Decoder()
    for frame in (*decoder.feed(first), *decoder.close()):
        event = jsontext.decode_object(frame.data.decode("utf-8", "replace"))
        if event and event.get("type") in _BEGINNINGS:
            numbers = _NUMBER.findall(last) or [b"0"]
            data = {**event, "type": "response.in_progress", "sequence_number": int(numbers[-1]) + 1}
            return b"event: response.in_progress\ndata: %b\n\n" % jsontext.encode(data)
    return b""


def _renumber(piece: bytes, by: int) -> bytes:
    return _NUMBER.sub(lambda found: b'"sequence_number":%d' % (int(found[1]) + by), piece)


def _join(answer: bytes, opening: bytes) -> tuple[bytes, tuple[bytes, bytes] | None]:
    """One `response.created`, and one id in all events: the OpenAI SDK refuses a stream where it changes."""
    old, new = _NAMED.search(answer), _NAMED.search(opening)
    head, created, rest = answer.partition(b"event: response.created\ndata: ")
    if created and not head.strip():  # the words at the beginning of the event, not those of any text
        rest = rest.replace(b'"response.created"', b'"response.in_progress"', 1)
        answer = b"event: response.in_progress\ndata: " + rest
    return answer, (b'"%b"' % old[1], b'"%b"' % new[1]) if old and new else None


KEEP_ALIVE_EVENTS = KeepAliveEvents(_keep_alive_event, _renumber, _join)
