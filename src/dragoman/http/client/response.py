"""An answer under way: what arrives before it is asked for waits here, up to a mark."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts, TransportError

HIGH_WATER = 256 * 1024  # bytes waiting for a slow reader; beyond it the socket is not read
_INFLATED = 64 * 1024  # at most this much comes out of one step of decompression


class Carrier(Protocol):
    """The connection below a reply. `loop` is asked for once: in Python 3.11 each look is a system call."""

    loop: asyncio.AbstractEventLoop

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def cut(self) -> None:
        """The reply is over before its end."""

    def alarm(self, deadline: float) -> None:
        """Call `expired` of the reply some time after `deadline`, unless another one is set until then."""


class HttpReply:
    """`on_…` is what the connection says; the rest is what the reader asks."""

    def __init__(self, carrier: Carrier, timeouts: Timeouts) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._carrier, self._timeouts = carrier, timeouts
        self._chunks: list[bytes] = []
        self._waiting = 0  # bytes in there
        self._paused = self._done = False
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
        if "content-encoding" in headers:
            self._unpack(headers["content-encoding"].lower())
        if self._waiter:
            self._wake()

    def _unpack(self, encoding: str) -> None:
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)  # either wrapper, told from the first bytes
        elif encoding not in ("", "identity"):
            self.on_error(ReplyBroken(f"the answer is encoded as {encoding}, which nobody asked for", True))

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting > HIGH_WATER and not self._paused:
            self._paused = True
            self._carrier.pause()
        if self._waiter:
            self._wake()

    def on_end(self) -> None:
        self._done = True
        if self._paused:  # a pause is this reply's, not the next one's
            self._resume()
        if self._waiter:
            self._wake()

    def on_error(self, error: TransportError) -> None:
        if not self._done:
            self._error = error
            self.on_end()
            self._carrier.cut()

    # What the reader asks

    async def wait_for_head(self) -> None:
        while not (self.status or self._error):
            await self._wait()
        if self._error:  # perhaps a head that nobody can read the body of
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
            await self._wait()

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` is an error."""
        if self._done and self._waiting <= limit and not (self._error or self._inflate):
            return self._take()  # nearly always: it is all there
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
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        if self._inflate:
            data = self._inflated(data)
        if self._paused and self._waiting < HIGH_WATER // 2:
            self._resume()
        return data

    def _resume(self) -> None:
        self._paused = False
        self._carrier.resume()

    def _inflated(self, packed: bytes) -> bytes:
        """One step of decompression, in bounded pieces: a small answer may unfold to any size."""
        try:
            data = self._inflate.decompress(packed, _INFLATED)
        except zlib.error as error:
            raise self._broken(f"the answer's compression is broken: {error}") from None
        rest = self._inflate.unconsumed_tail
        if rest or len(data) == _INFLATED:
            self._chunks.append(rest)
            self._waiting = len(rest)
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

    def _wait(self) -> asyncio.Future[None]:
        carrier, timeouts = self._carrier, self._timeouts
        self._patience = timeouts.idle if self.status else timeouts.first_byte
        carrier.alarm(carrier.loop.time() + self._patience)
        self._waiter = waiter = carrier.loop.create_future()
        return waiter

    def expired(self) -> None:
        if self._waiter and not self._waiter.done():  # else the reader is slow, not the upstream
            what = "to go on" if self.status else "to answer"
            self.on_error(TimedOut(f"the upstream took more than {self._patience:g} s {what}", sent=True))

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():  # else its reader has left
            waiter.set_result(None)
