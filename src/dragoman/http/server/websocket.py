"""A connection after its upgrade to WebSocket: text messages in both directions.

`websockets` parses and writes frames and answers pings; the socket is that of the HTTP connection.

    OPEN      a close frame arrives, or the peer disconnects  -> CLOSED   (`receive` gives None)
    OPEN      the server shuts down                           -> STOPPING (`receive` gives None; `send` works)
    OPEN      `close`, a malformed or too large message       -> CLOSING  (our close frame is sent)
    STOPPING  `close`                                         -> CLOSING
    CLOSING   the peer's close frame, or `linger` seconds     -> CLOSED

A frame of two bytes costs as much as a large one. So frames are counted, not bytes: `_FRAMES` are parsed at
a time, then the event loop has its turn. Reading is paused meanwhile, and also while `_MOST_QUEUED` messages
wait to be received or the peer does not read. So at most one read of the socket is unparsed, and no pongs
pile up.

A peer that sends nothing for `_PING_AFTER` seconds gets a ping, and is disconnected where nothing follows for
as long again. One that sends more than `_CONTROLS` control frames a second, a message of crumbs, or a message
slower than a request body may be, is disconnected too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from dragoman.http.memory_budget import MemoryBudget, MemoryShare
from dragoman.http.server.application import Headers

if TYPE_CHECKING:
    from websockets.protocol import Protocol as FrameProtocol

_PING_AFTER = 30.0
_MOST_QUEUED = 16
_FRAMES = 32  # parsed at a time: about 1 ms
_CONTROLS = 64  # a second
_FRAGMENTS = 1024  # of a message; one with more must have _CRUMB bytes in each on average
_CRUMB = 1024
NORMAL, GOING_AWAY, UNSUPPORTED, POLICY, INTERNAL, TRY_AGAIN = 1000, 1001, 1003, 1008, 1011, 1013


class SocketConnection(Protocol):
    """The connection below."""

    full: bool  # the peer does not read

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def end_socket(self) -> None:
        """No more data will be written."""


class FrameHeads:
    """Finds where frames begin and end, by their heads alone (RFC 6455, section 5.2)."""

    def __init__(self) -> None:
        self._head = b""  # of a frame whose head has not arrived whole
        self._left = 0  # bytes of the payload that are still to come
        self.partial = 0  # bytes that arrived of a frame that is not whole
        self.controls = 0  # control frames that began

    def cut(self, data: bytes, start: int, frames: int) -> int:
        """The place in `data` up to which at most `frames` more frames begin."""
        at, end = start, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                self.partial += step
                at += step
            elif not frames and not self._head:
                break
            else:
                needed = _head_size(self._head) - len(self._head)
                piece = data[at : at + needed]
                self._head += piece
                self.partial += len(piece)
                at += len(piece)
                if len(piece) == needed and len(self._head) == _head_size(self._head):
                    frames -= 1
                    self._begin()
            if not self._left and not self._head:
                self.partial = 0
        return at

    def _begin(self) -> None:
        head, self._head = self._head, b""
        length = head[1] & 0x7F
        extended = head[2 : 2 + _LENGTHS.get(length, 0)]
        self._left = int.from_bytes(extended, "big") if extended else length
        self.controls += head[0] >> 3 & 1


_LENGTHS = {126: 2, 127: 8}  # bytes of the length that follow
_MASK = 4  # bytes


def _head_size(head: bytes) -> int:
    """As far as its first bytes tell."""
    if len(head) < 2:
        return 2
    return 2 + _LENGTHS.get(head[1] & 0x7F, 0) + (_MASK if head[1] & 0x80 else 0)


class WebSocket:
    """See the states above. `open`: messages may be sent; `stopping`: the server shuts down.

    A message may take `seconds`, and one more for each `min_rate` bytes of it."""

    def __init__(
        self,
        connection: SocketConnection,
        max_size: int,
        memory: MemoryBudget | MemoryShare,
        seconds: float = 60.0,
        min_rate: int = 2048,
    ) -> None:
        from websockets.protocol import Protocol, Side

        self._connection, self._memory = connection, memory
        self._seconds, self._min_rate = seconds, min_rate
        self._frames: FrameProtocol = Protocol(Side.SERVER, max_size=max_size)
        self._heads = FrameHeads()
        self._unparsed, self._at = b"", 0
        self._scheduled: asyncio.Handle | None = None  # the next frames
        self._messages: deque[bytes] = deque()
        self._fragments: list[bytes] = []
        self._size = 0  # bytes in there
        self._held = 0  # bytes that `memory` counts, beside the messages
        self._waiter: asyncio.Future[None] | None = None
        self._paused = self._pinged = False
        self._heard = -1.0  # when something arrived, at the last tick
        self._began = -1.0  # when the message began that is not whole, at a tick
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
        if len(self._messages) < _MOST_QUEUED // 2:
            self.resume()
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
        self._unparsed = self._unparsed[self._at :] + data if self._unparsed else data
        self._at = 0
        if self._scheduled or (self._paused and self._must_wait()):  # TLS may still deliver what it has read
            self._count()
        else:
            self._parse()

    def resume(self) -> None:
        """Messages were taken, or the peer has read. A reader that never waits must not stop the loop."""
        if self.open and self._paused and not self._scheduled and not self._must_wait():
            self._scheduled = asyncio.get_running_loop().call_soon(self._parse)

    def lose_peer(self) -> None:
        """The peer disconnected: what it sent before is not answered."""
        self._ended = True
        self._memory.used -= sum(map(len, self._messages))
        self._messages.clear()
        self._drop()
        _break_cycles(self._frames)
        self._wake()

    def shut_down(self) -> None:
        self.stopping = True
        self._wake()

    def tick(self, now: float) -> bool:
        """Once a second. False: the peer does not answer."""
        self._heads.controls = 0
        if not (self._fragments or self._heads.partial):
            self._began = -1.0
        elif self._began < 0:
            self._began = now
        elif now - self._began > self._seconds + (self._size + self._heads.partial) / self._min_rate:
            self._fail(POLICY, "the message took too long")
        if self._heard < 0:
            self._heard = now
        elif now - self._heard > _PING_AFTER and not self._paused:
            if self._pinged or not self.open:
                return False
            self._pinged, self._heard = True, now
            self._frames.send_ping(b"")
            self._flush()
        return True

    def _parse(self) -> None:
        """Some frames, and then, after a turn of the event loop, the next ones."""
        self._scheduled = None
        start, self._at = self._at, self._heads.cut(self._unparsed, self._at, _FRAMES)
        data = self._unparsed[start : self._at]
        if self._at == len(self._unparsed):
            self._unparsed, self._at = b"", 0
        if data:
            self._frames.receive_data(data)
        for frame in self._frames.events_received():
            self._receive_frame(frame)
        self._count()
        if self._memory.used >= self._memory.limit:
            self._fail(TRY_AGAIN, "the server holds as much memory as it may")
        elif self._heads.controls > _CONTROLS:
            self._fail(POLICY, f"more than {_CONTROLS} control frames a second")
        elif len(self._fragments) > _FRAGMENTS + self._size // _CRUMB:
            self._fail(POLICY, f"a message of more than {_FRAGMENTS} fragments with few bytes each")
        self._flush()
        if not self.open:
            self._wake()
        if self._must_wait():
            self._pause()
        elif self._unparsed:
            self._pause()
            self._scheduled = asyncio.get_running_loop().call_soon(self._parse)
        elif self._paused:
            self._paused = False
            self._connection.resume_reading()

    def _must_wait(self) -> bool:
        return self.open and (len(self._messages) >= _MOST_QUEUED or self._connection.full)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._connection.pause_reading()

    def _receive_frame(self, frame: object) -> None:
        from websockets.frames import Frame, Opcode

        if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if not self.open:  # it would not be answered
            return
        if frame.opcode is Opcode.BINARY:
            self._fail(UNSUPPORTED, "only text messages are understood")
            return
        self._fragments.append(bytes(frame.data))
        self._size += len(frame.data)
        if frame.fin:
            message = b"".join(self._fragments)
            self._fragments.clear()
            self._size, self._began = 0, -1.0
            self._messages.append(message)
            self._memory.used += len(message)
            self._wake()

    def _fail(self, code: int, reason: str) -> None:
        if self.open:
            self._frames.fail(code, reason)
            self._flush()
            self._wake()

    def _count(self) -> None:
        held = len(self._unparsed) - self._at + self._heads.partial + self._size
        self._memory.used += held - self._held
        self._held = held

    def _drop(self) -> None:
        """Nothing more is parsed."""
        if self._scheduled:
            self._scheduled.cancel()
            self._scheduled = None
        self._unparsed, self._at, self._size, self._heads = b"", 0, 0, FrameHeads()
        self._fragments.clear()
        self._count()

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
                self._drop()
                self._connection.end_socket()


def _break_cycles(frames: FrameProtocol) -> None:
    """Its parser, a generator, refers to it, and so does the traceback of what ended the parser."""
    frames.parser.close()
    frames.parser_exc = None


def handshake(target: str, headers: Iterable[tuple[str, str]], more: Headers) -> tuple[int, bytes]:
    """The response to an upgrade: status and bytes. Other statuses than 101 refuse it."""
    from websockets.datastructures import Headers as SocketHeaders
    from websockets.http11 import Request
    from websockets.server import ServerProtocol

    protocol = ServerProtocol()
    response = protocol.accept(Request(target, SocketHeaders(headers)))
    _break_cycles(protocol)
    for name, value in more:
        response.headers[name.decode()] = value.decode()
    return response.status_code, response.serialize()
