"""Checks a stream of Interactions event by event: the order that google-genai's readers depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import expect
from dragoman.core.jsontext import is_object
from dragoman.core.model import Wire
from dragoman.protocols.gemini_interactions.media import KINDS

# types of deltas -> the type of the step that they fill; others fill a step of their own type
_FILLS = {
    "thought_summary": ("thought",),
    "thought_signature": ("thought", "function_call"),
    "arguments_delta": ("function_call",),
    **dict.fromkeys(("text", "text_annotation_delta", *KINDS), ("model_output",)),
}
_CUT = frozenset({"incomplete", "failed", "cancelled", "budget_exceeded"})


class Grammar:
    """start --interaction.created--> steps --interaction.completed--> ended --[DONE]--> ended
    any --error--> ended

    In `steps`, step.start opens the next one, step.delta fills it and step.stop closes it.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._id: Any = None
        self._next = 0
        self._open: dict[Any, str] = {}  # index -> the type of the step that is open there
        self._texts: set[Any] = set()  # the steps that have a text

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        if frame.data == b"[DONE]":
            expect(self._state == "ended", "[DONE] before interaction.completed")
            return (frame,)
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        expect(is_object(body) and bool(body), "an event that is no object, or an empty one")
        kind = body.get("event_type")
        expect(frame.event in ("", kind), f"event is named {frame.event!r} but its data says {kind!r}")
        expect(self._state != "ended", f"{kind} after the end of the stream")
        self._step(kind, body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._state == "ended", "the stream ends without interaction.completed or error")
        return ()

    def _step(self, kind: Any, body: Wire) -> None:
        if kind == "error":
            expect(is_object(body.get("error")), "an error event without an error")
            self._state = "ended"
            return
        if self._state == "start":
            expect(kind == "interaction.created", f"{kind} before interaction.created")
            self._state = "steps"
        match kind:
            case "interaction.created" | "interaction.completed":
                self._check_interaction(kind, body.get("interaction"))
            case "interaction.status_update":
                expect(isinstance(body.get("status"), str), "a status_update without a status")
            case "step.start":
                self._start(body)
            case "step.delta":
                self._delta(body)
            case "step.stop":
                index = body.get("index")
                expect(index in self._open, f"step.stop for step {index}, which is not open")
                del self._open[index]
            case _:
                expect(False, f"an event of the unknown type {kind!r}")

    def _check_interaction(self, kind: str, interaction: Any) -> None:
        expect(is_object(interaction), f"{kind} without an interaction")
        id, status = interaction.get("id"), interaction.get("status")
        expect(isinstance(id, str) and bool(id), f"{kind} without an id")
        expect(isinstance(status, str), f"{kind} without a status")
        self._id = self._id or id
        expect(id == self._id, f"{kind} has id {id!r}, expected {self._id!r}")
        if kind == "interaction.completed":
            expect(is_object(interaction.get("usage")), f"{kind} without usage")
            expect(not self._open or status in _CUT, f"{kind} ({status}) while step {[*self._open]} is open")
            self._state = "ended"

    def _start(self, body: Wire) -> None:
        index, step = body.get("index"), body.get("step")
        expect(index == self._next, f"step.start for step {index}, expected {self._next}")
        expect(is_object(step) and isinstance(step.get("type"), str), "a step without a type")
        assert is_object(step)
        if step["type"] == "function_call":
            named = isinstance(step.get("id"), str) and isinstance(step.get("name"), str)
            whole = named and is_object(step.get("arguments"))
            expect(whole, "a function_call without id, name or arguments")
        self._next += 1
        self._open[index] = step["type"]
        if step.get("content"):
            self._texts.add(index)

    def _delta(self, body: Wire) -> None:
        index, delta = body.get("index"), body.get("delta")
        expect(index in self._open, f"step.delta for step {index}, which is not open")
        expect(is_object(delta) and isinstance(delta.get("type"), str), "a delta without a type")
        assert is_object(delta)
        kind, step = delta["type"], self._open[index]
        expect(step in _FILLS.get(kind, (kind,)), f"a delta of type {kind} in a step of type {step}")
        expect(kind != "text_annotation_delta" or index in self._texts, f"{kind} without a text before it")
        if kind == "text":
            self._texts.add(index)
