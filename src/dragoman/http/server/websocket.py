"""A connection after its upgrade to WebSocket: text messages in both directions.

`websockets` parses and writes frames and answers pings; the socket is that of the HTTP connection.

    OPEN      a close frame arrives, or the peer disconnects  -> CLOSED   (`receive` gives None)
    OPEN      the server shuts down                           -> STOPPING (`receive` gives None; `send` works)
    OPEN      `close`, a malformed or too large message       -> CLOSING  (our close frame is sent)
    STOPPING  `close`                                         -> CLOSING
    CLOSING   the peer's close frame, or `linger` seconds     -> CLOSED

Reading pauses while `_MOST_QUEUED` messages wait to be received. A peer that sends nothing for `_PING_AFTER`
seconds gets a ping, and is disconnected where nothing follows for as long again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from dragoman.http.memory_budget import MemoryBudget
from dragoman.http.server.application import Headers

if TYPE_CHECKING:
    from websockets.protocol import Protocol as FrameProtocol

_PING_AFTER = 30.0
_MOST_QUEUED = 16
NORMAL, GOING_AWAY, UNSUPPORTED, INTERNAL, TRY_AGAIN = 1000, 1001, 1003, 1011, 1013


class SocketConnection(Protocol):
    """The connection below."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...

    def pause_socket(self) -> None: ...

    def resume_socket(self) -> None: ...

    def end_socket(self) -> None:
        """No more data will be written."""


class WebSocket:
    """See the states above. `open`: messages may be sent; `stopping`: the server shuts down."""

    def __init__(self, connection: SocketConnection, max_size: int, memory: MemoryBudget) -> None:
        from websockets.protocol import Protocol, Side

        self._connection, self._memory = connection, memory
        self._frames: FrameProtocol = Protocol(Side.SERVER, max_size=max_size)
        self._messages: deque[bytes] = deque()
        self._fragments: list[bytes] = []
        self._held = 0  # bytes that `memory` counts
        self._waiter: asyncio.Future[None] | None = None
        self._paused = self._pinged = False
        self._heard = -1.0  # when something arrived, at the last tick
        self._ended = False
        self.stopping = False

    @property
    def open(self) -> bool:
        return not self._ended and self._frames.close_sent is None and self._frames.close_rcvd is None

    async def receive(self) -> bytes | None:
        """The next text message; None where the peer closed, or the server shuts down."""
        while not self._messages:
            if self.stopping or not self.open:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._messages.popleft()
        self._memory.used -= len(message)
        if self._paused and len(self._messages) < _MOST_QUEUED // 2:
            self._paused = False
            self._connection.resume_socket()
        return message

    async def send(self, text: bytes) -> None:
        """Waits while the peer does not read. Does nothing once the connection is closing."""
        if self.open:
            self._frames.send_text(text)
            self._flush()
            await self._connection.drain()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        if self.open:
            self._frames.send_close(code, reason)
            self._flush()

    # Called by the connection

    def feed(self, data: bytes) -> None:
        self._heard, self._pinged = -1.0, False
        self._held += len(data)
        self._memory.used += len(data)
        self._frames.receive_data(data)
        for frame in self._frames.events_received():
            self._receive_frame(frame)
        if self._memory.used >= self._memory.limit and self.open:
            self._frames.fail(TRY_AGAIN, "the server holds as much memory as it may")
        self._flush()
        if not self.open:
            self._wake()

    def lost(self) -> None:
        """The peer disconnected: what it sent before is not answered."""
        self._ended = True
        self._release()
        self._memory.used -= sum(map(len, self._messages))
        self._messages.clear()
        self._wake()

    def shut_down(self) -> None:
        self.stopping = True
        self._wake()

    def tick(self, now: float) -> bool:
        """Once a second. False: the peer does not answer."""
        if self._heard < 0:
            self._heard = now
        elif now - self._heard > _PING_AFTER and not self._paused:
            if self._pinged or not self.open:
                return False
            self._pinged, self._heard = True, now
            self._frames.send_ping(b"")
            self._flush()
        return True

    def _receive_frame(self, frame: object) -> None:
        from websockets.frames import Frame, Opcode

        if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is Opcode.BINARY:
            self._frames.fail(UNSUPPORTED, "only text messages are understood")
            return
        self._fragments.append(bytes(frame.data))
        if frame.fin:
            message = b"".join(self._fragments)
            self._fragments.clear()
            self._release()
            self._messages.append(message)
            self._memory.used += len(message)
            self._wake()
            if len(self._messages) >= _MOST_QUEUED and not self._paused:
                self._paused = True
                self._connection.pause_socket()

    def _release(self) -> None:
        self._memory.used -= self._held
        self._held = 0

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():
            waiter.set_result(None)

    def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data:
                self._connection.write(data)
            else:  # both close frames were sent
                self._ended = True
                self._connection.end_socket()


def handshake(target: str, headers: Iterable[tuple[str, str]], more: Headers) -> tuple[int, bytes]:
    """The response to an upgrade: status and bytes. Other statuses than 101 refuse it."""
    from websockets.datastructures import Headers as SocketHeaders
    from websockets.http11 import Request
    from websockets.server import ServerProtocol

    response = ServerProtocol().accept(Request(target, SocketHeaders(headers)))
    for name, value in more:
        response.headers[name.decode()] = value.decode()
    return response.status_code, response.serialize()
