"""One client connection of the server: requests are read in order and answered in order.

Reading and responding are two state machines that run side by side.

    Reading                                         Responding
    IDLE      first byte              -> HEAD       IDLE        a request's head was read  -> RESPONDING
    HEAD      empty line              -> BODY       RESPONDING  response ended             -> IDLE
    BODY      last byte               -> IDLE                   and it says close          -> closed
    any       not HTTP, head too      -> REJECTED               but its body is unread     -> DRAINING
              large or too slow                                 (bytes are discarded up to its end)
    REJECTED  bytes are ignored                     RESPONDING  it raised, or is cut off   -> aborted

    IDLE (both)    `idle` seconds     -> closed
    HEAD           `head` seconds     -> REJECTED with 408
    BODY           below `min_rate`   -> TooSlow in the application, else aborted
    HALF_CLOSED    our last response was sent and our side of the socket is shut down; the client's bytes are
                   read and ignored for `linger` seconds, because closing a socket with unread bytes sends a
                   reset, and the client may then lose the response (RFC 9112, section 9.6)

Reading pauses while it would only fill memory: as soon as another request is read while a response is under
way or the client does not read the last one (pipelining), and while a body arrives that the application has
not asked for. So a connection holds at most one read of the socket, `_SLICE` bytes of it parsed, beside the
body that the application waits for.

httptools stops at the head of a request with Upgrade. To `websocket` the application may agree
(`ResponseWriter.upgrade`); from then on the WebSocket gets all bytes. Any other is ignored, as RFC 9110,
section 7.8 allows: java.net.http and curl --http2 send `Upgrade: h2c` with ordinary requests. The body of
such a request is read by a second parser, and the connection closes after the response.

The head of a connection's next request is mostly that of its last one, but for the content-length. Such a
request, where it arrives whole and alone within a second or two, is not parsed (`_KnownHead`).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import httptools
from msgspec import Struct

from dragoman.http.server.application import (
    HIGH_WATER,
    ClientGone,
    HeadMemo,
    ResponseWriter,
    ServerRequest,
    plain_error,
    read_target,
)
from dragoman.http.server.headers import IGNORED, LOWER_NAMES
from dragoman.http.server.websocket import WebSocket, handshake

if TYPE_CHECKING:
    from dragoman.http.server.application import Headers
    from dragoman.http.server.server import HttpServer

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_END_OF_HEAD = b"\r\n\r\n"
_NOT_PLAIN = frozenset({"transfer-encoding", "upgrade", "expect"})
_PERCENT = ord("%")  # searching for an int is several times as fast as searching for bytes
_SLICE = 16 * 1024  # bytes that are parsed at a time
_LENGTH = b"\r\ncontent-length: "
_LARGEST_KNOWN = 4096  # bytes of a head that is remembered
_MOST_DIGITS = 10  # of a content-length
_MOST_UNLIKE = 4  # heads in a row that are unlike the one before; then a connection remembers none any more
_SLOW_HEAD = "the head of the request took too long"
_VERSIONS = ("1.1", "1.0")
# RFC 9110, section 7.2: a name or an address, and a port. A missing one does not match, nor do two
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'*+,;=()%-]*|\[[0-9A-Za-z:.%]+\])(?::\d*)?")
_UNASKED_BODY = 64 * 1024  # bytes of a body that are buffered before the application asks for it


class ServerLimits(Struct, frozen=True, kw_only=True):
    """In seconds and bytes. Clients that send a byte at a time, or never read, are disconnected."""

    idle: float = 120.0  # between two requests, and before the first
    head: float = 20.0  # for a head, from its first byte on
    body: float = 60.0  # for a body, and one more second for each `min_rate` bytes of it
    min_rate: int = 2048  # bytes per second
    unread: float = 300.0  # without the client reading a byte of a response
    linger: float = 3.0  # for bytes that a client still sends after it was rejected
    drain: float = 0.0  # for which idle connections stay open after the server stopped to accept others
    max_head: int = 64 * 1024
    connections_per_address: int = 0  # 0: any number


class _KnownHead(Struct, frozen=True):
    """A head that the parser accepted: its bytes `before` and `after` the digits of its content-length, and
    what was read from it. One that differs in those digits alone means the same, for another length."""

    before: bytes
    after: bytes
    method: str
    path: str
    query: bytes
    headers: dict[str, str]
    memo: HeadMemo


def _know_head(data: bytes, request: ServerRequest, max_head: int) -> _KnownHead | None:
    """What is to be remembered of `request`, whose head is the first in `data`. None where something else
    than the content-length may say where its body or the connection ends."""
    headers, end = request.headers, data.find(_END_OF_HEAD)
    at = data[:end].lower().find(_LENGTH) + len(_LENGTH)
    digits = headers.get("content-length", "").encode("latin-1")
    is_plain = request.keep_alive and headers.keys().isdisjoint(_NOT_PLAIN)
    is_short = 0 < end < min(max_head, _LARGEST_KNOWN) - _MOST_DIGITS
    # lines that end otherwise leave in doubt where the head does
    has_lines = data.count(b"\n", 0, end) == data.count(b"\r\n", 0, end)
    found = at >= len(_LENGTH) and digits.isdigit() and data.startswith(digits + b"\r\n", at)
    if not (is_plain and is_short and has_lines and found):
        return None
    after = data[at + len(digits) : end + len(_END_OF_HEAD)]
    return _KnownHead(
        data[:at], after, request.method, request.path, request.query, headers.copy(), request.memo
    )


class ServerConnection(asyncio.Protocol):
    """See the states above. It is also the `ResponseConnection` of its responses."""

    def __init__(self, server: HttpServer) -> None:
        self._server, self._limits, self._batch = server, server.limits, server.batch
        self._memory = server.memory
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._pending: deque[ServerRequest] = deque()  # head read, response not begun
        self._receiving: ServerRequest | None = None  # in BODY
        self._request: ServerRequest | None = None  # in RESPONDING
        self._response: ResponseWriter | None = None
        self._task: asyncio.Task[None] | None = None  # answers all requests of the connection
        self._next: Any = None  # what it waits for between them
        self._target, self._address = b"", ""
        self._headers: dict[str, str] = IGNORED
        self._head_since = 0.0  # when the current head began; 0: not in HEAD
        self._head_left = self._limits.max_head  # bytes that the head may still have
        self._writable: asyncio.Future[None] | None = None  # pending while the client does not read
        self._unparsed = b""  # read from the socket before reading was paused
        self._known: _KnownHead | None = None  # of the last request
        self._unlike = 0  # heads in a row that were not known
        self._upgrading = False  # the parser stopped after a head with Upgrade
        self._websocket: WebSocket | None = None
        self._malformed = ""  # what is wrong with a head that the parser accepts
        self._rejected = self._reading_paused = self._half_closed = False
        self._since = server.now  # when it became idle, unread or rejected
        self.close = self.chunked = self.head_only = self.full = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        peer: Any = transport.get_extra_info("peername")  # a pair, or text for a Unix socket
        if peer:
            self._address = peer if isinstance(peer, str) else str(peer[0])
        self._server.connections.add(self)
        if not self._server.count(self._address):
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._server.uncount(self._address)
        for request in self._pending:
            request.release()
        self._pending.clear()
        if self._websocket:
            self._websocket.lose_peer()
            self._websocket = None  # it refers to this connection
        self.resume_writing()
        if self._receiving:
            self._receiving.disconnect()
        if self._task and not (self._response and self._response.ended):
            if self._request:
                self._request.gone = True
            self._task.cancel()
        self._rejected, self._parser = True, None  # the parser refers to this connection
        self._known = self._receiving = None
        if not self._task:
            self._request = self._response = None

    def data_received(self, data: bytes, at_once: bool = False) -> None:
        if self._rejected:
            if self._websocket:
                self._websocket.feed(data)
            return
        if len(data) > _SLICE and not at_once:
            self._receive_slices(data)
            return
        between = not (self._receiving or self._head_since or self._request or self._pending)
        known = self._known
        if known and between and data.startswith(known.before) and self._receive_known(known, data):
            return
        left = self._head_left
        if len(data) > left and not self._receiving and data.find(_END_OF_HEAD, 0, left) < 0:
            self._receive_long_head(data, left)
            return
        self._parse(data, between)

    def _parse(self, data: bytes, between: bool) -> None:
        """`between`: nothing was under way before it."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject_malformed(f"not HTTP: {error}")
            return
        if self._malformed:
            problem, self._malformed = self._malformed, ""
            self._reject_malformed(problem)
            return
        if self._head_since:
            # bytes before the last empty line belong to earlier requests
            self._head_left -= len(data) - max(data.rfind(_END_OF_HEAD), 0)
            if self._head_left < 0:
                self._reject_head()
        if self._pending and not self._half_closed:
            if between and self._unlike < _MOST_UNLIKE:
                alone = len(self._pending) == 1 and not self._head_since
                self._known = _know_head(data, self._pending[0], self._limits.max_head) if alone else None
                self._unlike += 1
            self._respond_next()

    def _receive_known(self, known: _KnownHead, data: bytes) -> bool:
        """False: it is another request after all, or not all of it, or more than that."""
        start = len(known.before)
        end = data.find(b"\r", start, start + _MOST_DIGITS + 1)
        digits, body_at = data[start:end], end + len(known.after)
        if end < 0 or not digits.isdigit() or not data.startswith(known.after, end):
            return False
        if int(digits) != len(data) - body_at or self._writable or self._half_closed:
            return False
        headers = known.headers.copy()
        headers["content-length"] = digits.decode()
        self._unlike = 0
        request = ServerRequest(
            known.method, known.path, known.query, headers, True, True,
            self._server.now, self._address, self._memory, bool, known.memo,
        )  # fmt: skip
        request.fill(data[body_at:])
        self._begin_response(request)
        return True

    def _receive_slices(self, data: bytes) -> None:
        """What belongs to a body that the application waits for is parsed at once."""
        start, end = 0, len(data)
        while start < end:
            if self._reading_paused:
                self._unparsed = data[start:]
                return
            request = self._receiving
            at_once = request is not None and request.awaits(end - start)
            size = end - start if at_once else _SLICE
            self.data_received(data[start : start + size], at_once)
            start += size

    def _receive_long_head(self, data: bytes, left: int) -> None:
        """Parse no more than a head may have; go on with the rest if the head ended there."""
        self.data_received(data[:left])
        if self._head_since:
            self._reject_head()
        else:
            self.data_received(data[left:])

    def pause_writing(self) -> None:
        self._since = self._server.now
        self._writable, self.full = asyncio.get_running_loop().create_future(), True

    def resume_writing(self) -> None:
        writable, self._writable, self.full = self._writable, None, False
        if writable and not writable.done():
            writable.set_result(None)
        if self._pending and not self._request:
            self._respond_next()
        if self._websocket:
            self._websocket.resume()
        elif self._reading_paused and not self._transport.is_closing():
            self.resume_reading()

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._target, self._headers = b"", {}
        self._head_since = self._server.now

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers, lower = self._headers, LOWER_NAMES[name]
        if lower in headers and lower == "host":  # more than one is invalid (RFC 9112, section 3.2)
            value = f"{headers[lower]}, ".encode("latin-1") + value
        headers[lower] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        parser, target, headers = self._parser, self._target, self._headers
        self._upgrading = parser.should_upgrade()
        version = parser.get_http_version()
        http_1_1 = version != "1.0"
        if version not in _VERSIONS:
            self._malformed = self._malformed or f"HTTP/{version} is not spoken here"
        elif http_1_1 and not _HOST.fullmatch(headers.get("host", "?")):
            self._malformed = self._malformed or "the request needs one valid Host"
        if self._malformed:  # neither it nor what follows it is answered
            self._upgrading, self._head_since, self._receiving = False, 0.0, None
            return
        if target[:1] == b"/" and _PERCENT not in target:
            path, _, query = target.partition(b"?")
            path = path.decode("utf-8", "replace")
        else:
            path, query = read_target(target, headers)
        self._receiving = request = ServerRequest(
            parser.get_method().decode(), path, query, headers, http_1_1,
            http_1_1 and parser.should_keep_alive(),
            self._head_since, self._address, self._memory, self._send_continue,
        )  # fmt: skip
        self._pending.append(request)
        self._headers = IGNORED
        self._head_since, self._head_left = 0.0, self._limits.max_head

    def on_body(self, data: bytes) -> None:
        request = self._receiving
        if request:
            request.feed(data)
            if request.size > _UNASKED_BODY and not (request.awaited or request.discarded):
                self.pause_reading()

    def on_message_complete(self) -> None:
        if self._upgrading:  # its body, if it has one, follows
            return
        request, self._receiving = self._receiving, None
        if request:
            request.end()
            if request.discarded and self.close:  # its response ended before its body did
                self._close()

    # ResponseConnection

    def write(self, data: bytes) -> None:
        self._batch.put(self._write_now, data)

    def _write_now(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def head_lines(self) -> bytes:
        """A response that begins before a long body has arrived closes the connection."""
        if self._request and not self._request.complete and self._request.may_be_long():
            self.close = True
        return self._server.date + _CLOSE if self.close else self._server.date

    async def drain(self) -> None:
        if self._writable:
            unsent = self._transport.get_write_buffer_size()
            memory = self._request.memory if self._request else self._memory
            memory.used += unsent
            try:
                await self._writable
            finally:
                memory.used -= unsent

    def upgrade(self, headers: Headers, max_size: int) -> WebSocket | None:
        """Switch to WebSocket; None where the request is no valid upgrade, which is then answered."""
        request = self._request
        assert request, "an upgrade is the answer to a request"
        status, response = handshake(request.path, request.headers.items(), headers)
        self.write(response)
        if status != 101:
            return None
        limits = self._limits
        self._websocket = websocket = WebSocket(self, max_size, request.memory, limits.body, limits.min_rate)
        if self._server.stopping:
            websocket.shut_down()
        self.resume_reading()  # a client may have sent messages without waiting for the response
        return websocket

    # SocketConnection

    def end_socket(self) -> None:
        self._close()

    # Responding

    def _respond_next(self) -> None:
        """Start the next response; while one is under way or was not read by the client, stop reading."""
        if self._request or self._writable:
            self.pause_reading()
            return
        self._begin_response(self._pending.popleft())

    def _begin_response(self, request: ServerRequest) -> None:
        self._request = request
        self.chunked, self.head_only = request.http_1_1, request.method == "HEAD"
        self.close = not request.keep_alive or self._server.stopping
        self._response = ResponseWriter(self)
        if self._next:
            self._next.set_result(None)
            self._next = None
        elif self._task is None:
            self._start_task()

    def _start_task(self) -> None:
        """One task answers all requests of the connection: to make one costs more than to wake one."""
        self._task = task = self._server.loop.create_task(self._respond())
        task.add_done_callback(self._on_task_end)

    async def _respond(self) -> None:
        while True:
            request, response = self._request, self._response
            if request is None or response is None:
                if self._transport.is_closing():
                    return
                self._next = waiter = self._server.loop.create_future()
                await waiter
                continue
            try:
                await self._server.application(request, response)
            except (ClientGone, asyncio.CancelledError):
                if not request.gone:  # else the client disconnected, and the exception has done its work
                    raise
            finally:
                self._on_response_end(request, response)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._task = self._next = None
        if self._request and self._transport.is_closing():  # it was never begun
            self._request.release()
        elif self._request:  # the application raised after its response, and another request waits
            self._start_task()

    def _on_response_end(self, request: ServerRequest, response: ResponseWriter) -> None:
        self._request = self._response = None
        self._since = self._server.now
        request.release()
        if self._transport.is_closing():
            return
        if self._websocket:
            if self._websocket.open:  # the application raised; else the peer's close frame is awaited
                self._batch.flush()
                self._transport.abort()
        elif not response.ended:  # the client must not take a partial response for a complete one
            self._batch.flush()
            self._transport.abort()
        elif not request.complete:
            request.discard()
            self.resume_reading()
            if self.close:
                self._half_close()
        elif self._pending and not self.close:
            self._respond_next()
            self.resume_reading()
        elif self.close or self._rejected:
            self._close()
        elif self._reading_paused:
            self.resume_reading()

    def _send_continue(self) -> None:
        """The application waits for the body of the current request."""
        self.resume_reading()
        if self._request and self._request.headers.get("expect", "").lower() == "100-continue":
            self.write(_CONTINUE)

    # Rejecting and closing

    def _reject_malformed(self, problem: str) -> None:
        """Complete requests before the malformed bytes are still answered."""
        broken = self._receiving
        if broken and broken in self._pending:
            self._pending.remove(broken)
        elif broken:  # the application waits for its body
            broken.disconnect()
        if self._pending and not self._half_closed:
            self._respond_next()
        self._reject(400, problem)

    def _reject_head(self) -> None:
        self._reject(431, f"the head of the request is larger than {self._limits.max_head} bytes")

    def _reject(self, status: int, problem: str) -> None:
        """Ignore all further bytes. A response that is under way still ends, and no other one is sent."""
        self._rejected = True
        self._receiving = None
        self._head_since = 0.0
        if not self._request and not self._half_closed:
            self._pending.clear()
            self.write(plain_error(status, problem))
            self._half_close()

    def _half_close(self) -> None:
        self.close = self._half_closed = True
        self._since = self._server.now
        self._batch.flush()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:  # TLS
            self._transport.close()

    def _close(self) -> None:
        self._batch.flush()
        self._transport.close()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the body of the request, then nothing more: the client may already speak something else."""
        self._upgrading = False
        request = self._receiving
        for each in self._pending:
            each.keep_alive = False
        if self._request:
            self.close = True
        if request and request.headers.get("upgrade", "").lower() == "websocket" and not self._request:
            self.end_of_upgraded()
            self._unparsed = rest
            self.pause_reading()  # until the application has agreed
        elif request and (framing := request.body_framing()):
            self._parser = httptools.HttpRequestParser(_BodyOnly(self))
            try:
                self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + _END_OF_HEAD)
            except httptools.HttpParserError as error:  # the framing of CONNECT was not checked yet
                self._reject_malformed(f"not HTTP: {error}")
            else:
                self.data_received(rest)
        else:
            self.end_of_upgraded()

    def end_of_upgraded(self) -> None:
        self.on_message_complete()
        self._rejected = True

    def pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading_paused or self._pending:
            return
        self._reading_paused = False
        data, self._unparsed = self._unparsed, b""
        if data:
            self.data_received(data)
        if not self._reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    # Called by the server

    def check_timeouts(self, now: float) -> None:
        """`now` is the time of the previous tick: no timeout fires early."""
        if self._websocket and self._request and not self._websocket.tick(now):
            self._transport.abort()
            return
        if not self._request and now > self._since:
            self._known = None  # idle connections hold little
        since, seconds, give_up = self._find_wait()
        if now - since > seconds:
            give_up()

    def _find_wait(self) -> tuple[float, float, Callable[[], object]]:
        """Since when the connection waits for the client, how long it may, and what is done then."""
        limits, receiving = self._limits, self._receiving
        if self._writable:
            return self._since, limits.unread, self._transport.abort
        if self._head_since:
            return self._head_since, limits.head, partial(self._reject, 408, _SLOW_HEAD)
        is_ignored = self._rejected or (receiving is not None and receiving.discarded)
        if receiving and not is_ignored:
            seconds = limits.body + receiving.size / limits.min_rate
            return receiving.started, seconds, partial(self._time_out_body, receiving)
        if self._request:
            return self._since, inf, self._close
        if is_ignored:
            return self._since, limits.linger, self._transport.abort
        return self._since, limits.idle, self._close

    def _time_out_body(self, receiving: ServerRequest) -> None:
        """The application may answer 408, unless its response has begun or it waits for another request."""
        if receiving is self._request and self._response and not self._response.begun:
            receiving.time_out()
        else:
            self._transport.abort()

    def stop(self, idle: bool = True) -> None:
        """Graceful shutdown: the current response is the last one. `idle`: one without any closes."""
        if self._websocket:
            self._websocket.shut_down()
        if self._request:
            self.close = True
        elif idle and not self._transport.is_closing():
            self._close()

    def abort(self) -> None:
        if self._task:
            self._task.cancel()
        self._transport.abort()


class _BodyOnly:
    """Callbacks of a parser whose head was read by another one."""

    def __init__(self, connection: ServerConnection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.end_of_upgraded
