"""Checks a Messages stream frame by frame: the order of events, and what the SDK and agents rely on.

States: start --message_start--> blocks --message_delta--> delta --message_stop--> end. In `blocks`,
content_block_start, its deltas and content_block_stop follow each other, one block open at a time. `ping` is
allowed everywhere before the end; `error` leads to the end from everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError, expect
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire

# The blocks that a delta may fill; a delta or block that is not listed may be newer than this file
_FILLS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
    "input_json_delta": ("tool_use", "server_tool_use", "mcp_tool_use"),
}
_KNOWN = frozenset(block for blocks in _FILLS.values() for block in blocks)


class Grammar:
    """Raises GrammarError at the first frame that breaks the order; blocks count from 0 without gaps."""

    def __init__(self) -> None:
        self._state = "start"
        self._blocks = 0
        self._open: int | None = None
        self._kind = ""

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        body = _parse(frame)
        kind = body.get("type")
        if frame.event != kind:
            raise GrammarError(f"event is named {frame.event!r} but its data says {kind!r}")
        if self._state == "end":
            raise GrammarError(f"{kind} after the end of the stream")
        if kind == "error":
            expect(is_object(body.get("error")), "error without an error object")
            self._state = "end"
        elif kind != "ping":
            self._step(str(kind), body)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._state == "end", "the stream ends without message_stop or error")
        return ()

    def _step(self, kind: str, body: Wire) -> None:
        index = body.get("index")
        match self._state, kind:
            case "start", "message_start":
                self._state = "delta" if _is_whole(body.get("message")) else "blocks"
            case "blocks", "content_block_start":
                expect(self._open is None, f"block {index} starts while block {self._open} is open")
                expect(index == self._blocks, f"block {index} starts, expected {self._blocks}")
                self._kind = _kind(body.get("content_block"), "content_block")
                self._open, self._blocks = index, self._blocks + 1
            case "blocks", "content_block_delta":
                expect(index == self._open, f"content_block_delta for block {index}, which is not open")
                delta = _kind(body.get("delta"), "delta")
                known = delta in _FILLS and self._kind in _KNOWN
                expect(not known or self._kind in _FILLS[delta], f"{delta} for a block of type {self._kind}")
            case "blocks", "content_block_stop":
                expect(index == self._open, f"content_block_stop for block {index}, which is not open")
                self._open = None
            case (("blocks" | "delta"), "message_delta"):
                expect(self._open is None, f"message_delta while block {self._open} is open")
                _check_end(body)
                self._state = "delta"
            case "delta", "message_stop":
                self._state = "end"
            case _:
                raise GrammarError(f"{kind} is not allowed in state {self._state}")


def _is_whole(message: Any) -> bool:
    """Whether message_start has the whole reply, as with programmatic tool calling."""
    expect(is_object(message), "message_start without its message")
    expect(is_array(message.get("content")), "message_start without content")
    usage = message.get("usage")
    counted = is_object(usage) and type(usage.get("input_tokens")) is int
    expect(counted, "message_start without usage.input_tokens")
    return bool(message.get("stop_reason"))


def _check_end(body: Wire) -> None:
    delta, usage = body.get("delta"), body.get("usage")
    expect(is_object(delta) and "stop_reason" in delta, "message_delta without a stop_reason")
    counted = is_object(usage) and type(usage.get("output_tokens")) is int
    expect(counted, "message_delta without usage.output_tokens")


def _kind(value: Any, name: str) -> str:
    kind = value.get("type") if is_object(value) else None
    if not isinstance(kind, str):
        raise GrammarError(f"{name} without a type")
    return kind


def _parse(frame: Frame) -> Wire:
    try:
        body = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
    except ValueError as error:
        raise GrammarError(str(error)) from None
    if not is_object(body):
        raise GrammarError("the data of an event is not an object")
    return body
