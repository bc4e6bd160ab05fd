"""A reply as it arrives. A reader takes its pieces, or gives a sink that gets each of them at once.

BUFFERING  a piece arrives                  -> BUFFERING  (above HIGH_WATER the socket is not read)
           `stream_into`, nothing buffered  -> PUSHING
PUSHING    a piece arrives                  -> PUSHING    (the sink gets it)
           the sink is full or raises, or
           a piece is large                 -> BUFFERING  (the reader wakes)
any        end of the reply, error, timeout -> DONE       (the reader wakes)
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts, TransportError
from dragoman.http.memory_budget import MemoryBudget, MemoryFull, MemoryShare

HIGH_WATER = 64 * 1024  # buffered bytes; above it the socket is not read. One read of it may be 256 KB
_PART_OF_ENCODING = b"t-enc"  # of "content-encoding"; so short a word is found much faster
_RESERVED = 256 * 1024  # bytes that are counted at a time, of a whole reply without a length
_ROOM_EVERY = 0.05  # seconds
_PIECE = 16 * 1024  # most bytes that a reader of a stream gets, and translates, in one loop iteration
_INFLATED = 64 * 1024  # most bytes from one step of decompression
_GZIP = b"\x1f"  # the first byte of each member


class ReplyConnection(Protocol):
    """The connection below a reply. A later `deadline` than the one that was set may be assigned."""

    loop: asyncio.AbstractEventLoop
    deadline: float

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def cut(self) -> None:
        """Close the connection before the end of the reply."""

    def set_deadline(self, deadline: float) -> None:
        """Call the reply's `time_out` after `deadline`, unless another one is set before."""


Sink = Callable[[bytes], bool]  # True: it takes no more for now
StreamInto = Callable[[Sink], Awaitable[bool]]  # see HttpReply.stream_into


