"""One connection to an upstream, which carries one exchange at a time, and the reply as it arrives on it.

    IDLE      begin                              -> SENDING   (the request waits for the end of the iteration)
    SENDING   request written                    -> WAITING
    WAITING   a 1xx head                         -> WAITING
              final head                         -> BODY
    BODY      end of message, keep-alive         -> IDLE      (released to the pool)
              end of message, no keep-alive      -> CLOSED
              end of connection, no length given -> CLOSED    (that is the end of the body)
    any       end of connection, not HTTP,       -> CLOSED    (the reply raises ReplyBroken)
              bytes while IDLE or SENDING
    any       the reply is closed or timed out   -> CLOSED    (cancels the request at the upstream)

Bytes of a reply that its reader has not taken yet are buffered up to a high-water mark.
"""

from __future__ import annotations

import asyncio
import select
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httptools

from dragoman.core.headers import IGNORED, LOWER_NAMES
from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts, TransportError
from dragoman.http.client.address import Address
from dragoman.http.memory_budget import MemoryBudget
from dragoman.http.write_batch import WriteBatch

HIGH_WATER = 64 * 1024  # buffered bytes; above it the socket is not read. One read of it may be 256 KB
_PIECE = 16 * 1024  # most bytes that a reader of a stream gets, and translates, in one loop iteration
_INFLATED = 64 * 1024  # most bytes from one step of decompression


