"""One socket and its parser; it serves one reply at a time."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

import httptools

from dragoman.core.headers import NAMES, NOWHERE
from dragoman.core.transport import ReplyBroken
from dragoman.http.client.address import Address
from dragoman.http.client.outbox import Outbox
from dragoman.http.client.response import HttpReply

LARGEST_HEAD = 64 * 1024
_TRUSTED = 1.0  # seconds for which an idle connection is believed to be open without a look


class ClientConnection(asyncio.Protocol):
    """`give_back` takes it when a reply has ended; `opened` holds it while its socket is open."""

    def __init__(
        self,
        address: Address,
        opened: set[ClientConnection],
        give_back: Callable[[ClientConnection], None],
        outbox: Outbox,
    ) -> None:
        self.address, self.closed = address, False
        self.loop, self._outbox = outbox.loop, outbox
        self._unsent = False  # the request waits for the others of this turn
        self.idle_since = 0.0
        self._opened, self._give_back = opened, give_back
        self._transport: Any = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._reply: HttpReply | None = None
        self._headers: dict[str, str] = NOWHERE  # of a head under way
        self._head_size = 0
        self._until_close = False
        self._deadline = self._rings = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, reply: HttpReply, head: bytes, body: bytes) -> None:
        self._reply, self._headers, self._head_size = reply, {}, 0
        self._unsent = True
        self._outbox.put(self._send, head + body)

    def _send(self, request: bytes) -> None:
        self._unsent = False
        if not self._transport.is_closing():  # else the reply hears of it
            self._transport.write(request)

    def is_usable(self, now: float, keep_for: float) -> bool:
        """Whether another request may go out here. The loop has perhaps not yet seen that the peer left."""
        idle = now - self.idle_since
        if self.closed or self._transport.is_closing() or idle > keep_for:
            return False
        return idle < _TRUSTED or not _has_news(self._transport.get_extra_info("socket").fileno())

    def abort(self) -> None:
        self.closed = True
        self._silence()
        self._opened.discard(self)
        if self._transport:
            self._transport.abort()

    # Carrier

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed:
            self._transport.resume_reading()

    def cut(self) -> None:
        self._reply = None
        self.abort()

    # One timer for all the waits of all replies: it looks at the deadline when it rings

    def alarm(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is None or self._rings > deadline:
            self._silence()
            self._rings = deadline
            self._timer = self.loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._reply is None:
            return
        if self._deadline > self._rings:
            self.alarm(self._deadline)
        else:
            self._reply.expired()

    def _silence(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self.closed:  # nobody waits for it any more
            self._transport.abort()
        else:
            self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        if self._reply is None or self._unsent:  # an answer to nothing: a confused peer, or one that leaves
            self._fail("the upstream spoke before it was asked")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")
        except httptools.HttpParserUpgrade:
            self._fail("the upstream wants to speak another protocol")
        if self._headers is NOWHERE:
            return
        self._head_size += len(data)
        if self._head_size > LARGEST_HEAD:
            self._fail(f"the head of the answer is larger than {LARGEST_HEAD} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._silence()
        self._opened.discard(self)
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self._until_close and exc is None:
            reply.on_end()
        else:
            problem = "the upstream closed the connection before its answer ended"
            reply.on_error(ReplyBroken(problem, sent=not self._unsent))

    def _fail(self, problem: str) -> None:
        reply = self._reply
        self.abort()
        if reply:
            reply.on_error(ReplyBroken(problem, sent=not self._unsent))

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._reply is None:  # more than one answer to one request
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[NAMES[name]] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if status < 200:  # 100 Continue and its kin: the answer is still to come
            self._headers = {}
            return
        self._headers = NOWHERE
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
        if reply is None or self._headers is not NOWHERE:
            return
        self._reply = None
        reply.on_end()
        reusable = self._parser.should_keep_alive() and not self.closed
        if reusable and self._transport.get_write_buffer_size() == 0:
            self._give_back(self)
        else:
            self.abort()


def _has_news(descriptor: int) -> bool:
    """Whether the socket is readable; on an idle connection that is the peer's goodbye."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
