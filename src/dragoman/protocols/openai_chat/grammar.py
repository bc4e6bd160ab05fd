"""Checks a Chat stream frame by frame: what SDKs and agents need in order to add the chunks up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError, expect
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire


class _ChoiceState(Struct):
    state: Literal["start", "content", "finished"] = "start"
    calls: int = 0


class Grammar:
    """Each choice: start --chunk--> content --finish_reason--> finished
    The stream: open --all choices finished--> finished --usage chunk?--> finished --[DONE]--> end

    An error chunk ends the stream in any state. SDK accumulators concatenate every string that is sent twice,
    so role, ids and names may come once only.
    """

    def __init__(self) -> None:
        self._ended = False
        self._choices: dict[int, _ChoiceState] = {}  # by index
        self._head: tuple[Any, ...] = ()

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        expect(not frame.event, f"event is named {frame.event!r}; Chat names none")
        expect(not self._ended, "a frame after the end of the stream")
        if frame.data == b"[DONE]":
            expect(self._is_finished(), "[DONE] before a finish reason")
            self._ended = True
            return (frame,)
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        if body.get("error"):
            self._ended = True
        else:
            self._chunk(body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._ended, "the stream ends without [DONE] or error")
        return ()

    def _chunk(self, body: Wire) -> None:
        expect(body.get("object") == "chat.completion.chunk", f"object is {body.get('object')!r}")
        head = (body.get("id"), body.get("created"), body.get("model"))
        expect(self._head in ((), head), f"id, created and model change from {self._head} to {head}")
        self._head = head
        choices = body.get("choices")
        expect(is_array(choices), "choices is not an array")
        if not choices:
            expect(self._is_finished(), "a chunk without choices before the finish reason")
            return
        for choice in choices:
            expect(type(choice.get("index")) is int, "a choice without an index")
            self._choice(choice, self._choices.setdefault(choice["index"], _ChoiceState()))

    def _is_finished(self) -> bool:
        return bool(self._choices) and all(choice.state == "finished" for choice in self._choices.values())

    def _choice(self, choice: Wire, so_far: _ChoiceState) -> None:
        expect(so_far.state != "finished", "a choice after its finish reason")
        delta = choice.get("delta")
        if not is_object(delta):
            raise GrammarError("a choice without a delta")
        expect(
            ("role" in delta) == (so_far.state == "start"),
            "the role stands in the first chunk and only there",
        )
        so_far.state = "content"
        for key in ("content", "refusal", "reasoning_content"):
            expect(isinstance(delta.get(key), str | None), f"{key} is not a string")
        for entry in delta.get("tool_calls") or ():
            self._call(entry, so_far)
        if choice.get("finish_reason") is not None:
            so_far.state = "finished"

    def _call(self, entry: Wire, so_far: _ChoiceState) -> None:
        index, kind = entry.get("index"), "custom" if "custom" in entry else "function"
        inner = entry.get(kind)
        if type(index) is not int or not is_object(inner):
            raise GrammarError("a piece of a call without its index or its function")
        text = inner.get("input" if kind == "custom" else "arguments")
        expect(isinstance(text, str | None), "arguments are not a string")
        expect(index <= so_far.calls, f"call {index} begins, expected {so_far.calls}")
        begins = index == so_far.calls
        sent = [bool(entry.get("id")), bool(entry.get("type")), bool(inner.get("name"))]
        expect(
            all(sent) if begins else not (sent[0] or sent[2]),
            f"call {index}: id, type and name are sent with its first piece, once",
        )
        so_far.calls += begins
