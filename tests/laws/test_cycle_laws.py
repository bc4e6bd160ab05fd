"""Nothing waits for the garbage collector: an exchange, its stream and a connection are freed when they end.

A collection stops all requests, and what a cycle of a stream holds (request, chunks, ledger) is large.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from weakref import ref

import pytest
from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.exchange import Exchange
from dragoman.http.client.address import address_of
from dragoman.http.client.connection import ClientConnection
from dragoman.http.server import HttpServer
from dragoman.http.server.connection import ServerConnection
from dragoman.protocols import protocol

RECORDINGS = Path(__file__).parent.parent / "recordings"
STREAMS = {
    "openai-chat": "openai-chat.openai.sse",
    "openai-responses": "openai-responses.openai.sse",
    "anthropic": "anthropic.anthropic.sse",
    "gemini": "gemini.google.sse",
}
TOOL = ToolDeclaration("f", "", {"type": "object", "properties": {"n": {"type": "integer"}}})
REQUEST = Request("m", (Message("user", (Text("hi"),)),), tools=(TOOL,), stream=True)


@contextmanager
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def exchange_stream(client: str, upstream: str, dialect: str | None) -> None:
    exchange = Exchange(client, upstream, dialect)
    exchange.request(protocol(client).codec.encode_request(REQUEST, Losses()))
    stream = exchange.stream()
    data = (RECORDINGS / STREAMS[upstream]).read_bytes()
    for start in range(0, len(data), 1000):
        stream.feed(data[start : start + 1000])
    stream.close()


def left_by(work: Callable[[], object]) -> Counter[str]:
    """The types of what is freed by a collection only."""
    work()  # what is imported and cached the first time stays
    with without_collections():
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        left = Counter(type(value).__qualname__ for value in gc.garbage)
        gc.garbage.clear()
    return left


@pytest.mark.parametrize("client, upstream", list(product(STREAMS, STREAMS)))
@pytest.mark.parametrize("dialect", [None, "hermes"])
def test_a_stream_leaves_nothing_to_collect(client: str, upstream: str, dialect: str | None):
    assert not left_by(lambda: exchange_stream(client, upstream, dialect))


@pytest.mark.parametrize(
    "client, upstream", [pair for pair in product(STREAMS, STREAMS) if pair[0] != pair[1]]
)
def test_a_request_whose_calls_are_paired_leaves_nothing_to_collect(client: str, upstream: str):
    calls = tuple(ToolCall(id, "f", "{}") for id in ("a", "b"))
    history = (
        Message("user", (Text("hi"),)),
        Message("assistant", calls),
        Message("user", (ToolResult("b", "f", (Text("1"),)), Text("go on"))),
    )
    request = replace(REQUEST, messages=history)
    wire = protocol(client).codec.encode_request(request, Losses())
    assert not left_by(lambda: Exchange(client, upstream).request(wire))


class Socket:
    """As much of a transport as a connection looks at."""

    def get_extra_info(self, name: str) -> Any:
        return None

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **named: None


CONNECTIONS: dict[str, Callable[[], Any]] = {
    "server": lambda: ServerConnection(HttpServer(Mock(), 1)),
    "client": lambda: ClientConnection(address_of("http://a/")[0], set(), lambda connection: None, Mock()),
}


@pytest.mark.parametrize("side", CONNECTIONS)
def test_a_connection_is_freed_when_it_is_lost(side: str):
    with without_collections():
        connection = CONNECTIONS[side]()
        connection.connection_made(Socket())
        connection.connection_lost(None)
        freed = ref(connection)
        del connection
        assert freed() is None