class HttpReply:
    """The connection calls the `on_…` methods, the reader the others."""

    def __init__(
        self, connection: ClientConnection, timeouts: Timeouts, memory: MemoryBudget | None = None
    ) -> None:
        self._memory = memory or MemoryBudget()
        self.status = 0
        self.headers: dict[str, str] = {}
        self._connection, self._timeouts = connection, timeouts
        self._chunks: list[bytes] = []
        self._buffered = 0  # bytes in there
        self._paused = self._done = self._partly_taken = False
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timeout = 0.0  # seconds of the current wait
        self._inflate: Any = None

    @property
    def buffered(self) -> int:
        """Bytes that arrived and were not read yet."""
        return self._buffered

    # Called by the connection

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        if "content-encoding" in headers:
            self._start_inflating(headers["content-encoding"].lower())
        if self._waiter:
            self._wake()

    def _start_inflating(self, encoding: str) -> None:
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)  # 32 + 15: detects gzip or zlib
        elif encoding not in ("", "identity"):
            self.on_error(ReplyBroken(f"the reply is encoded as {encoding}, which was not accepted"))

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)
        if (self._buffered > HIGH_WATER or self._memory.used >= self._memory.limit) and not self._paused:
            self._paused = True
            self._connection.pause()
        if self._waiter:
            self._wake()

    def on_end(self) -> None:
        self._done = True
        if self._paused:  # the next reply of this connection starts unpaused
            self._resume()
        if self._waiter:
            self._wake()

    def on_error(self, error: TransportError) -> None:
        if not self._done:
            self._error = error
            self.on_end()
            self._connection.cut()

    # Called by the reader

    async def wait_for_head(self) -> None:
        while not (self.status or self._error):
            await self._wait()
        if self._error:  # also for a head whose encoding is not supported
            raise self._error

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._chunks:
                if self._partly_taken:  # other tasks get their turn between two pieces
                    await asyncio.sleep(0)
                chunk = self._take(_PIECE)
                if chunk:
                    return chunk
                continue
            if self._error:
                raise self._error
            if self._done:
                self._check_end()
                raise StopAsyncIteration
            await self._wait()

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` is an error."""
        if self._done and self._buffered <= limit and not (self._error or self._inflate):
            return self._take(self._buffered)  # the usual case: everything has arrived
        pieces: list[bytes] = []
        size = 0
        try:
            async for chunk in self:
                size += len(chunk)
                self._memory.used += len(chunk)
                if size > limit:
                    self.close()
                    raise ReplyBroken(f"the reply is longer than {limit} bytes")
                pieces.append(chunk)
        finally:
            self._memory.used -= size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Before the end of the reply this closes the connection, which cancels the request."""
        if not self._done:
            self.on_error(ReplyBroken("closed by the reader"))

    def _take(self, most: int) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        self._partly_taken = len(data) > most
        if self._partly_taken:
            self._chunks.append(data[most:])
            self._buffered = len(data) - most
            data = data[:most]
        if self._inflate:
            data = self._inflated(data)
        if self._paused and self._buffered < HIGH_WATER // 2:
            self._resume()
        return data

    def _resume(self) -> None:
        self._paused = False
        self._connection.resume()

    def _inflated(self, packed: bytes) -> bytes:
        """One bounded step of decompression: a small reply may expand to any size."""
        try:
            data = self._inflate.decompress(packed, _INFLATED)
        except zlib.error as error:
            raise self._broken(f"the reply's compression is broken: {error}") from None
        rest = self._inflate.unconsumed_tail
        if rest or len(data) == _INFLATED:
            self._chunks.insert(0, rest)
            self._buffered += len(rest)
        return data

    def _broken(self, problem: str) -> ReplyBroken:
        error = ReplyBroken(problem)
        self._chunks.clear()
        self.on_error(error)
        self._error = error
        return error

    def _check_end(self) -> None:
        if self._inflate and not self._inflate.eof:
            raise self._broken("the reply ended inside its compression")

    # Waiting

    def _wait(self) -> asyncio.Future[None]:
        connection, timeouts = self._connection, self._timeouts
        self._timeout = timeouts.idle if self.status else timeouts.first_byte
        connection.set_deadline(connection.loop.time() + self._timeout)
        self._waiter = waiter = connection.loop.create_future()
        return waiter

    def time_out(self) -> None:
        if self._waiter and not self._waiter.done():  # else the reader is slow, not the upstream
            what = "to go on" if self.status else "to answer"
            self.on_error(TimedOut(f"the upstream took more than {self._timeout:g} s {what}"))

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():  # else its reader was cancelled
            waiter.set_result(None)


MAX_HEAD = 64 * 1024
_TRUSTED = 1.0  # seconds for which an idle connection is assumed to be open without a check


class ClientConnection(asyncio.Protocol):
    """`release` returns it to the pool; it is a member of `open_connections` while its socket is open."""

    def __init__(
        self,
        address: Address,
        open_connections: set[ClientConnection],
        release: Callable[[ClientConnection], None],
        batch: WriteBatch,
    ) -> None:
        self.address, self.closed = address, False
        self.loop, self._batch = batch.loop, batch  # get_running_loop calls getpid in Python 3.11
        self._sending = False
        self.idle_since = 0.0
        self._open_connections, self._release = open_connections, release
        self._transport: Any = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._reply: HttpReply | None = None
        self._headers: dict[str, str] = IGNORED  # in WAITING, those of the head
        self._head_size = 0
        self._until_close = False
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, reply: HttpReply, head: bytes, body: bytes) -> None:
        self._reply, self._headers, self._head_size = reply, {}, 0
        self._sending = True
        self._batch.put(self._send, head + body)

    def _send(self, request: bytes) -> None:
        self._sending = False
        if not self._transport.is_closing():  # else connection_lost fails the reply
            self._transport.write(request)

    def is_usable(self, now: float, keep_for: float) -> bool:
        """Whether another request may be sent. The loop may not have noticed yet that the peer closed."""
        idle = now - self.idle_since
        if self.closed or self._transport.is_closing() or idle > keep_for:
            return False
        return idle < _TRUSTED or not _is_readable(self._transport.get_extra_info("socket").fileno())

    def abort(self) -> None:
        self.closed = True
        self._cancel_timer()
        self._open_connections.discard(self)
        if self._transport:
            self._transport.abort()

    # Called by the reply

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed:
            self._transport.resume_reading()

    def cut(self) -> None:
        self._reply = None
        self.abort()

    # One timer serves all waits of all replies: when it fires it compares the deadline, which may have moved

    def set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is None or self._timer_at > deadline:
            self._cancel_timer()
            self._timer_at = deadline
            self._timer = self.loop.call_at(deadline, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self._reply is None:
            return
        if self._deadline > self._timer_at:
            self.set_deadline(self._deadline)
        else:
            self._reply.time_out()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self.closed:  # the connect was cancelled
            self._transport.abort()
        else:
            self._open_connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._reply is None or self._sending:
            self._fail("the upstream replied before the request was sent")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the reply is not HTTP: {error}")
        except httptools.HttpParserUpgrade:
            self._fail("the upstream switched to another protocol")
        if self._headers is IGNORED:
            return
        self._head_size += len(data)
        if self._head_size > MAX_HEAD:
            self._fail(f"the head of the reply is larger than {MAX_HEAD} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._cancel_timer()
        self._open_connections.discard(self)
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self._until_close and exc is None:
            reply.on_end()
        else:
            reply.on_error(ReplyBroken("the upstream closed the connection before its answer ended"))

    def _fail(self, problem: str) -> None:
        reply = self._reply
        self.abort()
        if reply:
            reply.on_error(ReplyBroken(problem))

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._reply is None:  # a second reply to one request
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[LOWER_NAMES[name]] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if status < 200:  # 100 Continue, 103 Early Hints: the final head follows
            self._headers = {}
            return
        self._headers = IGNORED
        if "content-length" not in headers:
            chunked = "chunked" in headers.get("transfer-encoding", "").lower()
            self._until_close = not chunked and status not in (204, 304)
        if self._reply:
            self._reply.on_head(status, headers)

    def on_body(self, data: bytes) -> None:
        if self._reply:
            self._reply.on_body(data)

    def on_message_complete(self) -> None:
        reply = self._reply
        if reply is None or self._headers is not IGNORED:
            return
        self._reply = None
        reply.on_end()
        reusable = self._parser.should_keep_alive() and not self.closed
        if reusable and self._transport.get_write_buffer_size() == 0:
            self._release(self)
        else:
            self.abort()


def _is_readable(descriptor: int) -> bool:
    """A readable idle connection was closed by the peer."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
