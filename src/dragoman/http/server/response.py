"""Writes a response: a whole body, or a stream of chunks."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from dragoman.core import jsontext

Headers = list[tuple[bytes, bytes]]

HIGH_WATER = 64 * 1024  # unsent bytes of a response; above it, writers wait for the client
_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n"
_OTHER = b"content-type: %b\r\ncontent-length: %d\r\n"
# nginx buffers responses unless x-accel-buffering says no (nginx.org, ngx_http_proxy_module, proxy_buffering)
_STREAM = b"content-type: %b\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"


class ResponseConnection(Protocol):
    """The connection below a response. `close`: it is closed after this response.

    `chunked`: the client understands chunked encoding; for others (HTTP/1.0) the end of the connection ends
    the stream. `head_only`: the request's method was HEAD.
    """

    close: bool
    chunked: bool
    head_only: bool

    def head_lines(self) -> bytes:
        """The header lines that every response carries."""
        ...

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None:
        """Wait while the client does not read."""


class ResponseWriter:
    """One response. `begun`: its status was sent and cannot change any more.

    `headers` are sent with every response. `observer` gets a copy of what is sent: (status, data) at the
    beginning, then (0, data).
    """

    __slots__ = ("_connection", "begun", "ended", "headers", "observer", "status")

    def __init__(self, connection: ResponseConnection) -> None:
        self._connection = connection
        self.headers: Headers = []
        self.observer: Callable[[int, bytes], None] | None = None
        self.begun = self.ended = False
        self.status = 0

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        content = _OTHER % (kind, len(body)) if kind else _JSON % len(body)
        self.begun = self.ended = True
        self.status = status
        if self.observer:
            self.observer(status, body)
        head = self._head(status, content, extra)
        self._connection.write(head if self._connection.head_only else head + body)
        if len(body) > HIGH_WATER:  # the exchange counts as under way until the client has read most of it
            await self._connection.drain()

    async def json(self, status: int, value: Any, extra: Headers | None = None) -> None:
        await self.whole(status, jsontext.encode(value), extra)

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        self.begun, self.status = True, 200
        if self.observer:
            self.observer(200, b"")
        content = _STREAM % content_type.encode()
        if self._connection.chunked:
            content += b"transfer-encoding: chunked\r\n"
        else:
            self._connection.close = True
        self._connection.write(self._head(200, content, extra))

    async def piece(self, data: bytes) -> None:
        if data:
            if self.observer:
                self.observer(0, data)
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._connection.chunked else data)
        await self._connection.drain()

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        if data and self.observer:
            self.observer(0, data)
        if self._connection.chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        self._connection.write(data)
        await self._connection.drain()

    def _head(self, status: int, content: bytes, extra: Headers | None) -> bytes:
        lines = [
            _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status,
            self._connection.head_lines(),
            content,
        ]
        lines += [b"%b: %b\r\n" % header for header in self.headers]
        if extra:
            lines += [b"%b: %b\r\n" % header for header in extra]
        lines.append(b"\r\n")
        return b"".join(lines)


def plain_error(status: int, problem: str) -> bytes:
    """The response to a request that could not be parsed, so that its protocol is unknown."""
    body = problem.encode()
    head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return _STATUS_LINES[status] + head + body
