"""Listens, ticks once a second for timeouts and the date header, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import formatdate
from typing import Any, Protocol

from dragoman.http.memory_budget import MemoryBudget
from dragoman.http.server.application import ResponseWriter, ServerRequest
from dragoman.http.server.connection import ServerConnection, ServerLimits
from dragoman.http.write_batch import WriteBatch

_BACKLOG = 2048
_TICK = 1.0  # seconds


class Application(Protocol):
    """All methods are called on the server's event loop."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def __call__(self, request: ServerRequest, response: ResponseWriter, /) -> Awaitable[None]: ...


class HttpServer:
    """`stopping`: no new connection is accepted. `now` and `date` are those of the last tick.

    On shutdown, responses under way get `grace` seconds to end, and idle connections stay open for
    `limits.drain` seconds: a client may be sending its next request at this moment. It is answered with
    `connection: close`. `on_started` is called once connections are accepted.

    Before that it may be a lame duck for some seconds (`end_later`): it serves as before, and `lame` tells a
    load balancer to send nothing new. So nothing is on its way here when the socket closes.
    """

    def __init__(
        self,
        application: Application,
        grace: float,
        limits: ServerLimits | None = None,
        memory: MemoryBudget | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.memory, self._tls = memory or MemoryBudget(), tls
        self.application, self.limits = application, limits or ServerLimits()
        self._addresses = Counter[str]()
        self.on_started: Callable[[], object] = bool
        self.connections: set[ServerConnection] = set()
        self.started = self.stopping = self.lame = False
        self.now, self.date = 0.0, b""
        self.loop: Any = None
        self.batch: Any = None
        self._grace = grace
        self._stop: asyncio.Event | None = None
        self._abort: asyncio.Event | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve until `end` is called; then wait for responses under way, at most `grace` seconds."""
        self.loop = asyncio.get_running_loop()
        self.batch = WriteBatch(self.loop)
        self._stop, self._abort = asyncio.Event(), asyncio.Event()
        self._update_clock()
        await self.application.start()
        server = await self.loop.create_server(
            lambda: ServerConnection(self), sock=listener, backlog=_BACKLOG, ssl=self._tls
        )
        ticking = asyncio.create_task(self._tick())
        self.started = True
        self.on_started()
        try:
            await self._stop.wait()
            await self._shut_down(server)
        finally:
            ticking.cancel()
            await self.application.stop()

    def end(self) -> None:
        """Shut down gracefully; called a second time, at once. Only on the loop."""
        if self._stop and self._abort:
            (self._abort if self._stop.is_set() else self._stop).set()

    def end_later(self, seconds: float) -> None:
        """`end` after some seconds as a lame duck; called a second time, without them. Only on the loop."""
        if self.lame or not seconds:
            self.end()
        else:
            self.lame = True
            self.loop.call_later(seconds, self._end_lame)

    def _end_lame(self) -> None:
        if self._stop and not self._stop.is_set():
            self.end()

    def end_soon(self) -> None:
        """`end`, from another thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.end)

    def count(self, address: str) -> bool:
        """Whether one more connection of `address` is allowed; it is counted anyway."""
        most = self.limits.connections_per_address
        if not most:
            return True
        self._addresses[address] += 1
        return self._addresses[address] <= most

    def uncount(self, address: str) -> None:
        if self.limits.connections_per_address:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    async def _shut_down(self, server: asyncio.Server) -> None:
        self.stopping = True
        server.close()
        now = self.loop.time()
        until, drained = now + self._grace, now + self.limits.drain
        while self.connections and self.loop.time() < until and self._abort and not self._abort.is_set():
            for connection in tuple(self.connections):
                connection.stop(idle=self.loop.time() >= drained)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._abort.wait(), 0.05)
        for connection in tuple(self.connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._check_timeouts()

    def _check_timeouts(self) -> None:
        """No part of `_tick`, whose variable would hold the last connection after it has ended."""
        before = self.now
        self._update_clock()
        for connection in tuple(self.connections):
            connection.check_timeouts(before)

    def _update_clock(self) -> None:
        self.now = self.loop.time()
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()


def run(
    server: HttpServer,
    listener: socket.socket,
    *signals: signal.Signals,
    handlers: Mapping[int, Callable[[], object]] | None = None,
    lame_duck: float = 0,
) -> None:
    """Run on uvloop where it is installed, until `end` is called or one of `signals` arrives.
    `handlers`: what other signals do. `lame_duck`: seconds from SIGTERM to the end of new connections."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in signals:
            seconds = lame_duck if number == signal.SIGTERM else 0
            try:
                loop.add_signal_handler(number, server.end_later, seconds)
            except NotImplementedError:  # event loops of Windows
                signal.signal(number, lambda number, frame: loop.call_soon_threadsafe(server.end))
        for number, handler in (handlers or {}).items():
            loop.add_signal_handler(number, handler)
        await server.run(listener)

    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(serve())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
