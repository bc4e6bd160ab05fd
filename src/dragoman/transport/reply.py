"""An answer under way: what arrives before it is asked for waits here, up to a mark."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Protocol

from dragoman.transport.messages import ReplyBroken, TimedOut, Timeouts, TransportError

HIGH_WATER = 256 * 1024  # bytes waiting for a slow reader; beyond it the socket is not read
_INFLATED = 64 * 1024  # at most this much comes out of one step of decompression


class Carrier(Protocol):
    """The connection below a reply. `loop` is asked for once: in Python 3.11 each look is a system call."""

    loop: asyncio.AbstractEventLoop

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def release(self, reusable: bool) -> None: ...

    def alarm(self, deadline: float) -> None:
        """Call `expired` of the reply some time after `deadline`, unless another one is set until then."""


class HttpReply:
    """`on_…` is what the connection says; the rest is what the reader asks."""

    def __init__(self, carrier: Carrier, timeouts: Timeouts) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._carrier: Carrier | None = carrier
        self._timeouts = timeouts
        self._loop = carrier.loop
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in there
        self._paused = False
        self._done = False
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._patience = 0.0  # seconds of the wait under way
        self._inflate: Any = None

    @property
    def waiting(self) -> int:
        """How many bytes have arrived and were not asked for yet."""
        return self._waiting

    # What the connection says

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        encoding = headers.get("content-encoding", "").lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)  # either wrapper, told from the first bytes
        elif encoding not in ("", "identity"):
            self.on_error(ReplyBroken(f"the answer is encoded as {encoding}, which nobody asked for", True))
        self._wake()

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting > HIGH_WATER and not self._paused and self._carrier:
            self._paused = True
            self._carrier.pause()
        self._wake()

    def on_end(self, reusable: bool) -> None:
        self._done = True
        self._release(reusable)

    def on_error(self, error: TransportError) -> None:
        if not self._done:
            self._error, self._done = error, True
            self._release(reusable=False)

    def _release(self, reusable: bool) -> None:
        carrier, self._carrier = self._carrier, None
        if carrier:
            if self._paused:  # a pause is this reply's, not the next one's
                carrier.resume()
            carrier.release(reusable)
        self._wake()

    # What the reader asks

    async def wait_for_head(self) -> None:
        while not self.status:
            if self._error:
                raise self._error
            await self._wait(self._timeouts.first_byte)
        if self._error:  # a head that nobody can read the body of
            raise self._error

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._chunks:
                chunk = self._take()
                if chunk:
                    return chunk
                continue
            if self._error:
                raise self._error
            if self._done:
                self._check_end()
                raise StopAsyncIteration
            await self._wait(self._timeouts.idle)

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` is an error."""
        if (
            self._done
            and len(self._chunks) == 1
            and self._waiting <= limit
            and not (self._error or self._inflate)
        ):
            return self._take()  # nearly always: it came in one piece
        pieces: list[bytes] = []
        size = 0
        async for chunk in self:
            size += len(chunk)
            if size > limit:
                self.close()
                raise ReplyBroken(f"the answer is longer than {limit} bytes", sent=True)
            pieces.append(chunk)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Leave the rest unread; the connection is cut, which cancels the request."""
        if not self._done:
            self.on_error(ReplyBroken("closed by the reader", sent=True))

    def _take(self) -> bytes:
        """What waits, in one piece."""
        if self._inflate:
            return self._inflated()
        chunks = self._chunks
        if len(chunks) == 1:
            chunk = chunks.popleft()
        else:
            chunk = b"".join(chunks)
            chunks.clear()
        self._taken(len(chunk))
        return chunk

    def _taken(self, size: int) -> None:
        self._waiting -= size
        if self._paused and self._carrier and self._waiting < HIGH_WATER // 2:
            self._paused = False
            self._carrier.resume()

    def _inflated(self) -> bytes:
        """One step of decompression, in bounded pieces: a small answer may unfold to any size."""
        packed = self._chunks.popleft()
        try:
            data = self._inflate.decompress(packed, _INFLATED)
        except zlib.error as error:
            raise self._broken(f"the answer's compression is broken: {error}") from None
        rest = self._inflate.unconsumed_tail
        if rest or len(data) == _INFLATED:
            self._chunks.appendleft(rest)
        self._taken(len(packed) - len(rest))
        return data

    def _broken(self, problem: str) -> ReplyBroken:
        error = ReplyBroken(problem, sent=True)
        self._chunks.clear()
        self.on_error(error)
        self._error = error
        return error

    def _check_end(self) -> None:
        if self._inflate and not self._inflate.eof:
            raise self._broken("the answer ended inside its compression")

    # Waiting

    async def _wait(self, seconds: float) -> None:
        self._waiter = self._loop.create_future()
        self._patience = seconds
        if self._carrier:
            self._carrier.alarm(self._loop.time() + seconds)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def expired(self) -> None:
        if self._waiter:  # else nobody waits: the reader is slow, not the upstream
            what = "to go on" if self.status else "to answer"
            self.on_error(TimedOut(f"the upstream took more than {self._patience:g} s {what}", sent=True))

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)
