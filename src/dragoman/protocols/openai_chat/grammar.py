"""Checks a Chat stream frame by frame: what SDKs and agents need in order to add the chunks up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire


class Grammar:
    """start --chunk--> content --finish_reason--> finished --usage chunk?--> finished --[DONE]--> end

    An error chunk ends the stream in any state. SDK accumulators concatenate every string that is sent twice,
    so role, ids and names may come once only.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._calls = 0
        self._head: tuple[Any, ...] = ()

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        self._expect(not frame.event, f"event is named {frame.event!r}; Chat names none")
        self._expect(self._state != "end", "a frame after the end of the stream")
        if frame.data == b"[DONE]":
            self._expect(self._state == "finished", "[DONE] before a finish reason")
            self._state = "end"
            return (frame,)
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        if body.get("error"):
            self._state = "end"
        else:
            self._chunk(body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        self._expect(self._state == "end", "the stream ends without [DONE] or error")
        return ()

    def _chunk(self, body: Wire) -> None:
        self._expect(body.get("object") == "chat.completion.chunk", f"object is {body.get('object')!r}")
        head = (body.get("id"), body.get("created"), body.get("model"))
        self._expect(self._head in ((), head), f"id, created and model change from {self._head} to {head}")
        self._head = head
        choices = body.get("choices")
        self._expect(is_array(choices), "choices is not an array")
        if not choices:
            self._expect(self._state == "finished", "a chunk without choices before the finish reason")
            return
        for choice in choices:
            self._choice(choice)

    def _choice(self, choice: Wire) -> None:
        self._expect(self._state != "finished", "a choice after its finish reason")
        delta = choice.get("delta")
        self._expect(type(choice.get("index")) is int, "a choice without an index")
        if not is_object(delta):
            raise GrammarError("a choice without a delta")
        self._expect(
            ("role" in delta) == (self._state == "start"), "the role stands in the first chunk and only there"
        )
        self._state = "content"
        for key in ("content", "refusal", "reasoning_content"):
            self._expect(isinstance(delta.get(key), str | None), f"{key} is not a string")
        for entry in delta.get("tool_calls") or ():
            self._call(entry)
        if choice.get("finish_reason") is not None:
            self._state = "finished"

    def _call(self, entry: Wire) -> None:
        index, kind = entry.get("index"), "custom" if "custom" in entry else "function"
        inner = entry.get(kind)
        if type(index) is not int or not is_object(inner):
            raise GrammarError("a piece of a call without its index or its function")
        text = inner.get("input" if kind == "custom" else "arguments")
        self._expect(isinstance(text, str | None), "arguments are not a string")
        self._expect(index <= self._calls, f"call {index} begins, expected {self._calls}")
        begins = index == self._calls
        sent = [bool(entry.get("id")), bool(entry.get("type")), bool(inner.get("name"))]
        self._expect(
            all(sent) if begins else not (sent[0] or sent[2]),
            f"call {index}: id, type and name are sent with its first piece, once",
        )
        self._calls += begins

    def _expect(self, holds: bool, problem: str) -> None:
        if not holds:
            raise GrammarError(problem)
