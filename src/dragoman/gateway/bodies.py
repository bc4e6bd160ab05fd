"""The body of a client's request: bounded, and unpacked where it came packed."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from dragoman.core.errors import DragomanError

Receive = Callable[[], Awaitable[dict[str, Any]]]


class TooLarge(DragomanError):
    """A body beyond the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes")


class Unreadable(DragomanError):
    """A body that does not unpack."""


class ClientGone(Exception):
    """The client left before its request was complete."""


async def read(receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(limit)
    body = await _received(receive, limit)
    encoding = headers.get("content-encoding", "").lower()
    return body if encoding in ("", "identity") else _unpacked(body, encoding, limit)


async def _received(receive: Receive, limit: int) -> bytes:
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):  # nearly always: one piece
        body = message.get("body", b"")
        if len(body) > limit:
            raise TooLarge(limit)
        return body
    pieces: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise TooLarge(limit)
        if not message.get("more_body"):
            return b"".join(pieces)
        message = await receive()


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unreadable(f"the body is encoded as {encoding!r}; send it as it is, or as gzip")
    inflate = zlib.decompressobj(47)
    try:
        unpacked = inflate.decompress(body, limit + 1)
    except zlib.error as error:
        raise Unreadable(f"the body is not {encoding}: {error}") from None
    if len(unpacked) > limit:
        raise TooLarge(limit)
    if not inflate.eof:
        raise Unreadable(f"the body ends inside its {encoding}")
    return unpacked