class HttpReply:
    """The connection calls the `on_…` methods, the reader the others. `status` is 0 until the head arrives;
    a reader who finds no `error` after it can read the body."""

    status = 0
    _head = b""
    _headers: dict[str, str] | None = None
    _paused = _done = _partly_taken = False
    error: TransportError | None = None
    _waiter: asyncio.Future[None] | None = None
    _timeout = 0.0  # seconds of the current wait
    _inflate: Any = None
    _sink: Sink | None = None  # what gets pieces at once, while its reader waits for them
    _stopped = False  # by the sink
    _raised: Exception | None = None  # in the sink

    def __init__(
        self,
        connection: ReplyConnection,
        timeouts: Timeouts,
        memory: MemoryBudget | MemoryShare | None = None,
    ) -> None:
        self._memory = memory or MemoryBudget()
        self._connection, self._timeouts = connection, timeouts
        self._chunks: list[bytes] = []
        self._buffered = 0  # bytes in there

    @property
    def headers(self) -> dict[str, str]:
        """Parsed when they are read: nobody reads those of most replies. Of repeated ones the last counts."""
        if self._headers is None:
            headers: dict[str, str] = {}
            self._headers = headers
            for line in self._head.decode("latin-1").split("\r\n")[1:]:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip(" \t")
        return self._headers

    @property
    def buffered(self) -> int:
        """Bytes that arrived and were not read yet."""
        return self._buffered

    # Called by the connection

    def on_head(self, status: int, head: bytes) -> None:
        """`head` is valid HTTP, without the empty line at its end."""
        self.status, self._head = status, head
        if head.lower().find(_PART_OF_ENCODING) > 0 and "content-encoding" in self.headers:
            encoding = self.headers["content-encoding"].lower()
            if encoding in ("gzip", "x-gzip", "deflate"):
                self._inflate = _new_inflate()
            elif encoding not in ("", "identity"):
                self.on_error(ReplyBroken(f"the reply is encoded as {encoding}, which was not accepted"))
        if self._waiter:
            self._wake()

    def on_body(self, data: bytes) -> None:
        sink, connection = self._sink, self._connection
        if sink and len(data) <= _PIECE:
            connection.deadline = connection.loop.time() + self._timeout
            try:
                self._stopped = sink(data)
            except Exception as error:
                self._raised = error
            if self._stopped or self._raised:
                self._sink = None
                self._wake()
            return
        self._chunks.append(data)
        self._buffered += len(data)
        if (self._buffered > HIGH_WATER or self._memory.used >= self._memory.limit) and not self._paused:
            self._paused = True
            connection.pause()
        if self._waiter:
            self._wake()

    def on_end(self) -> None:
        self._done = True
        if self._paused:  # the next reply of this connection starts unpaused
            self._resume()
        if self._waiter:
            self._wake()

    def ends_with_connection(self) -> bool:
        """Whether nothing else says where the body ends (RFC 9112, section 6.3)."""
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        has_body = self.status and self.status not in (204, 304)
        return bool(has_body) and not chunked and "content-length" not in self.headers

    def on_error(self, error: TransportError) -> None:
        if not self._done:
            self.error = error
            self.on_end()
            self._connection.cut()

    # Called by the reader

    def wait(self) -> asyncio.Future[None]:
        """Done as soon as something arrives: at first the head, then a piece, the end or an error."""
        connection, timeouts = self._connection, self._timeouts
        self._timeout = timeouts.idle if self.status else timeouts.first_byte
        connection.set_deadline(connection.loop.time() + self._timeout)
        self._waiter = waiter = connection.loop.create_future()
        return waiter

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
            if self.error:
                raise self.error
            if self._done:
                if self._inflate:
                    self._check_end()
                raise StopAsyncIteration
            await self.wait()

    async def stream_into(self, sink: Sink) -> bool:
        """Give the pieces to `sink` as they arrive, without waking this task for each of them.

        True: the sink returned True, and gets the rest at the next call; False: the reply ended.
        """
        while True:
            while self._chunks:
                if self._partly_taken:  # other tasks get their turn between two pieces
                    await asyncio.sleep(0)
                chunk = self._take(_PIECE)
                if chunk and sink(chunk):
                    return True
            if self.error:
                raise self.error
            if self._done:
                if self._inflate:
                    self._check_end()
                return False
            if not self._inflate:
                self._sink = sink
            try:
                await self.wait()
            finally:
                self._sink = None
            if self._raised:
                try:
                    raise self._raised
                finally:
                    self._raised = None  # its traceback refers to this frame
            if self._stopped:
                self._stopped = False
                return True

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` is an error."""
        if self._done and self._buffered <= limit and not (self.error or self._inflate):
            chunks, self._chunks, self._buffered = self._chunks, [], 0  # usually: everything has arrived
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        body = bytearray()  # not a list: many small pieces would stay in the heap after they are freed
        reserved = 0
        length = self.headers.get("content-length", "") if not self._inflate else ""
        try:
            if length.isdigit():
                reserved += await self._reserve(min(int(length), limit))
            async for chunk in self:
                body += chunk
                if len(body) > limit:
                    self.close()
                    raise ReplyBroken(f"the reply is longer than {limit} bytes")
                if len(body) > reserved:
                    reserved += await self._reserve(max(len(body) - reserved, _RESERVED), reserved)
        finally:
            self._memory.used -= reserved
            if self._memory.budget.overdrawn_by is self:
                self._memory.budget.overdrawn_by = None
        return bytes(body)

    async def _reserve(self, size: int, reserved: int = 0) -> int:
        """Count `size` bytes, beside those that are `reserved`, before they are read.

        Where others fill the memory, their clients may soon have read it. MemoryFull after as long
        as an upstream may be silent."""
        loop = self._connection.loop
        until = loop.time() + self._timeouts.idle
        while not self._has_room(size, reserved):
            if loop.time() > until:
                self.close()
                raise MemoryFull
            await asyncio.sleep(_ROOM_EVERY)
        self._memory.used += size
        return size

    def _has_room(self, size: int, reserved: int) -> bool:
        """What is larger than the memory that is left goes on too, but one reply at a time."""
        memory = self._memory
        if memory.used + size <= memory.limit:
            return True
        budget = memory.budget
        if memory.used - reserved >= memory.limit or budget.overdrawn_by not in (None, self):
            return False
        budget.overdrawn_by = self
        return True

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
            data = self._inflate_some(data)
        if self._paused and self._buffered < HIGH_WATER // 2:
            self._resume()
        return data

    def _resume(self) -> None:
        self._paused = False
        self._connection.resume()

    def _inflate_some(self, packed: bytes) -> bytes:
        """One bounded step of decompression: a small reply may expand to any size. What follows the end is
        another member of gzip (RFC 1952, section 2.2), or padding, which is left out."""
        if self._inflate.eof:
            if not packed.startswith(_GZIP):
                return b""
            self._inflate = _new_inflate()
        try:
            data = self._inflate.decompress(packed, _INFLATED)
        except zlib.error as error:
            raise self._break_off(f"the reply's compression is broken: {error}") from None
        rest = self._inflate.unconsumed_tail or self._inflate.unused_data
        if rest or len(data) == _INFLATED:
            self._chunks.insert(0, rest)
            self._buffered += len(rest)
        return data

    def _break_off(self, problem: str) -> ReplyBroken:
        error = ReplyBroken(problem)
        self._chunks.clear()
        self.on_error(error)
        self.error = error
        return error

    def _check_end(self) -> None:
        if not self._inflate.eof:
            raise self._break_off("the reply ended inside its compression")

    def time_out(self) -> None:
        if self._waiter and not self._waiter.done():  # else the reader is slow, not the upstream
            what = "to go on" if self.status else "to answer"
            self.on_error(TimedOut(f"the upstream took more than {self._timeout:g} s {what}"))

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():  # else its reader was cancelled
            waiter.set_result(None)


def _new_inflate() -> Any:
    return zlib.decompressobj(47)  # 32 + 15: detects gzip or zlib
