"""A thin HTTP/1.1 client on httptools: keep-alive connections, streaming bodies, backpressure.

The upstream client is where a gateway's time goes: a general HTTP library costs more than the
whole translation. This one does what an LLM upstream needs and nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import httptools

from dragoman.transport.address import Address, address_of
from dragoman.transport.messages import ConnectFailed, ReplyBroken, TimedOut, Timeouts, TransportError

_HIGH_WATER = 256 * 1024  # bytes waiting for a slow reader; beyond it the socket is not read
_LARGEST_HEAD = 64 * 1024


class Client:
    """A pool of connections, one list of idle ones for each address."""

    def __init__(self, keep_idle: int = 64, tls: ssl.SSLContext | None = None) -> None:
        self._idle: dict[Address, list[_Connection]] = {}
        self._keep_idle, self._tls = keep_idle, tls
        self._open: set[_Connection] = set()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> HttpReply:
        """Send one request and wait for the head of its answer."""
        address, path = address_of(url)
        connection = self._take(address) or await self._connect(address, timeouts)
        reply = HttpReply(connection, timeouts, self._give_back)
        try:
            connection.begin(reply, _head(method, path, address, headers, len(body)) + body)
            await reply.wait_for_head()
        except BaseException:
            reply.close()
            raise
        return reply

    async def close(self) -> None:
        for connection in tuple(self._open):
            connection.abort()
        self._idle.clear()

    @property
    def connections(self) -> int:
        return len(self._open)

    def _take(self, address: Address) -> _Connection | None:
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self, address: Address, timeouts: Timeouts) -> _Connection:
        loop = asyncio.get_running_loop()
        tls = (self._tls or ssl.create_default_context()) if address.tls else None
        if tls and self._tls is None:
            self._tls = tls  # building one reads the certificate store
        try:
            async with asyncio.timeout(timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: _Connection(address, self._open),
                    address.host,
                    address.port,
                    ssl=tls,
                    server_hostname=address.host if tls else None,
                )
        except TimeoutError:
            raise ConnectFailed(f"no connection to {address} within {timeouts.connect:g} s") from None
        except OSError as error:
            raise ConnectFailed(f"no connection to {address}: {error.strerror or error}") from None
        return connection

    def _give_back(self, connection: _Connection) -> None:
        idle = self._idle.setdefault(connection.address, [])
        if len(idle) < self._keep_idle and not connection.closed:
            idle.append(connection)
        else:
            connection.abort()


class HttpReply:
    """An answer under way; what arrives before it is asked for waits here, up to a mark."""

    def __init__(
        self, connection: _Connection, timeouts: Timeouts, give_back: Callable[[_Connection], None]
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._connection: _Connection | None = connection
        self._timeouts, self._give_back = timeouts, give_back
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._paused = False
        self._done = False
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._inflate: Any = None

    # What the connection says

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        encoding = headers.get("content-encoding", "").lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)  # either wrapper, told from the first bytes
        elif encoding not in ("", "identity"):
            self.on_error(
                ReplyBroken(f"the answer is encoded as {encoding}, which nobody asked for", sent=True)
            )
        self._wake()

    def on_body(self, data: bytes) -> None:
        if self._inflate:
            try:
                data = self._inflate.decompress(data)
            except zlib.error as error:
                self.on_error(ReplyBroken(f"the answer's compression is broken: {error}", sent=True))
                return
        if not data:
            return
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting > _HIGH_WATER and not self._paused and self._connection:
            self._paused = True
            self._connection.pause()
        self._wake()

    def on_end(self, reusable: bool) -> None:
        self._done = True
        connection, self._connection = self._connection, None
        if connection:
            self._give_back(connection) if reusable else connection.abort()
        self._wake()

    def on_error(self, error: TransportError) -> None:
        if self._done:
            return
        self._error, self._done = error, True
        connection, self._connection = self._connection, None
        if connection:
            connection.abort()
        self._wake()

    # What the reader asks

    async def wait_for_head(self) -> None:
        while not self.status:
            if self._error:
                raise self._error
            await self._wait(self._timeouts.first_byte, "to answer")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            chunk = await self._next()
            if chunk is None:
                return
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` is an error."""
        pieces: list[bytes] = []
        size = 0
        async for chunk in self:
            size += len(chunk)
            if size > limit:
                self.close()
                raise ReplyBroken(f"the answer is longer than {limit} bytes", sent=True)
            pieces.append(chunk)
        return b"".join(pieces)

    def close(self) -> None:
        """Leave the rest unread; the connection is cut, which cancels the request."""
        if not self._done:
            self.on_error(ReplyBroken("closed by the reader", sent=True))

    async def _next(self) -> bytes | None:
        while not self._chunks:
            if self._error:
                raise self._error
            if self._done:
                return None
            await self._wait(self._timeouts.idle, "to go on")
        chunk = self._chunks.popleft() if len(self._chunks) == 1 else self._all()
        self._waiting -= len(chunk)
        if self._paused and self._connection and self._waiting < _HIGH_WATER // 2:
            self._paused = False
            self._connection.resume()
        return chunk

    def _all(self) -> bytes:
        joined = b"".join(self._chunks)
        self._chunks.clear()
        return joined

    async def _wait(self, seconds: float, what: str) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._give_up, seconds, what)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _give_up(self, seconds: float, what: str) -> None:
        self.on_error(TimedOut(f"the upstream took more than {seconds:g} s {what}", sent=True))

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """One socket and its parser; it serves one reply at a time."""

    def __init__(self, address: Address, open: set[_Connection]) -> None:
        self.address, self.closed = address, False
        self._open = open
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._reply: HttpReply | None = None
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._until_close = False

    def begin(self, reply: HttpReply, request: bytes) -> None:
        self._reply, self._headers, self._head_size = reply, {}, 0
        self._until_close = False
        self._parser = httptools.HttpResponseParser(self)
        assert self._transport is not None
        self._transport.write(request)

    def pause(self) -> None:
        if self._transport:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and not self.closed:
            self._transport.resume_reading()

    def abort(self) -> None:
        self.closed = True
        self._open.discard(self)
        if self._transport:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        if self._reply is None:  # an answer to nothing: the peer is confused, or is saying goodbye
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._open.discard(self)
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self._until_close and exc is None:
            reply.on_end(reusable=False)
        else:
            reply.on_error(
                ReplyBroken("the upstream closed the connection before its answer ended", sent=True)
            )

    def _fail(self, problem: str) -> None:
        reply, self._reply = self._reply, None
        self.abort()
        if reply:
            reply.on_error(ReplyBroken(problem, sent=True))

    # httptools callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > _LARGEST_HEAD:
            raise httptools.HttpParserError("its head is too large")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue and its kin: the answer is still to come
            self._headers = {}
            return
        headers = self._headers
        chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._until_close = not chunked and "content-length" not in headers and status not in (204, 304)
        if self._reply:
            self._reply.on_head(status, headers)

    def on_body(self, data: bytes) -> None:
        if self._reply:
            self._reply.on_body(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            return
        reply, self._reply = self._reply, None
        if reply:
            reply.on_end(reusable=self._parser.should_keep_alive() and not self._until_close)


def _head(method: str, path: str, address: Address, headers: dict[str, str], length: int) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: {address.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if length or method not in ("GET", "HEAD"):
        lines.append(f"content-length: {length}")
    return "\r\n".join([*lines, "accept-encoding: identity", "", ""]).encode("latin-1")
