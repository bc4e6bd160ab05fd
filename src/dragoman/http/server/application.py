"""What an application gets: a request, whose body may still be arriving, and the writer of its response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote_to_bytes

import httptools
from msgspec import Struct, field

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.http.memory_budget import (
    BODY_WEIGHT,
    CALLER_MEMORY,
    UNLIMITED,
    MemoryBudget,
    MemoryFull,
    MemoryShare,
)

if TYPE_CHECKING:
    from dragoman.http.server.websocket import WebSocket

_SHORT = 64 * 1024


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class TooSlow(DragomanError):
    """The body arrives below the minimum rate."""

    def __init__(self) -> None:
        super().__init__("the body of the request took too long to arrive")


class TooLarge(DragomanError):
    """The body exceeds the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes")


class HeadMemo(Struct, eq=False):
    """What the application found in the head of a request: those of a connection whose heads are equal, but
    for the content-length, have the same memo."""

    found: Any = None


class ServerRequest(Struct, eq=False):
    """Header names are lower case; of repeated fields the last one counts. The path is percent-decoded.

    `address` is the IP address of the peer: the client, or a proxy before it. `started`: when its head began.
    `gone`: the client disconnected during the response, which cancels the application's task.
    """

    method: str
    path: str
    query: bytes
    headers: dict[str, str]
    http_1_1: bool = True
    keep_alive: bool = True
    started: float = 0.0
    address: str = ""
    memory: MemoryBudget | MemoryShare = UNLIMITED
    _on_read: Callable[[], object] = bool  # called when the application waits for the body
    memo: HeadMemo = field(default_factory=HeadMemo)
    size: int = 0
    complete: bool = False
    gone: bool = False
    discarded: bool = False
    _chunks: list[bytes] = []
    _held: int = 0  # bytes that `memory` counts
    _limit: int = 0  # of the reader that waits
    _waiter: asyncio.Future[None] | None = None

    def with_body(self, method: str, body: bytes) -> ServerRequest:
        """A request with the same head that came on the same connection, and has arrived whole."""
        request = ServerRequest(
            method, self.path, self.query, self.headers, True, True, self.started, self.address, self.memory
        )
        request.fill(body)
        return request

    def fill(self, body: bytes) -> None:
        """It has arrived whole."""
        self.size, self.complete = len(body), True
        self._chunks, self._held = [body], BODY_WEIGHT * self.size
        self.memory.used += self._held

    async def read(self, limit: int) -> bytes:
        """The whole body; raises TooLarge as soon as it is known to be longer than `limit`."""
        if self.size > limit or (not self.complete and self._content_length() > limit):
            raise TooLarge(limit)
        if not self.complete:
            self._limit = limit
            self._waiter = waiter = asyncio.get_running_loop().create_future()
            self._on_read()  # which may bring the rest of the body at once
            await waiter
        return self.take()

    def take(self) -> bytes:
        """A body that is complete."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @property
    def awaited(self) -> bool:
        """Whether the application waits for the body."""
        return self._waiter is not None

    def awaits(self, size: int) -> bool:
        """Whether the application waits for a body of which `size` more bytes are still to come."""
        return self._waiter is not None and size <= self._content_length() - self.size

    def body_framing(self) -> bytes:
        """The header that says where the body ends; empty: there is none."""
        if "transfer-encoding" in self.headers:
            return b"transfer-encoding: " + self.headers["transfer-encoding"].encode("latin-1")
        length = self._content_length()
        return b"content-length: %d" % length if length else b""

    def may_be_long(self) -> bool:
        """Whether the rest of the body may be too long, or may never come, to be read and discarded."""
        length = self._content_length()
        return not length or length - self.size > _SHORT or "expect" in self.headers

    def _content_length(self) -> int:
        """0 where the head does not say."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdigit() else 0

    # Called by the connection

    def feed(self, data: bytes) -> None:
        size = len(data)
        self.size += size
        if self.discarded:
            return
        self._chunks.append(data)
        memory, weight = self.memory, BODY_WEIGHT * size
        self._held += weight
        memory.used += weight
        if self._waiter and self.size > self._limit:
            self._wake(TooLarge(self._limit))
        elif memory.used >= memory.limit:
            self._wake(MemoryFull())

    def end(self) -> None:
        self.complete = True
        if self._waiter:
            self._wake(None)

    def disconnect(self) -> None:
        self.gone = True
        self._wake(ClientGone())

    def time_out(self) -> None:
        self._wake(TooSlow())

    def discard(self) -> None:
        """Drop what arrived and what is still to come."""
        self.discarded = True
        self._chunks.clear()
        self.release()

    def charge(self, memory: MemoryShare) -> None:
        """Count what it holds in `memory` from now on, and what its upstreams send."""
        self.memory.used -= self._held
        self.memory = memory
        memory.used += self._held
        CALLER_MEMORY.set(memory)

    def hold(self, size: int) -> None:
        """Count so many bytes more, or less where it is negative, until it is released."""
        self._held += size
        self.memory.used += size

    def release(self) -> None:
        """Its body does not count any more."""
        self.memory.used -= self._held
        self._held = 0

    def _wake(self, error: Exception | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():
            if error:
                waiter.set_exception(error)
            else:
                waiter.set_result(None)


def read_target(target: bytes, headers: dict[str, str]) -> tuple[str, bytes]:
    """Path and query of a request target that is no plain path: percent-encoded, or an absolute URL, whose
    host goes before the header (RFC 9112, section 3.2.2)."""
    if not target.startswith(b"/"):
        scheme, _, rest = target.partition(b"://")
        host = rest.partition(b"/")[0].partition(b"?")[0] if scheme.isalpha() else b""
        if host:
            headers["host"] = host.decode("latin-1")
        with suppress(httptools.HttpParserInvalidURLError):
            parsed = httptools.parse_url(target)
            target = (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
    path, _, query = target.partition(b"?")
    return unquote_to_bytes(path).decode("utf-8", "replace"), query


Headers = list[tuple[bytes, bytes]]

HIGH_WATER = 64 * 1024  # unsent bytes of a response; above it, writers wait for the client
_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_JSON = b"application/json"
_WHOLE = b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n%b"
# nginx buffers responses unless x-accel-buffering says no (nginx.org, ngx_http_proxy_module, proxy_buffering)
_STREAM = b"content-type: %b\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"


class ResponseConnection(Protocol):
    """The connection below a response. `close`: it is closed after this response. `full`: the client does not
    read, so that writers should wait.

    `chunked`: the client understands chunked encoding; for others (HTTP/1.0) the end of the connection ends
    the stream. `head_only`: the request's method was HEAD.
    """

    close: bool
    full: bool
    chunked: bool
    head_only: bool

    def head_lines(self) -> bytes:
        """The header lines that every response carries."""
        ...

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None:
        """Wait while the client does not read."""

    def upgrade(self, headers: Headers, max_size: int, /) -> WebSocket | None: ...


class ResponseWriter:
    """One response. `begun`: its status was sent and cannot change any more.

    `lines` are header lines that are sent whatever the response is. `observer` gets a copy of what is sent:
    (status, data) at the beginning, then (0, data). `before_end` is awaited before the response ends.
    """

    lines = b""
    before_end: Callable[[], Awaitable[None]] | None = None
    observer: Callable[[int, bytes], None] | None = None
    begun = ended = False
    status = 0

    def __init__(self, connection: ResponseConnection) -> None:
        self._connection = connection

    @property
    def headers(self) -> Headers:
        """What `lines` say."""
        pairs = [line.partition(b": ") for line in self.lines.splitlines()]
        return [(name, value) for name, _, value in pairs]

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        connection, size = self._connection, len(body)
        if self.before_end:
            await self.before_end()
        self.begun = self.ended = True
        self.status = status
        if self.observer:
            self.observer(status, body)
        line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        more = header_lines(extra) if extra else b""
        head = line, connection.head_lines(), kind or _JSON, size, self.lines, more
        if size <= HIGH_WATER:
            connection.write(_WHOLE % (*head, b"" if connection.head_only else body))
            return
        connection.write(_WHOLE % (*head, b""))
        if not connection.head_only:
            connection.write(body)
        del body  # the connection has what is left of it
        await connection.drain()  # the exchange counts as under way until the client has read most of it

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
        more = header_lines(extra) if extra else b""
        head = (_STATUS_LINES[200], self._connection.head_lines(), content, self.lines, more, b"\r\n")
        self._connection.write(b"".join(head))

    async def piece(self, data: bytes) -> None:
        if data:
            if self.observer:
                self.observer(0, data)
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._connection.chunked else data)
        await self._connection.drain()

    def push(self, data: bytes) -> bool:
        """Like `piece`, without the wait; True where the caller should `drain` before the next one."""
        connection = self._connection
        if self.observer:
            self.observer(0, data)
        connection.write(b"%x\r\n%b\r\n" % (len(data), data) if connection.chunked else data)
        return connection.full

    def drain(self) -> Coroutine[Any, Any, None]:
        return self._connection.drain()

    async def end(self, data: bytes = b"") -> None:
        if self.before_end:
            await self.before_end()
        self.ended = True
        if data and self.observer:
            self.observer(0, data)
        if self._connection.chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        self._connection.write(data)
        await self._connection.drain()

    def upgrade(self, max_size: int) -> WebSocket | None:
        """Switch to WebSocket, with messages of at most `max_size` bytes.

        None where the request is no valid upgrade; the response to that has been sent.
        """
        websocket = self._connection.upgrade(self.headers, max_size)
        self.begun, self.status = True, 101 if websocket else 400
        self.ended = websocket is None
        return websocket


def header_lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def plain_error(status: int, problem: str) -> bytes:
    """The response to a request that could not be parsed, so that its protocol is unknown."""
    body = problem.encode()
    head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return _STATUS_LINES[status] + head + body
