"""Checks a Responses stream frame by frame: the order that the SDK and the agents depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import expect
from dragoman.core.model import Wire

_LIFE = frozenset({"response.created", "response.queued", "response.in_progress"})
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
# What fills the inner part of an item -> the event that announces such a part, and how it is numbered
_INNER = {
    "response.output_text": ("response.content_part", "content_index"),
    "response.refusal": ("response.content_part", "content_index"),
    "response.reasoning_summary_text": ("response.reasoning_summary_part", "summary_index"),
}
_OUTER = frozenset({"response.content_part", "response.reasoning_summary_part"})


class Grammar:
    """start --response.created--> items --completed, incomplete, failed or error--> end

    In `items`, each output_item.added opens an item and output_item.done closes it; inside an item the inner
    part (content_part, reasoning_summary_part) is added before it is filled.
    """

    def __init__(self) -> None:
        self._sequence = -1
        self._id: Any = None
        self._state = "start"
        self._items: dict[Any, Wire] = {}  # output_index -> the item that is open there
        self._inner: set[tuple[Any, ...]] = set()
        self._done: dict[Any, Wire] = {}  # output_index -> the finished item

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        if frame.data == b"[DONE]":
            return (frame,)
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        kind = body.get("type")
        expect(frame.event == kind, f"event is named {frame.event!r} but its data says {kind!r}")
        expect(self._state != "end", f"{kind} after the end of the stream")
        self._sequence += 1
        number = body.get("sequence_number")
        expect(number == self._sequence, f"{kind} has sequence_number {number}, expected {self._sequence}")
        self._step(kind, body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._state == "end", "the stream ends without completed, incomplete, failed or error")
        return ()

    def _step(self, kind: str, body: Wire) -> None:
        if kind == "error":
            self._state = "end"
            return
        if self._state == "start":
            expect(kind == "response.created", f"{kind} before response.created")
            self._state = "items"
        if kind in _LIFE or kind in _TERMINAL:
            self._check_response(kind, body)
        elif kind == "response.output_item.added":
            index = body.get("output_index")
            expect(index not in self._items and index not in self._done, f"item {index} is announced twice")
            self._items[index] = body["item"]
        elif "output_index" in body:
            self._check_item(kind, body)

    def _check_response(self, kind: str, body: Wire) -> None:
        response = body["response"]
        self._id = self._id or response.get("id")
        expect(response.get("id") == self._id, f"{kind} has id {response.get('id')!r}, expected {self._id!r}")
        if kind not in _TERMINAL:
            return
        self._state = "end"
        if kind == "response.failed":
            expect(bool(response.get("error")), "response.failed without an error")
            return
        status = response.get("status")
        expect(status == kind.removeprefix("response."), f"{kind} has status {status}")
        expect(isinstance(response.get("usage"), dict), f"{kind} without usage")
        if kind == "response.completed":
            expect(not self._items, f"{kind} while item {next(iter(self._items), None)} is open")
        output: list[Wire] = response.get("output") or []
        final = {f"{item.get('type')} {item.get('id')}" for item in output}
        for item in [*self._done.values(), *self._items.values()]:
            name = f"{item.get('type')} {item.get('id')}"
            expect(name in final, f"the output of {kind} lacks {name}")

    def _check_item(self, kind: str, body: Wire) -> None:
        index = body["output_index"]
        expect(index in self._items, f"{kind} for item {index}, which is not open")
        if kind == "response.output_item.done":
            before, now = self._items.pop(index).get("id"), body["item"].get("id")
            expect(before == now, f"item {index} changes its id from {before} to {now}")
            is_open = any(inner[1] == index for inner in self._inner)
            expect(not is_open, f"item {index} is done while a part of it is open")
            self._done[index] = body["item"]
            return
        id = self._items[index].get("id")
        named = body.get("item_id", id)
        expect(named == id, f"{kind} names item {named}, expected {id}")
        self._check_inner(kind, body)

    def _check_inner(self, kind: str, body: Wire) -> None:
        """Parts inside an item are announced before they are filled."""
        stem, _, step = kind.rpartition(".")
        outer, number = _INNER.get(stem, (stem, ""))
        if stem in _OUTER:
            part = (stem, body["output_index"], body.get("content_index", body.get("summary_index")))
            if step == "added":
                expect(part not in self._inner, f"part {part[2]} of item {part[1]} is announced twice")
                self._inner.add(part)
            else:
                expect(part in self._inner, f"{kind} for part {part[2]} of item {part[1]}, which is not open")
                self._inner.discard(part)
        elif number:
            part = (outer, body["output_index"], body.get(number))
            expect(part in self._inner, f"{kind} for part {part[2]} of item {part[1]}, which is not open")
