"""The checker of streams: what it lets pass, and what it calls a mistake."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError
from dragoman.core.model import Wire
from dragoman.protocols.anthropic import CODEC


def event(kind: str, **more: Any) -> Wire:
    return {"type": kind, **more}


START = event("message_start", message={"content": [], "usage": {"input_tokens": 1}})
OPEN, TOOL = ({"type": "text", "text": ""}, {"type": "tool_use", "id": "t", "name": "f", "input": {}})
TEXT = [
    event("content_block_start", index=0, content_block=OPEN),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}),
    event("content_block_stop", index=0),
]
END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1})
STOP, PING, ERROR = (
    event("message_stop"),
    event("ping"),
    event("error", error={"type": "api_error", "message": "x"}),
)


def opened(index: int, block: Any = OPEN) -> Wire:
    return event("content_block_start", index=index, content_block=block)


def delta(index: Any, kind: Any) -> Wire:
    return event("content_block_delta", index=index, delta={"type": kind})


def check(*bodies: Wire) -> None:
    grammar = CODEC.grammar()
    for body in bodies:
        frame = Frame(body["type"], body)
        assert list(grammar.feed(frame)) == [frame]
    assert list(grammar.close()) == []


GOOD: dict[str, list[Wire]] = {
    "nothing given": [START, END, STOP],
    "text": [START, *TEXT, END, STOP],
    "pings anywhere": [PING, START, PING, TEXT[0], PING, *TEXT[1:], PING, END, PING, STOP],
    "several ends": [START, END, END, STOP],
    "an error first": [ERROR],
    "an error inside a block": [START, TEXT[0], ERROR],
    "a delta that is newer than we are": [START, opened(0), delta(0, "smell_delta"), TEXT[2], END, STOP],
    "a block that is newer than we are": [
        START,
        opened(0, {"type": "smell"}),
        delta(0, "text_delta"),
        TEXT[2],
        END,
        STOP,
    ],
    "everything in the announcement": [
        event(
            "message_start",
            message={"content": [TOOL], "stop_reason": "tool_use", "usage": {"input_tokens": 0}},
        ),
        STOP,
    ],
}


@pytest.mark.parametrize("bodies", GOOD.values(), ids=GOOD)
def test_good_streams_pass(bodies: list[Wire]) -> None:
    check(*bodies)


BAD: dict[str, tuple[list[Wire], str]] = {
    "G04 no beginning": ([*TEXT, END, STOP], "content_block_start is not allowed in state start"),
    "G04 two beginnings": ([START, START], "message_start is not allowed in state blocks"),
    "G14 no end": ([START, *TEXT], "the stream ends without message_stop or error"),
    "no reason to stop": ([START, *TEXT, STOP], "message_stop is not allowed in state blocks"),
    "nothing at all": ([], "the stream ends without message_stop or error"),
    "G03 an index that jumps": ([START, opened(1)], "block 1 starts, expected 0"),
    "an index that comes again": ([START, *TEXT, opened(0)], "block 0 starts, expected 1"),
    "no index": ([START, event("content_block_start", content_block=OPEN)], "block None starts, expected 0"),
    "G02 two open blocks": ([START, opened(0), opened(1)], "block 1 starts while block 0 is open"),
    "G02 a delta for another block": (
        [START, opened(0), delta(1, "text_delta")],
        "content_block_delta for block 1, which is not open",
    ),
    "a delta after its block": (
        [START, *TEXT, delta(0, "text_delta")],
        "content_block_delta for block 0, which is not open",
    ),
    "a stop for another block": (
        [START, opened(0), event("content_block_stop", index=1)],
        "content_block_stop for block 1, which",
    ),
    "G25 a signature for text": (
        [START, opened(0), delta(0, "signature_delta")],
        "signature_delta for a block of type text",
    ),
    "text for a call": (
        [START, opened(0, TOOL), delta(0, "text_delta")],
        "text_delta for a block of type tool_use",
    ),
    "a delta without a type": ([START, opened(0), delta(0, None)], "delta without a type"),
    "no block": ([START, event("content_block_start", index=0)], "content_block without a type"),
    "an end while a block is open": ([START, opened(0), END], "message_delta while block 0 is open"),
    "blocks after the end": ([START, END, opened(0)], "content_block_start is not allowed in state delta"),
    "G20 something after the end": ([START, END, STOP, PING], "ping after the end of the stream"),
    "something after an error": ([START, ERROR, STOP], "message_stop after the end of the stream"),
    "an error that says nothing": ([event("error")], "error without an error object"),
    "an unknown event": ([START, event("weather")], "weather is not allowed in state blocks"),
    "no message": ([event("message_start")], "message_start without its message"),
    "no content": ([event("message_start", message={})], "message_start without content"),
    "G33 no tokens at the start": (
        [event("message_start", message={"content": []})],
        "message_start without usage.input_tokens",
    ),
    "no reason": ([START, event("message_delta", delta={})], "message_delta without a stop_reason"),
    "no tokens": (
        [START, event("message_delta", delta={"stop_reason": "x"})],
        "message_delta without usage.output_tokens",
    ),
}


@pytest.mark.parametrize(("bodies", "problem"), BAD.values(), ids=BAD)
def test_mistakes_are_named(bodies: list[Wire], problem: str) -> None:
    with pytest.raises(GrammarError, match=problem):
        check(*bodies)


# Frames as they come from the network: name: (event, data, problem or None)
FRAMES: dict[str, tuple[str, Any, str | None]] = {
    "bytes": ("message_start", jsontext.encode(START), None),
    "text": ("message_start", jsontext.dumps(START), None),
    "another name": ("ping", START, "event is named 'ping' but its data says 'message_start'"),
    "no name": ("", START, "event is named '' but its data says 'message_start'"),
    "broken": ("ping", b"{", "invalid JSON"),
    "G20 no object": ("ping", b"[1]", "not an object"),
}


@pytest.mark.parametrize(("name", "data", "problem"), FRAMES.values(), ids=FRAMES)
def test_frames(name: str, data: Any, problem: str | None) -> None:
    grammar = CODEC.grammar()
    if problem is None:
        list(grammar.feed(Frame(name, data)))
        return
    with pytest.raises(GrammarError, match=problem):
        list(grammar.feed(Frame(name, data)))
