"""Stream events -> neutral events.

    waiting --first event--> open       emits ResponseStart, whatever the event is; a failure ends at once
    open    --response.completed, response.incomplete--> ended    emits what was not streamed, ResponseEnd
    open    --response.failed, error--> ended                     emits ResponseFailed
    open    --end of stream--> ended                              emits ResponseFailed: it was cut (G14)

Items are identified by `output_index`, because some proxies change ids on the way; the states of an item are
in stream_calls.py. The encrypted content of reasoning counts only when its item is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    emptied,
)
from dragoman.core.failures import truncated
from dragoman.core.fields import Fields, describe, rows, whole_seconds
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.openai import without_alarms
from dragoman.protocols.openai_responses.errors import decode_error
from dragoman.protocols.openai_responses.messages import decode_item, item_type
from dragoman.protocols.openai_responses.parts import decode_citation, decode_part
from dragoman.protocols.openai_responses.response import decode_stop, decode_usage, report_usage
from dragoman.protocols.openai_responses.stream_calls import (
    ItemAssembly,
    StreamedItem,
    StreamedPart,
    begun,
    blank,
)
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_RESPONSE

ALIVE = frozenset({"response.queued", "response.in_progress", "keepalive", "ping"})
REPEATED_LATER = frozenset(
    {
        "response.created",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "response.reasoning_part.added",  # of vLLM, and of gpt-oss at Bedrock
        "response.reasoning_part.done",
    }
)
PROGRESS = (
    "response.web_search_call",
    "response.file_search_call",
    "response.code_interpreter_call",
    "response.image_generation_call",
    "response.mcp_",
    "response.shell_call",
    "response.apply_patch_call",
    "response.compaction",
)


def is_end(frame: Frame) -> bool:
    """Whether a frame ends the stream, well or not."""
    event = frame_object(frame)
    return bool(event) and event.get("type", frame.event) in _ENDS


def delta_text(event: Wire) -> str:
    """The text of an event that only continues a part; empty for any other."""
    text, kind = event.get("delta"), event.get("type")
    return text if type(text) is str and type(kind) is str and kind.endswith(_DELTAS) else ""


_DELTAS = (
    "output_text.delta",
    "refusal.delta",
    "reasoning_summary_text.delta",
    "reasoning_text.delta",
    "function_call_arguments.delta",
    "custom_tool_call_input.delta",
)
VARYING = re.compile(rb'"sequence_number":\s*(?P<number>\d+)|"obfuscation":\s*"(?P<padding>[A-Za-z0-9]*)"')
_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


def state_slots(reply: Wire) -> Iterable[tuple[Wire, str]]:
    """The reasoning items of a whole reply, or of a frame, with the field of their opaque state."""
    response = reply.get("response")
    items = [reply.get("item"), *rows(reply.get("output"))]
    for item in [*items, *rows(response.get("output") if is_object(response) else None)]:
        if is_object(item) and item.get("type") == "reasoning":
            yield item, "encrypted_content"


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._assembly = ItemAssembly(losses)
        self._items: dict[int, StreamedItem] = {}  # by output_index
        self._all: list[StreamedItem] = []
        self._places: dict[str, int] = {}  # item id -> output_index, for servers that omit the index
        self._texts: dict[tuple[Any, Any], StreamedPart] = {}
        self._started = self._ended = False

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended or frame.data[:6] == b"[DONE]":
            return ()
        body = parse(frame)
        kind = body.get("type") or frame.event
        if type(kind) is not str:
            raise WireError(PROTOCOL_NAME, "type", f"expected a string, got {describe(kind)}")
        if not self._started:
            return self._first(kind, body)
        handler = self._HANDLERS.get(kind)
        return handler(self, body) if handler else self._other(kind, body)

    def close(self) -> Iterable[Event]:
        return () if self._ended else (ResponseFailed(truncated("response.completed")),)

    # The response

    def _first(self, kind: str, body: Wire) -> Iterable[Event]:
        """The response starts with the first event, whatever it is, unless that is a failure."""
        if kind in ("error", "response.failed", "response.cancelled") or (not kind and body.get("error")):
            return self._fail(body)
        self._started = True
        response = Fields(body.get("response") or {}, "response", PROTOCOL_NAME)
        id, model, created = response.text("id"), response.text("model"), response.rest.get("created_at")
        handler = self._HANDLERS.get(kind)
        rest = handler(self, body) if handler else self._other(kind, body)
        return (ResponseStart(id, model, created=whole_seconds(created)), *rest)

    def _other(self, kind: str, body: Wire) -> Iterable[Event]:
        """Progress of hosted tools becomes a keep-alive; their items are read when they are done."""
        if kind in REPEATED_LATER:
            return ()
        if kind in ALIVE or kind.startswith(PROGRESS):
            return (KeepAlive(),)
        if not kind and body.get("error"):
            return self._fail(body)
        self._losses.dropped(f"event {kind}", f"Only {PROTOCOL_NAME} has this event.", "event.unknown")
        return ()

    def _fail(self, body: Wire) -> Iterable[Event]:
        """The error is in the event or in its response; some servers do not say what failed."""
        self._ended = True
        response = body.get("response")
        failure = decode_error(response if is_object(response) else body, 0)
        failure = failure or decode_error({"status": "failed"}, 0)
        return (ResponseFailed(failure),) if failure else ()

    def _end(self, body: Wire) -> Iterable[Event]:
        self._ended = True
        fields = Fields(body.get("response") or {}, "", PROTOCOL_NAME)
        if body.get("type") == "response.incomplete":
            fields.rest.setdefault("status", "incomplete")  # proxies leave it out
        for key in ("id", "model"):
            fields.nonempty(key)
        items = [] if fields.rest.get("output") == [] else fields.list("output") or []
        events = list(self._missing(items))
        stop = decode_stop(fields, False, self._losses)
        events += self._assembly.settle(stop)
        for growing in chain.from_iterable(item.parts.values() for item in self._all):
            events += self._assembly.abandon(growing, stop)
        stop, usage = decode_stop(fields, self._assembly.called, self._losses), decode_usage(fields)
        report_usage(fields, self._losses)
        return (
            *events,
            ResponseEnd(
                stop, usage, fields.extras(self._losses, quiet=without_alarms(QUIET_RESPONSE, fields.rest))
            ),
        )

    def _missing(self, output: list[Any]) -> Iterator[Event]:
        """Items of the final response that were not streamed."""
        waiting: dict[str, list[StreamedItem]] = {}
        for item in reversed(self._all):
            waiting.setdefault(item.kind, []).append(item)
        for at, wire in enumerate(output):
            kind, item = item_type(wire, f"output[{at}]"), self._items.get(at)
            if item is None or item.kind != kind or item.matched:
                item = _next(waiting.get(kind, [])) or StreamedItem(kind, at, wire)
            item.matched = True
            if not item.done:
                yield from self._finish(item, wire)

    # Items

    def _added(self, body: Wire) -> Iterable[Event]:
        wire, at = body.get("item"), self._place(body)
        if wire is None:  # some servers announce no item
            return ()
        kind, old = item_type(wire, f"output[{at}]"), self._items.get(at)
        if old and not old.done and old.kind == kind and old.wire.get("call_id") == wire.get("call_id"):
            return ()
        item = self._begin(kind, at, wire)
        if kind not in ("function_call", "custom_tool_call"):
            return ()
        growing = item.parts[0] = StreamedPart(None)
        if not wire.get("name") or not wire.get("call_id"):
            return ()
        (call,) = decode_item(begun(wire), f"output[{at}]", at, Losses())
        return self._assembly.start(growing, emptied(call))

    def _done(self, body: Wire) -> Iterable[Event]:
        wire, at = body.get("item"), self._place(body, done=True)
        kind, item = item_type(wire, f"output[{at}]"), self._items.get(at)
        if item is None or item.done or item.kind != kind:
            item = self._begin(kind, at, wire)  # pyright: ignore[reportArgumentType] - an object, as item_type checked
        return self._finish(item, wire)  # pyright: ignore[reportArgumentType] - an object, as item_type checked

    def _begin(self, kind: str, at: int, wire: Wire) -> StreamedItem:
        old = self._items.get(at)
        for place in old.parts if old else ():
            self._texts.pop((at, place), None)
        item = self._items[at] = StreamedItem(kind, at, wire)
        self._all.append(item)
        for id in (wire.get("id"), wire.get("call_id")):
            if id and type(id) is str:
                self._places[id] = at
        return item

    def _finish(self, item: StreamedItem, wire: Wire) -> list[Event]:
        item.done = True
        parts = decode_item(wire, f"output[{item.at}]", item.at, self._losses)
        if item.kind == "message" and wire.get("content") in ([], None):
            parts = ()
        events: list[Event] = []
        if item.parts and max(item.parts) >= len(parts):
            # Bedrock's gpt-oss counts content_index on from the reasoning before the message
            item.parts = dict(enumerate(item.parts[place] for place in sorted(item.parts)))
        for place, part in enumerate(parts):
            growing = item.parts.setdefault(place, StreamedPart(emptied(part)))
            events += self._assembly.finish(growing, part)
        for growing in item.parts.values():
            if growing.part is not None:
                events += self._assembly.finish(growing, growing.part)
        return events

    def _item(self, body: Wire, kind: str) -> StreamedItem:
        """The item of this kind that the event belongs to; one that was never announced begins here."""
        at = self._place(body)
        item = self._items.get(at)
        return item if item and item.kind == kind else self._begin(kind, at, {"type": kind})

    def _place(self, body: Wire, done: bool = False) -> int:
        """Without an index an item is known by its ids. One that is done is the last open one of its kind."""
        place, item = body.get("output_index"), body.get("item")
        if type(place) is int:
            return place
        if place is not None:
            raise WireError(PROTOCOL_NAME, "output_index", f"expected a whole number, got {describe(place)}")
        wire: Wire = item if is_object(item) else {"id": body.get("item_id")}
        for id in (wire.get("id"), wire.get("call_id")):
            if type(id) is str and id in self._places:
                return self._places[id]
        if not item:
            return max(len(self._items) - 1, 0)
        for old in reversed(self._all if done else ()):
            if (
                not old.done
                and old.kind == wire.get("type")
                and old.wire.get("call_id") == wire.get("call_id")
            ):
                return old.at
        return len(self._items)

    # Messages

    def _text(self, body: Wire) -> Iterable[Event]:
        delta = body.get("delta")
        if type(delta) is not str:
            raise WireError(PROTOCOL_NAME, "delta", f"expected a string, got {describe(delta)}")
        try:
            growing = self._texts.get((body.get("output_index"), body.get("content_index")))
        except TypeError:  # an index that is no number; `_content` raises
            growing = None
        if growing is None or growing.index < 0 or growing.closed or not delta:
            return self._assembly.say(self._content(body, "output_text"), delta)
        growing.pieces.append(delta)
        return (PartDelta(growing.index, delta),)

    def _text_done(self, body: Wire) -> Iterable[Event]:
        return self._assembly.catch_up(self._content(body, "output_text"), text_of(body, "text"))

    def _refusal(self, body: Wire) -> Iterable[Event]:
        return self._assembly.say(self._content(body, "refusal"), text_of(body, "delta"))

    def _refusal_done(self, body: Wire) -> Iterable[Event]:
        return self._assembly.catch_up(self._content(body, "refusal"), text_of(body, "refusal"))

    def _annotation(self, body: Wire) -> Iterable[Event]:
        growing = self._content(body, "output_text")
        where = f"{growing.part.where if growing.part else ''}.annotations[{growing.cited}]"
        citation = decode_citation(body.get("annotation"), where, self._losses)
        return self._assembly.cite(growing, citation)

    def _part_added(self, body: Wire) -> Iterable[Event]:
        match body.get("part"):
            case {"type": "output_text" | "refusal" as kind} as part:
                self._content(body, kind, part)  # pyright: ignore[reportUnknownArgumentType] - JSON
            case _:
                pass
        return ()

    def _part_done(self, body: Wire) -> Iterable[Event]:
        match body.get("part"):
            case {"type": "output_text" | "refusal" as kind} as part:
                growing = self._content(body, kind, part)  # pyright: ignore[reportUnknownArgumentType] - JSON
                where = growing.part.where if growing.part else ""
                return self._assembly.finish(growing, decode_part(part, where, self._losses))
            case _:
                return ()

    def _content(self, body: Wire, kind: str, wire: Wire | None = None) -> StreamedPart:
        item, place = self._item(body, "message"), number_of(body, "content_index")
        growing = item.parts.get(place)
        if growing is None:
            growing = item.parts[place] = StreamedPart(blank(kind, wire or {}, item, place))
            self._texts[item.at, place] = growing
        return growing

    # Reasoning and calls

    def _thought(self, body: Wire) -> Iterable[Event]:
        """Sections of a summary are separated by a blank line, as in a whole response."""
        item, delta = self._item(body, "reasoning"), text_of(body, "delta")
        growing = item.parts.get(0)
        if growing is None:
            known = {key: value for key, value in item.wire.items() if key not in _FILLED}
            (part,) = decode_item(begun(known), f"output[{item.at}]", item.at, Losses())
            growing = item.parts[0] = StreamedPart(part)
        section = (body.get("summary_index"), body.get("content_index"))
        if section != item.section and growing.pieces and delta:
            delta = f"\n\n{delta}"
        item.section = section
        return self._assembly.say(growing, delta)

    def _argument(self, body: Wire) -> Iterable[Event]:
        return self._assembly.say(self._call(body), text_of(body, "delta"))

    def _arguments_done(self, body: Wire) -> Iterable[Event]:
        growing, text = self._call(body), text_of(body, "input" if "input" in body else "arguments")
        if growing.part is None:
            growing.pieces = [text]
            return ()
        return self._assembly.catch_up(growing, text)

    def _call(self, body: Wire) -> StreamedPart:
        at = self._place(body)
        item = self._items.get(at)
        if item is None or item.kind not in ("function_call", "custom_tool_call"):
            item = self._begin("function_call", at, {})
        return item.parts.get(0) or item.parts.setdefault(0, StreamedPart(None))

    _HANDLERS: ClassVar[dict[str, Callable[[Any, Wire], Iterable[Event]]]] = {
        "response.output_text.delta": _text,
        "response.output_text.done": _text_done,
        "response.output_text.annotation.added": _annotation,
        "response.output_text_annotation.added": _annotation,  # as older SDKs of OpenAI spell it
        "response.refusal.delta": _refusal,
        "response.refusal.done": _refusal_done,
        "response.content_part.added": _part_added,
        "response.content_part.done": _part_done,
        "response.reasoning_summary_text.delta": _thought,
        "response.reasoning_text.delta": _thought,
        "response.function_call_arguments.delta": _argument,
        "response.function_call_arguments.done": _arguments_done,
        "response.custom_tool_call_input.delta": _argument,
        "response.custom_tool_call_input.done": _arguments_done,
        "response.output_item.added": _added,
        "response.output_item.done": _done,
        "response.completed": _end,
        "response.incomplete": _end,
        "response.failed": _fail,
        "response.cancelled": _fail,
        "error": _fail,
    }


_FILLED = frozenset({"summary", "content", "encrypted_content"})  # fields that deltas fill


def _next(waiting: list[StreamedItem]) -> StreamedItem | None:
    while waiting:
        item = waiting.pop()
        if not item.matched:
            return item
    return None


def parse(frame: Frame) -> Wire:
    try:
        body = jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", str(error)) from None
    if type(body) is not dict:
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", "expected an object")
    return body  # pyright: ignore[reportUnknownVariableType] - JSON


def text_of(body: Wire, key: str) -> str:
    value = body.get(key)
    if type(value) is not str:
        raise WireError(PROTOCOL_NAME, key, f"expected a string, got {describe(value)}")
    return value


def number_of(body: Wire, key: str) -> int:
    """A whole number, 0 where there is none."""
    value = body.get(key)
    if value is None:
        return 0
    if type(value) is not int:
        raise WireError(PROTOCOL_NAME, key, f"expected a whole number, got {describe(value)}")
    return value
