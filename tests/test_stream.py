"""Streams through the public contract: what comes after the end, and ending twice."""

from __future__ import annotations

from itertools import product

import pytest

import dragoman
from dragoman.core.model import Response, Stop, Text, ToolCall, Usage
from dragoman.protocols import names
from laws.test_exchange_laws import stream_wire

PAIRS = list(product(names(), names()))
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
REPLY = Response("r", "m", (Text("Hi."), ToolCall("call_1", "f", '{"a":1}')), Stop("tool_calls"), Usage(1, 2))


@every_pair
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_what_follows_a_broken_frame_is_passed_over(client: str, upstream: str, cut: int) -> None:
    if client == upstream:
        return
    pieces = stream_wire(upstream, REPLY)
    stream = dragoman.Exchange(client, upstream).stream()
    for piece in [*pieces[:cut], b"event: x\ndata: {broken\n\n"]:
        stream.feed(piece)
    assert stream.failure is not None
    assert [stream.feed(piece) for piece in pieces[cut:]] == [b""] * len(pieces[cut:])
    assert stream.close() == b""


@every_pair
@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_stream_ends_once_however_often_it_is_closed(
    client: str, upstream: str, array: bool, whole: bool
) -> None:
    pieces = stream_wire(upstream, REPLY)
    stream = dragoman.Exchange(client, upstream).stream(array and client == "gemini")
    for piece in pieces if whole else pieces[:2]:
        stream.feed(piece)
    stream.close()
    assert stream.close() == b""
