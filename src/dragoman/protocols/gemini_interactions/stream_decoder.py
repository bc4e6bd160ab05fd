"""Stream events -> neutral events.

    interaction.created  step.start step.delta* step.stop …  interaction.completed  [DONE]

`interaction.completed` ends every reply, whatever its status; `error` ends one too. States of a step:

    announced  --text, summary, call----------> open    PartStart, then PartDelta for each piece
    open       --another block of its content-> open    PartEnd of the one before, PartStart
    announced  --deltas of a hosted tool------> filled  they are put together, and nothing is sent
    any        --step.stop--------------------> closed  what was held back: citations, state, a whole step
    any        --end of the reply-------------> closed  nobody stopped it: a call without its end was cut
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object, read_frame
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
    unfold,
)
from dragoman.core.failures import truncated
from dragoman.core.fields import Fields, UnknownFields, describe, rows, word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Media, Reasoning, Response, State, Stop, Text, ToolCall, Wire
from dragoman.protocols.gemini_interactions.errors import decode_error
from dragoman.protocols.gemini_interactions.hosted import StepsOfServers
from dragoman.protocols.gemini_interactions.media import KINDS
from dragoman.protocols.gemini_interactions.parts import (
    CONTENT,
    decode_annotations,
    decode_block,
    decode_state,
    decode_step,
    noted,
    summary_text,
    thought,
)
from dragoman.protocols.gemini_interactions.response import decode_stop, decode_usage
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME, QUIET_RESPONSE, QUIET_STEP, printed
from dragoman.protocols.google import decode_time

VARYING = re.compile(rb'"event_id":\s*"(?P<padding>[A-Za-z0-9]*)"')
_END = "interaction.completed"
# Events of the schema before steps, which Google ended in June 2026 (ai.google.dev, "Breaking changes")
_BEFORE_STEPS = {
    "interaction.start": "interaction.created",
    "interaction.complete": _END,
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}
_ENDS = (_END, "interaction.complete", "error")
# type of a delta -> the type of a step that it begins, where none was announced
_STEP_OF = {
    "thought_summary": "thought",
    "thought_signature": "thought",
    "arguments_delta": "function_call",
    **dict.fromkeys(("text", "text_annotation_delta", *KINDS), "model_output"),
}
_PIECES = _STEP_OF.keys() - KINDS.keys()
# Fields of events and of deltas that are read, or count tokens
_EVENT = word_set(
    "event_type event_id index step delta metadata usage step_usage interaction interaction_id status error"
)
_DELTA = word_set("type text content signature arguments annotations")


def is_end(frame: Frame) -> bool:
    event = frame_object(frame)
    return bool(event) and event.get("event_type", frame.event) in _ENDS


def delta_text(event: Wire) -> str:
    """The text of an event that only continues a part; empty for any other."""
    delta = event.get("delta")
    if not is_object(delta):
        return ""
    match delta.get("type"):
        case "text":
            text = delta.get("text")
        case "arguments_delta":
            text = delta.get("arguments")
        case "thought_summary":
            text = delta["content"].get("text") if is_object(delta.get("content")) else ""
        case _:
            text = ""
    return text if isinstance(text, str) else ""


def state_slots(reply: Wire) -> Iterable[tuple[Wire, str]]:
    """The steps of a reply, or of an event, and the deltas, with the field of their opaque state."""
    interaction = reply.get("interaction")
    places = [reply.get("step"), reply.get("delta"), *rows(reply.get("steps"))]
    for place in [*places, *rows(interaction.get("steps") if is_object(interaction) else None)]:
        if is_object(place) and "signature" in place:
            yield place, "signature"


class _Step:
    """`part`: what is open in it. `begun`: whether anything of it became an event."""

    def __init__(self, at: int, kind: str, wire: Wire) -> None:
        self.at, self.kind, self.wire = at, kind, wire
        self.part: AnyPart | None = None
        self.index = -1
        self.pieces: list[str] = []
        self.notes: list[Any] = []
        self.state: State | None = None

    @property
    def where(self) -> str:
        return f"steps[{self.at}]"


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses, self._servers = losses, StepsOfServers()
        self._open: dict[int, _Step] = {}
        self._seen: set[int] = set()  # places of all steps so far
        self._report = UnknownFields(PROTOCOL_NAME, losses)
        self._count = 0  # of parts
        self._started = self._ended = self._called = False

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended or frame.data[:6] == b"[DONE]":
            return ()
        body = read_frame(frame, PROTOCOL_NAME)
        kind = body.get("event_type") or frame.event
        if type(kind) is not str:
            raise WireError(PROTOCOL_NAME, "event_type", f"expected a string, got {describe(kind)}")
        if kind == "error" or (not kind and body.get("error")):
            return self._fail(body)
        if kind in _BEFORE_STEPS:
            kind, body = _of_steps(kind, body)
        self._report(body, _EVENT, f"event {kind}.")
        if self._started:
            return self._next(kind, body)
        self._started = True
        interaction = Fields(body.get("interaction") or {}, "interaction", PROTOCOL_NAME)
        id, model = interaction.text("id"), interaction.text("model")
        created = decode_time(interaction.rest.get("created"))
        return (ResponseStart(id, model, created=created), *self._next(kind, body))

    def close(self) -> Iterable[Event]:
        return () if self._ended else (ResponseFailed(truncated(_END)),)

    def _next(self, kind: str, body: Wire) -> Iterable[Event]:
        match kind:
            case "step.delta":
                return self._delta(body)
            case "step.start":
                return self._start(body)
            case "step.stop":
                step = self._open.pop(_place(body), None)
                return self._close(step) if step else ()
            case "interaction.completed":
                return self._end(body)
            case "interaction.created":
                return ()
            case _ if kind.startswith("interaction."):  # status_update; a guide says in_progress, …
                return (KeepAlive(),)
            case _:
                self._losses.dropped(
                    f"event {kind}", f"Only {PROTOCOL_NAME} has this event.", "event.unknown"
                )
                return ()

    def _fail(self, body: Wire) -> Iterable[Event]:
        """Where only the SSE event is named error, its data may say nothing."""
        self._ended = True
        failure = decode_error({**body, "event_type": "error"}, 0)
        return (ResponseFailed(failure),) if failure else ()

    def _end(self, body: Wire) -> Iterable[Event]:
        self._ended = True
        interaction: Any = body.get("interaction") or {}
        fields = Fields(interaction, "", PROTOCOL_NAME)
        if fields.rest.get("status") == "failed" and (failure := decode_error(interaction, 0)):
            return (ResponseFailed(failure),)
        for key in ("id", "model"):
            fields.nonempty(key)
        steps: Any = fields.rest.pop("steps", None)
        events = list(self._missing(steps if is_array(steps) else []))
        for at in sorted(self._open):
            events += self._close(self._open[at], stopped=False)
        stop = decode_stop(fields, self._called, self._losses)
        usage = decode_usage(fields.rest.get("usage"), self._losses)
        return (*events, ResponseEnd(stop, usage, fields.extras(self._losses, quiet=QUIET_RESPONSE)))

    def _missing(self, steps: list[Any]) -> Iterator[Event]:
        """Steps of the final interaction that were not streamed."""
        for at, wire in enumerate(steps):
            if at not in self._seen:
                yield from self._whole(decode_step(wire, f"steps[{at}]", at, self._losses, self._servers))

    # Steps

    def _start(self, body: Wire) -> Iterable[Event]:
        at, wire = _place(body), body.get("step")
        if not is_object(wire) or type(kind := wire.get("type")) is not str:
            raise WireError(PROTOCOL_NAME, "step", f"expected a step with a type, got {describe(wire)}")
        self._seen.add(at)
        step = self._open[at] = _Step(at, kind, wire)
        events: list[Event] = []
        if kind in ("model_output", "thought"):
            Fields(wire, step.where, PROTOCOL_NAME).extras(self._losses, quiet=QUIET_STEP)
        if kind == "model_output":
            for i, block in enumerate(rows(wire.get("content"))):
                events += self._block(step, block, f"{step.where}.content[{i}]")
        elif kind == "thought":
            step.state = decode_state(_string(wire, "signature"))
            for i, entry in enumerate(rows(wire.get("summary"))):
                events += self._think(step, entry, f"{step.where}.summary[{i}]")
        elif kind == "function_call":
            begun: Wire = {**wire, "arguments": {}} if is_object(wire.get("arguments")) else wire
            part = decode_block(begun, step.where, self._losses, self._servers)
            assert isinstance(part, ToolCall), "A function_call is one."
            step.state = part.state
            events += self._open_part(step, _begun(part))
        return events

    def _delta(self, body: Wire) -> Iterable[Event]:
        at, delta = _place(body), body.get("delta")
        if not is_object(delta) or type(kind := delta.get("type")) is not str:
            raise WireError(PROTOCOL_NAME, "delta", f"expected an object with a type, got {describe(delta)}")
        step = self._open.get(at) or self._begin(at, _STEP_OF.get(kind, kind))
        if kind in _PIECES:
            self._report(delta, _DELTA, f"{step.where}.")
        return self._fill(step, kind, delta)

    def _fill(self, step: _Step, kind: str, delta: Wire) -> Iterable[Event]:
        match kind:
            case "text":
                return self._say(step, _string(delta, "text"))
            case "arguments_delta":
                return self._argue(step, delta.get("arguments"))
            case "thought_summary":
                return self._think(step, delta.get("content"), f"{step.where}.summary")
            case "thought_signature":
                step.state = decode_state(_string(delta, "signature")) or step.state
                return ()
            case "text_annotation_delta":
                step.notes += rows(delta.get("annotations"))
                return () if isinstance(step.part, Text) else self._open_part(step, self._text(step))
            case _ if kind in KINDS:
                return self._block(step, delta, step.where)
            case _:  # the payload of a hosted tool's step
                step.wire = {**step.wire, **{key: delta[key] for key in delta if key != "type"}}
                return (KeepAlive(),)

    def _begin(self, at: int, kind: str) -> _Step:
        """A step whose start did not come; that of a call is needed."""
        if at in self._seen or kind == "function_call":
            raise WireError(PROTOCOL_NAME, "index", f"a delta of step {at}, which is not open")
        self._seen.add(at)
        step = self._open[at] = _Step(at, kind, {"type": kind})
        return step

    def _close(self, step: _Step, stopped: bool = True) -> list[Event]:
        """`stopped`: the server said that the step is whole."""
        if step.kind == "thought":
            return self._close_thought(step)
        if step.kind == "function_call":
            return self._close_call(step, stopped)
        if step.kind == "model_output":
            return self._close_part(step)
        parts = decode_step(step.wire, step.where, step.at, self._losses, self._servers)
        return list(self._whole(parts))

    # Parts

    def _open_part(self, step: _Step, part: AnyPart) -> list[Event]:
        before = self._close_part(step)
        step.part, step.index, step.pieces = part, self._count, []
        self._count += 1
        return [*before, PartStart(step.index, part)]

    def _close_part(self, step: _Step) -> list[Event]:
        """A text ends with its citations: they count its bytes."""
        part, step.part = step.part, None
        if part is None:
            return []
        events: list[Event] = []
        if isinstance(part, Text) and step.notes:
            where, text = f"{step.where}.annotations", "".join(step.pieces)
            found = decode_annotations(step.notes, text, where, self._losses)
            step.notes = []
            events += [PartDelta(step.index, citation=citation) for citation in found]
        return [*events, PartEnd(step.index)]

    def _say(self, step: _Step, text: str) -> list[Event]:
        if not text:
            return []
        begun = [] if isinstance(step.part, Text) else self._open_part(step, self._text(step))
        step.pieces.append(text)
        return [*begun, PartDelta(step.index, text)]

    def _text(self, step: _Step) -> AnyPart:
        """A text before its words, with the note that it belongs to this step."""
        rest = {key: value for key, value in step.wire.items() if key != "content"}
        return noted(Text(where=step.where, extras={PROTOCOL_NAME: {"type": "text"}}), step.at, rest)

    def _block(self, step: _Step, block: Wire, where: str) -> list[Event]:
        """A block that came whole."""
        part = decode_block(block, where, self._losses, self._servers)
        if isinstance(part, Text):
            step.notes += rows(block.get("annotations"))
            return self._say(step, part.text)
        if not isinstance(part, Media):
            return list(self._whole((part,)))
        rest = {key: value for key, value in step.wire.items() if key != "content"}
        events = self._open_part(step, noted(part, step.at, rest))
        return [*events, *self._close_part(step)]

    def _whole(self, parts: Iterable[AnyPart]) -> Iterator[Event]:
        for _, event in enumerate(unfold(Response("", "", tuple(parts), Stop("end")))):
            match event:
                case PartStart(_, part):
                    self._called |= isinstance(part, ToolCall)
                    yield PartStart(self._count, part)
                case PartDelta(_, text, state, citation):
                    yield PartDelta(self._count, text, state, citation)
                case PartEnd(_, complete):
                    yield PartEnd(self._count, complete)
                    self._count += 1
                case _:
                    pass

    # Thoughts and calls

    def _think(self, step: _Step, entry: Any, where: str) -> list[Event]:
        text = summary_text(entry, where, self._losses)
        if not text:
            return []
        begun = [] if step.part else self._open_part(step, self._thought(step, text))
        step.pieces.append(text)
        return [*begun, PartDelta(step.index, text)]

    def _thought(self, step: _Step, text: str) -> Reasoning:
        rest = {key: value for key, value in step.wire.items() if key not in ("summary", "signature")}
        part = thought(text, "", step.where, rest)
        return _emptied_thought(part)

    def _close_thought(self, step: _Step) -> list[Event]:
        """One without text and state says nothing."""
        events: list[Event] = []
        if step.part is None and step.state:
            events += self._open_part(step, self._thought(step, ""))
        if step.state:
            events.append(PartDelta(step.index, state=step.state))
        return [*events, *self._close_part(step)]

    def _argue(self, step: _Step, arguments: Any) -> list[Event]:
        text = printed(arguments, "delta.arguments") if is_object(arguments) else arguments
        if type(text) is not str:
            raise WireError(PROTOCOL_NAME, "delta.arguments", f"expected a string, got {describe(text)}")
        if step.kind != "function_call":
            raise WireError(PROTOCOL_NAME, "delta", f"arguments for a step of type {step.kind}")
        if not text:
            return []
        step.pieces.append(text)
        return [PartDelta(step.index, text)]

    def _close_call(self, step: _Step, stopped: bool) -> list[Event]:
        """Arguments that stand in `step.start` are whole, where no delta says more."""
        events: list[Event] = []
        if not step.pieces and step.wire.get("arguments"):
            step.pieces.append(printed(step.wire["arguments"], f"{step.where}.arguments"))
            events.append(PartDelta(step.index, step.pieces[0]))
        if step.state:
            events.append(PartDelta(step.index, state=step.state))
        complete = stopped or jsontext.is_complete("".join(step.pieces))
        self._called |= complete
        return [*events, PartEnd(step.index, complete)]


def _of_steps(kind: str, body: Wire) -> tuple[str, Wire]:
    """An event of the schema before steps as one of today. Calls came whole, in a delta."""
    content, delta = body.get("content"), body.get("delta")
    rest = {key: value for key, value in body.items() if key != "content"}
    if kind == "content.start" and is_object(content):
        if content.get("type") not in (*CONTENT, "thought"):
            return "interaction.content", rest
        step: Wire = {"type": "model_output", "content": [content]} if content.get("text") else {}
        return "step.start", {**rest, "step": step or {"type": _STEP_OF.get(str(content["type"]), "thought")}}
    if kind == "content.delta" and is_object(delta) and delta.get("type") == "function_call":
        return "step.start", {**rest, "step": delta}
    return _BEFORE_STEPS[kind], rest


def _begun(call: ToolCall) -> ToolCall:
    """The state is known from the start: only a client that has no slot for it waits for the whole call."""
    return ToolCall(call.id, call.name, state=call.state, where=call.where, extras=call.extras)


def _emptied_thought(part: Reasoning) -> Reasoning:
    return Reasoning("", part.hidden, where=part.where, extras=part.extras)


def _place(body: Wire) -> int:
    index = body.get("index")
    if type(index) is not int:
        raise WireError(PROTOCOL_NAME, "index", f"expected a whole number, got {describe(index)}")
    return index


def _string(wire: Wire, key: str) -> str:
    """A string, empty where there is none."""
    value = wire.get(key)
    if value is not None and type(value) is not str:
        raise WireError(PROTOCOL_NAME, key, f"expected a string, got {describe(value)}")
    return value or ""
