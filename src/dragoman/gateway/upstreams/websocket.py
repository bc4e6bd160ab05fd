"""Responses over WebSocket toward an upstream, for a provider whose `base_url` begins with `wss://`.

To the rest of the gateway it is HTTP: a POST becomes a `response.create` message, and the events that come
back become the server-sent events, or the whole body, that the POST would have had. A connection carries one
response at a time and is reused; OpenAI closes it after 60 minutes (developers.openai.com, WebSocket mode).

    idle ──create──► waiting ──first event──► streaming ──response.completed|failed|incomplete──► idle
      │                 └──error event, close, timeout──┴──► closed
      └──older than 55 minutes──► closed
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.transport import ConnectFailed, Reply, ReplyBroken, TimedOut, Timeouts, Transport
from dragoman.framing import sse
from dragoman.profiles import http_url

_OLDEST = 55 * 60.0  # seconds
_MOST_IDLE = 32  # connections to one address
_LARGEST = 64 * 1024 * 1024  # bytes of one event; the last one repeats the whole response
_ENDS = frozenset({"response.completed", "response.failed", "response.incomplete", "error"})
# Statuses by which a server says that it offers no WebSocket here, rather than that the caller may not use it
_NOT_OFFERED = frozenset({200, 400, 404, 405, 426, 501})
# Of the POST that the message replaces
_NOT_OF_AN_UPGRADE = frozenset(
    {"content-type", "content-length", "accept", "accept-encoding", "connection", "user-agent"}
)
_OF_ONE_REQUEST = frozenset({"x-request-id", "x-client-request-id", "traceparent", "tracestate"})
# "must not be sent" (openresponses.org); the connection itself streams
_NOT_OF_A_CREATE = ("stream", "stream_options", "background")


class _EventHead(msgspec.Struct):
    type: str = ""


_event_heads = msgspec.json.Decoder(_EventHead)
_Key = tuple[str, tuple[tuple[str, str], ...]]


class WebSocketTransport:
    """Takes `ws://` and `wss://` URLs; what is no POST of a response goes over HTTP to the same host."""

    def __init__(self, http: Transport) -> None:
        self._http = http
        self._idle: dict[_Key, list[_Socket]] = {}
        self._sockets: set[_Socket] = set()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        if method != "POST" or not url.partition("?")[0].endswith("/responses"):
            return await self._http.send(method, http_url(url), headers, body, timeouts)
        message, streams = _create(body)
        sent = {name: value for name, value in headers.items() if name not in _NOT_OF_AN_UPGRADE}
        key = (url, tuple([item for item in sent.items() if item[0] not in _OF_ONE_REQUEST]))
        socket = self._acquire(key)
        if socket is None:
            opened = await self._open(key, headers.get("user-agent"), sent, timeouts)
            if not isinstance(opened, _Socket):
                return opened
            socket = opened
        try:
            await socket.begin(message, timeouts)
            return await _read_reply(socket, streams)
        except BaseException:
            socket.abort()
            raise

    async def close(self) -> None:
        for socket in tuple(self._sockets):
            socket.abort()
        self._idle.clear()

    def release(self, socket: _Socket) -> None:
        """Its response has ended."""
        idle = self._idle.setdefault(socket.key, [])
        if len(idle) >= _MOST_IDLE or not socket.usable:
            socket.abort()
        else:
            idle.append(socket)

    def forget(self, socket: _Socket) -> None:
        """It is closed."""
        self._sockets.discard(socket)
        if socket in (idle := self._idle.get(socket.key, [])):
            idle.remove(socket)
        if not idle:
            self._idle.pop(socket.key, None)

    def _acquire(self, key: _Key) -> _Socket | None:
        idle = self._idle.get(key, [])
        while idle:
            socket = idle.pop()
            if socket.usable:
                return socket
            socket.abort()
        return None

    async def _open(
        self, key: _Key, agent: str | None, headers: dict[str, str], timeouts: Timeouts
    ) -> _Socket | _WholeReply:
        url = key[0]
        try:
            connection = await connect(
                url,
                additional_headers=headers,
                user_agent_header=agent,
                compression=None,
                open_timeout=timeouts.connect,
                ping_timeout=None,  # an upstream that is busy may be late; `timeouts.idle` decides
                max_size=_LARGEST,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status in _NOT_OFFERED:
                problem = f"no WebSocket at {url} (status {status}): use https:// in base_url"
                raise ConnectFailed(problem) from None
            found = {name.lower(): value for name, value in error.response.headers.raw_items()}
            return _WholeReply(status, bytes(error.response.body or b""), found)
        except TimeoutError:
            raise ConnectFailed(f"no connection to {url} within {timeouts.connect:g} s") from None
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise ConnectFailed(f"no connection to {url}: {error}") from None
        socket = _Socket(self, key, connection)
        self._sockets.add(socket)
        return socket


class _Socket:
    """One connection. `begin` sends a message; `event` is read until one of `_ENDS`."""

    def __init__(self, pool: WebSocketTransport, key: _Key, connection: ClientConnection) -> None:
        self._pool, self.key, self._connection = pool, key, connection
        self._opened, self._timeouts = monotonic(), Timeouts()
        self._first = True

    @property
    def usable(self) -> bool:
        return self._connection.close_code is None and monotonic() - self._opened < _OLDEST

    async def begin(self, message: bytes, timeouts: Timeouts) -> None:
        self._timeouts, self._first = timeouts, True
        try:
            await self._connection.send(message, text=True)
        except ConnectionClosed:
            raise ReplyBroken(f"{self.key[0]} closed the connection") from None

    async def event(self) -> tuple[str, bytes]:
        """The next event and its type. After the last one of a response, the connection is free."""
        limit = self._timeouts.first_byte if self._first else self._timeouts.idle
        try:
            async with asyncio.timeout(limit):
                data = await self._connection.recv(decode=False)
        except TimeoutError:
            raise TimedOut(f"{self.key[0]} sent nothing for {limit:g} s") from None
        except ConnectionClosed as error:
            reason = error.rcvd.reason if error.rcvd else ""
            problem = f"{self.key[0]} closed the connection" + (f": {reason}" if reason else "")
            raise ReplyBroken(problem) from None
        self._first = False
        try:
            kind = _event_heads.decode(data).type
        except msgspec.DecodeError:
            raise ReplyBroken(f"{self.key[0]} sent a message that is no event") from None
        if kind in _ENDS:
            self._pool.release(self)
        return kind, data

    def abort(self) -> None:
        """Close it now, which cancels its response."""
        self._connection.transport.abort()
        self._pool.forget(self)


async def _read_reply(socket: _Socket, streams: bool) -> Reply:
    """The reply, as soon as its status is known."""
    kind, data = await socket.event()
    if kind == "error":
        return _error_reply(data)
    if streams:
        return _EventReply(socket, kind, data)
    while kind not in _ENDS:
        kind, data = await socket.event()
    if kind == "error":
        return _error_reply(data)
    return _WholeReply(200, bytes(jsontext.split_object(data).get("response", b"{}")))


def _create(body: bytes) -> tuple[bytes, bool]:
    """The message for the body of a POST, and whether that asks for a stream."""
    fields: dict[str, Any] = {"type": "response.create", **jsontext.split_object(body)}
    streams = bytes(fields.get("stream", b"")) == b"true"
    for name in _NOT_OF_A_CREATE:
        fields.pop(name, None)
    return msgspec.json.encode(fields), streams


def _error_reply(data: bytes) -> _WholeReply:
    """`{"type": "error", "status": 429, "error": {…}, "headers": {…}}` as the HTTP error that it means."""
    event = jsontext.decode_object(data.decode("utf-8", "replace")) or {}
    status = event.get("status") or event.get("status_code")
    headers = event.get("headers")
    named = (
        {str(name).lower(): str(value) for name, value in headers.items()}
        if jsontext.is_object(headers)
        else {}
    )
    error = event.get("error") or {key: event.get(key) for key in ("message", "code", "param", "type")}
    return _WholeReply(status if isinstance(status, int) else 502, jsontext.encode({"error": error}), named)


class _WholeReply:
    def __init__(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.status, self._body = status, body
        self.headers = {**(headers or {}), "content-type": "application/json"}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self, limit: int) -> bytes:
        return self._body

    def close(self) -> None:
        """The connection is free already."""


class _EventReply:
    """Events as server-sent events."""

    def __init__(self, socket: _Socket, kind: str, data: bytes) -> None:
        self.status, self.headers = 200, {"content-type": "text/event-stream"}
        self._socket, self._first = socket, (kind, data)
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kind, data = self._first
        while True:
            self._ended = kind in _ENDS
            yield sse.Encoder().feed(Frame(kind, data))[0]
            if self._ended:
                return
            kind, data = await self._socket.event()

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._socket.abort()
