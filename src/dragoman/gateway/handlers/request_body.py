"""The body of a client's request: bounded, and unpacked where it came packed."""

from __future__ import annotations

import zlib

from dragoman.core.errors import DragomanError
from dragoman.http.server import ServerRequest, TooLarge


class Unreadable(DragomanError):
    """A body that does not unpack."""


async def read(incoming: ServerRequest, limit: int) -> bytes:
    body = await incoming.read(limit)
    encoding = incoming.headers.get("content-encoding")
    return _unpacked(body, encoding.lower(), limit) if encoding else body


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding == "identity":
        return body
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
