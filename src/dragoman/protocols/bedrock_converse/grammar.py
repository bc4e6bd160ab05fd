"""Checks a ConverseStream frame by frame.

States: start --messageStart--> blocks --messageStop--> stopped --metadata--> end. In `blocks` one block is
open at a time, and the next index is one higher. An exception leads to the end from everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError, expect
from dragoman.core.jsontext import is_object
from dragoman.core.model import Wire


class Grammar:
    """Raises GrammarError at the first frame that breaks the order."""

    def __init__(self) -> None:
        self._state = "start"
        self._blocks = 0
        self._open = ""  # what the open block holds

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        body = _parse(frame)
        expect(self._state != "end", f"{frame.event} after the end of the stream")
        if frame.event.endswith("Exception") or frame.event == "error":
            expect(isinstance(body.get("message"), str), f"{frame.event} without a message")
            self._state = "end"
        else:
            self._step(frame.event, body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._state == "end", "the stream ends without metadata or an exception")
        return ()

    def _step(self, event: str, body: Wire) -> None:
        match self._state, event:
            case "start", "messageStart":
                expect(body.get("role") == "assistant", "messageStart without the role assistant")
                self._state = "blocks"
            case "blocks", "contentBlockStart":
                expect(not self._open, "contentBlockStart while a block is open")
                self._open_block(body, _kind(body.get("start")))
            case "blocks", "contentBlockDelta":
                kind = _kind(body.get("delta"))
                kind = "text" if kind == "citation" else kind
                if not self._open:
                    expect(kind in ("text", "reasoningContent"), f"{kind} without contentBlockStart")
                    self._open_block(body, kind)
                self._check_index(body)
                expect(kind == self._open, f"a delta of {kind} in a block of {self._open}")
            case "blocks", "contentBlockStop":
                expect(bool(self._open), "contentBlockStop without an open block")
                self._check_index(body)
                self._open, self._blocks = "", self._blocks + 1
            case "blocks", "messageStop":
                expect(not self._open, "messageStop while a block is open")
                expect(isinstance(body.get("stopReason"), str), "messageStop without a stopReason")
                self._state = "stopped"
            case "stopped", "metadata":
                usage = body.get("usage")
                counted = is_object(usage) and type(usage.get("totalTokens")) is int
                expect(counted, "metadata without usage.totalTokens")
                self._state = "end"
            case _:
                raise GrammarError(f"{event} is not allowed in state {self._state}")

    def _open_block(self, body: Wire, kind: str) -> None:
        self._open = kind
        self._check_index(body)

    def _check_index(self, body: Wire) -> None:
        index = body.get("contentBlockIndex")
        expect(index == self._blocks, f"block {index}, expected {self._blocks}")


def _kind(value: Any) -> str:
    expect(is_object(value) and len(value) == 1, "a union has exactly one key")
    return str(next(iter(value)))


def _parse(frame: Frame) -> Wire:
    try:
        body: Any = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
    except ValueError as error:
        raise GrammarError(str(error)) from None
    if not is_object(body):
        raise GrammarError("the payload of an event is not an object")
    return body
