"""Writing to a client: whole JSON answers, and streams that know whether they have begun."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from dragoman.core import jsontext

Headers = list[tuple[bytes, bytes]]

_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n"
_OTHER = b"content-type: %b\r\ncontent-length: %d\r\n"
# nginx would collect a stream before it passes it on
_STREAM = b"content-type: %b\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"


class Line(Protocol):
    """The connection below an answer. `close`: it ends with this answer.

    `chunked`: the client knows chunks; for others the end of the connection is the end of the stream.
    `bodiless`: the answer to HEAD.
    """

    close: bool
    chunked: bool
    bodiless: bool

    def begins(self) -> bytes:
        """An answer does: what the head of each one says, in lines."""
        ...

    def write(self, data: bytes, /) -> None: ...

    async def drained(self) -> None: ...


class ResponseWriter:
    """One response to one client. `begun`: its status has gone out and cannot change any more.

    `headers` go out with whatever is answered. `overheard` is told what the client hears.
    """

    __slots__ = ("_line", "begun", "ended", "headers", "overheard", "status")

    def __init__(self, line: Line) -> None:
        self._line = line
        self.headers: Headers = []
        self.overheard: Callable[[int, bytes], None] | None = None
        self.begun = self.ended = False
        self.status = 0

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        content = _OTHER % (kind, len(body)) if kind else _JSON % len(body)
        self.begun = self.ended = True
        self.status = status
        if self.overheard:
            self.overheard(status, body)
        head = self._head(status, content, extra)
        self._line.write(head if self._line.bodiless else head + body)

    async def json(self, status: int, value: Any, extra: Headers | None = None) -> None:
        await self.whole(status, jsontext.encode(value), extra)

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        self.begun, self.status = True, 200
        if self.overheard:
            self.overheard(200, b"")
        content = _STREAM % content_type.encode()
        if self._line.chunked:
            content += b"transfer-encoding: chunked\r\n"
        else:
            self._line.close = True
        self._line.write(self._head(200, content, extra))

    async def piece(self, data: bytes) -> None:
        if data:
            if self.overheard:
                self.overheard(0, data)
            self._line.write(b"%x\r\n%b\r\n" % (len(data), data) if self._line.chunked else data)
        await self._line.drained()

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        if data and self.overheard:
            self.overheard(0, data)
        if self._line.chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        self._line.write(data)
        await self._line.drained()

    def _head(self, status: int, content: bytes, extra: Headers | None) -> bytes:
        said = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, self._line.begins(), content]
        said += [b"%b: %b\r\n" % header for header in self.headers]
        if extra:
            said += [b"%b: %b\r\n" % header for header in extra]
        said.append(b"\r\n")
        return b"".join(said)


def refusal(status: int, problem: str) -> bytes:
    """To a request that could not be read: nobody knows in which protocol to answer."""
    body = problem.encode()
    head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return _LINES[status] + head + body
