"""One client's socket: requests one after the other, each with its answer, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import httptools

from dragoman.core.headers import NAMES, NOWHERE
from dragoman.http.server.request import ClientGone, ServerRequest
from dragoman.http.server.response import ResponseWriter, refusal

if TYPE_CHECKING:
    from dragoman.http.server.server import HttpServer

HIGH_WATER = 64 * 1024  # bytes that a client has not taken yet; beyond it, streams wait
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_HEAD_ENDS = b"\r\n\r\n"


class ServerConnection(asyncio.Protocol):
    """Reads ahead at most what one piece of the socket holds; the rest waits until its turn comes."""

    def __init__(self, server: HttpServer) -> None:
        self._server, self._patience, self._outbox = server, server.patience, server.outbox
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._waiting: deque[ServerRequest] = deque()  # read, not answered yet
        self._arriving: ServerRequest | None = None  # its body is under way
        self._current: ServerRequest | None = None  # its answer is under way
        self._answer: ResponseWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._target = b""
        self._headers: dict[str, str] = NOWHERE
        self._head_since = 0.0  # when the head under way began; 0: there is none
        self._head_left = self._patience.largest_head  # bytes that it may still have
        self._room: asyncio.Future[None] | None = None  # while the client does not read
        self._refused = self._paused = self._parted = False
        self._since = server.now  # idle, or not reading, or refused
        self.close = self.chunked = self.bodiless = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._waiting.clear()
        self.resume_writing()
        if self._arriving:
            self._arriving.lose()
        if self._current and self._task and not (self._answer and self._answer.ended):
            self._current.gone = True
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        left = self._head_left
        if len(data) > left and not self._arriving and data.find(_HEAD_ENDS, 0, left) < 0:
            self._hear_out(data, left)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # nobody here speaks anything else; what follows is not ours
            self._stop_reading()
        except httptools.HttpParserError as error:
            self._break_off(f"not HTTP: {error}")
            return
        if self._head_since:
            self._head_left -= len(data) - max(data.rfind(_HEAD_ENDS), 0)  # before that is something else
            if self._head_left < 0:
                self._refuse_head()
        if self._waiting and not self._parted:
            self._next()

    def _hear_out(self, data: bytes, left: int) -> None:
        """No more than a head may have; the rest if it ends there."""
        self.data_received(data[:left])
        if self._head_since:
            self._refuse_head()
        else:
            self.data_received(data[left:])

    def pause_writing(self) -> None:
        self._since = self._server.now
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room and not room.done():
            room.set_result(None)

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._target, self._headers = b"", {}
        self._head_since = self._server.now

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[NAMES[name]] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        parser = self._parser
        modern = parser.get_http_version() != "1.0"
        keep = modern and parser.should_keep_alive()
        self._arriving = incoming = ServerRequest(
            parser.get_method().decode(), self._target, self._headers, modern, keep,
            self._head_since, self._go_on,
        )  # fmt: skip
        self._waiting.append(incoming)
        self._headers = NOWHERE
        self._head_since, self._head_left = 0.0, self._patience.largest_head

    def on_body(self, data: bytes) -> None:
        if self._arriving:
            self._arriving.feed(data)

    def on_message_complete(self) -> None:
        arrived, self._arriving = self._arriving, None
        if arrived:
            arrived.end()
            if arrived.discarded and self.close:  # it was answered long ago
                self._hang_up()

    # Line

    def write(self, data: bytes) -> None:
        self._outbox.put(self._send, data)

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def begins(self) -> bytes:
        """A long body is not waited for."""
        if self._current and self._current.is_long():
            self.close = True
        return self._server.date + _CLOSE if self.close else self._server.date

    async def drained(self) -> None:
        if self._room:
            await self._room

    # Answering

    def _next(self) -> None:
        """Begin the next answer, unless one is under way; then the client has to wait."""
        if self._task:
            self._pause()
            return
        self._current = incoming = self._waiting.popleft()
        self.chunked, self.bodiless = incoming.modern, incoming.method == "HEAD"
        self.close = not incoming.keep or self._server.ending
        self._answer = ResponseWriter(self)
        self._task = self._server.loop.create_task(self._serve(incoming, self._answer))

    async def _serve(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        try:
            await self._server.application(incoming, answer)
        except (ClientGone, asyncio.CancelledError):
            if not incoming.gone:  # else the client left, and nobody waits for this
                raise
        finally:
            self._served(incoming, answer)

    def _served(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        self._task = self._current = self._answer = None
        self._since = self._server.now
        if self._transport.is_closing():
            return
        if not answer.ended:  # cutting it off is more honest than a clean end
            self._outbox.send()
            self._transport.abort()
        elif not incoming.complete:
            self._linger(incoming)
        elif self._waiting and not self.close:
            self._next()
            self._resume()
        elif self.close or self._refused:
            self._hang_up()
        elif self._paused:
            self._resume()

    def _go_on(self) -> None:
        """Somebody waits for the body of the request."""
        if self._current and self._current.headers.get("expect", "").lower() == "100-continue":
            self.write(_CONTINUE)

    # Ending

    def _break_off(self, problem: str) -> None:
        """What came before the nonsense, in the same piece, still has its answer."""
        broken = self._arriving
        if broken and broken in self._waiting:
            self._waiting.remove(broken)
        elif broken:  # somebody waits for its body
            broken.lose()
        if self._waiting and not self._parted:
            self._next()
        self._refuse(400, problem)

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of the request is larger than {self._patience.largest_head} bytes")

    def _refuse(self, status: int, problem: str) -> None:
        """What cannot be read has no protocol to answer in. Whatever is under way before it may end."""
        self._refused = True
        self._arriving = None
        self._head_since = 0.0
        if not self._task and not self._parted:
            self._waiting.clear()
            self.close = True
            self.write(refusal(status, problem))
            self._part()

    def _linger(self, incoming: ServerRequest) -> None:
        """The body is still on its way."""
        incoming.discard()
        if self.close:
            self._part()

    def _part(self) -> None:
        """Say goodbye and let the rest come, unread: with a closed socket our last words would be lost."""
        self.close = self._parted = True
        self._since = self._server.now
        self._outbox.send()
        self._transport.write_eof()

    def _hang_up(self) -> None:
        self._outbox.send()
        self._transport.close()

    def _stop_reading(self) -> None:
        self._refused = True
        for incoming in self._waiting:
            incoming.keep = False
        if self._current:
            self.close = True

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self._waiting:
            self._paused = False
            self._transport.resume_reading()

    # What the server asks, from time to time and at its end

    def look(self, now: float) -> None:
        """Let go of who takes too long; `now` may be a little ago."""
        patience, arriving = self._patience, self._arriving
        if self._room:
            if now - self._since > patience.unread:
                self._transport.abort()
        elif self._head_since:
            if now - self._head_since > patience.head:
                self._refuse(408, "the head of the request took too long")
        elif self._refused or (arriving and arriving.discarded):
            if not self._task and now - self._since > patience.lingers:
                self._transport.abort()
        elif arriving:
            if now - arriving.started > patience.body + arriving.size / patience.slowest:
                self._slow_body(arriving)
        elif not self._task and now - self._since > patience.idle:
            self._hang_up()

    def _slow_body(self, arriving: ServerRequest) -> None:
        """Whoever waits for it may say so; where nobody does, the answer is under way or ends just now."""
        if arriving is self._current and self._answer and not self._answer.begun:
            arriving.is_too_slow()
        else:
            self._transport.abort()

    def end(self) -> None:
        """Take nothing new; what is under way may end."""
        if self._task:
            self.close = True
        else:
            self._hang_up()

    def abort(self) -> None:
        if self._task:
            self._task.cancel()
        self._transport.abort()
