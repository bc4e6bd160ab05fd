"""Responses over WebSocket as a client sends and reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from websockets.sync.client import ClientConnection, connect

from dragoman.core import jsontext
from gateway.stands import CLIENT_KEY, Stand
from waiting import LONG

LAST = ("response.completed", "response.failed", "response.incomplete", "error")


@contextlib.contextmanager
def connected(stand: Stand | str, key: str = CLIENT_KEY) -> Iterator[ClientConnection]:
    address = (stand if isinstance(stand, str) else stand.url).replace("http", "ws")
    with connect(
        f"{address}/v1/responses", additional_headers={"authorization": f"Bearer {key}"}, open_timeout=LONG
    ) as socket:
        yield socket


def create(socket: ClientConnection, **body: Any) -> None:
    socket.send(jsontext.dumps({"type": "response.create", **body}))


def events(socket: ClientConnection) -> list[Any]:
    """Of the next response."""
    got: list[Any] = []
    while not got or got[-1]["type"] not in LAST:
        got.append(jsontext.decode(socket.recv(LONG)))
    return got


def ask(socket: ClientConnection, **body: Any) -> Any:
    """The response, or the error message."""
    create(socket, **body)
    last = events(socket)[-1]
    return last.get("response", last)
