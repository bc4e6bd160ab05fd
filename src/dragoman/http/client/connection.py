"""One connection to an upstream, which carries one exchange at a time.

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
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

import httptools

from dragoman.core.transport import ReplyBroken
from dragoman.http.client.address import Address
from dragoman.http.client.reply import HttpReply
from dragoman.http.write_batch import WriteBatch

_END_OF_HEAD = b"\r\n\r\n"
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
        self._head = b""  # that is under way; the parser checks its fields, and the reply reads them
        self._bodies: list[bytes] = []  # of one read of the socket
        self.on_body = self._bodies.append  # called by the parser: a chunk costs no call of Python
        self._parser: Any = httptools.HttpResponseParser(self)
        self._reply: HttpReply | None = None
        self._waiting = False  # in WAITING
        self._head_size = 0
        self.deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, reply: HttpReply, request: bytes, body: bytes = b"") -> None:
        """Send a request, whose body may come apart from its head."""
        self._reply, self._head, self._head_size = reply, b"", 0
        self._sending = self._waiting = True
        self._batch.put(self._send, request)
        if body:
            self._batch.put(self._send, body)

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
        self.deadline = deadline
        if self._timer is None or self._timer_at > deadline:
            self._cancel_timer()
            self._timer_at = deadline
            self._timer = self.loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._reply is None:
            return
        if self.deadline > self._timer_at:
            self.set_deadline(self.deadline)
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
        problem = ""
        if self._waiting:
            self._head = self._head + data if self._head else data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            problem = f"the reply is not HTTP: {error}"
        except httptools.HttpParserUpgrade:
            problem = "the upstream switched to another protocol"
        if self._bodies:
            self._deliver()
        if problem:
            self._fail(problem)
        if self._waiting:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self._fail(f"the head of the reply is larger than {MAX_HEAD} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._cancel_timer()
        self._open_connections.discard(self)
        self._parser = None  # it refers to this connection
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if exc is None and reply.ends_with_connection():
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

    def on_headers_complete(self) -> None:
        status, head = self._parser.get_status_code(), self._head.lstrip(b"\r\n")
        end = head.find(_END_OF_HEAD)
        if status < 200:  # 100 Continue, 103 Early Hints: the final head follows
            self._head = head[end + len(_END_OF_HEAD) :]
            return
        self._waiting, self._head = False, b""
        if self._reply:
            self._reply.on_head(status, head[:end])

    def _deliver(self) -> None:
        bodies, reply = self._bodies, self._reply
        data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        bodies.clear()
        if reply:
            reply.on_body(data)

    def on_message_complete(self) -> None:
        if self._bodies:
            self._deliver()
        reply = self._reply
        if reply is None or self._waiting:
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
