"""Checks a Messages stream frame by frame: the order of events, and indices without gaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError


class Grammar:
    """message_start, blocks (start, deltas, stop) one after another, message_delta, message_stop."""

    def __init__(self) -> None:
        self._state = "start"
        self._blocks = 0
        self._open: int | None = None

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        kind = body.get("type")
        if frame.event != kind:
            raise GrammarError(f"event is named {frame.event!r} but its data says {kind!r}")
        if self._state == "end":
            raise GrammarError(f"{kind} after the end of the stream")
        if kind == "error":
            self._state = "end"
        elif kind != "ping":
            self._step(kind, body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        if self._state != "end":
            raise GrammarError("the stream ends without message_stop or error")
        return ()

    def _step(self, kind: str, body: Any) -> None:
        match self._state, kind:
            case "start", "message_start":
                self._state = "blocks"
            case "blocks", "content_block_start":
                self._expect(
                    self._open is None, f"block {body['index']} starts while block {self._open} is open"
                )
                self._expect(
                    body["index"] == self._blocks, f"block {body['index']} starts, expected {self._blocks}"
                )
                self._open, self._blocks = body["index"], self._blocks + 1
            case "blocks", "content_block_delta":
                self._expect(
                    body["index"] == self._open,
                    f"content_block_delta for block {body['index']}, which is not open",
                )
            case "blocks", "content_block_stop":
                self._expect(
                    body["index"] == self._open,
                    f"content_block_stop for block {body['index']}, which is not open",
                )
                self._open = None
            case (("blocks" | "delta"), "message_delta"):
                self._expect(self._open is None, f"message_delta while block {self._open} is open")
                self._state = "delta"
            case "delta", "message_stop":
                self._state = "end"
            case _:
                raise GrammarError(f"{kind} is not allowed in state {self._state}")

    def _expect(self, holds: bool, problem: str) -> None:
        if not holds:
            raise GrammarError(problem)
