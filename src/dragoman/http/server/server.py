"""Listens, looks after its connections, and ends without cutting anybody off."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Any, Protocol

from dragoman.http.client.outbox import Outbox
from dragoman.http.server.connection import ServerConnection
from dragoman.http.server.request import ServerRequest
from dragoman.http.server.response import ResponseWriter
from dragoman.http.server.timeouts import ServerTimeouts

_BACKLOG = 2048
_TICK = 1.0  # seconds between two looks at everything


class Application(Protocol):
    """What is served: it is started, asked, and stopped, all on the server's loop."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __call__(self, incoming: ServerRequest, answer: ResponseWriter) -> None: ...


class HttpServer:
    """One process. `ending`: it takes nothing new. `now` and `date` are those of the last tick."""

    def __init__(
        self, application: Application, grace: float, patience: ServerTimeouts | None = None
    ) -> None:
        self.application, self.patience = application, patience or ServerTimeouts()
        self.connections: set[ServerConnection] = set()
        self.started = self.ending = False
        self.now, self.date = 0.0, b""
        self.loop: Any = None
        self.outbox: Any = None
        self._grace = grace
        self._end: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve until `end` is called; then let what is under way end, for as long as the grace lasts."""
        self.loop = asyncio.get_running_loop()
        self.outbox = Outbox(self.loop)
        self._end, self._hurry = asyncio.Event(), asyncio.Event()
        self._look_at_the_clock()
        await self.application.start()
        server = await self.loop.create_server(
            lambda: ServerConnection(self), sock=listener, backlog=_BACKLOG
        )
        ticking = asyncio.create_task(self._tick())
        self.started = True
        try:
            await self._end.wait()
            await self._finish(server)
        finally:
            ticking.cancel()
            await self.application.stop()

    def end(self) -> None:
        """On the loop. A second time: do not wait for anybody."""
        if self._end and self._hurry:
            (self._hurry if self._end.is_set() else self._end).set()

    def end_soon(self) -> None:
        """From another thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.end)

    async def _finish(self, server: asyncio.Server) -> None:
        self.ending = True
        server.close()
        for connection in tuple(self.connections):
            connection.end()
        until = self.loop.time() + self._grace
        while self.connections and self.loop.time() < until and self._hurry and not self._hurry.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), 0.05)
        for connection in tuple(self.connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            before = self.now  # so that nobody looks older than he is
            self._look_at_the_clock()
            for connection in tuple(self.connections):
                connection.look(before)

    def _look_at_the_clock(self) -> None:
        self.now = self.loop.time()
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()


def run(server: HttpServer, listener: socket.socket, *signals: signal.Signals) -> None:
    """On the fastest loop there is, until the server is ended, or one of `signals` does it."""

    async def serve() -> None:
        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, server.end)
        await server.run(listener)

    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(serve())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
