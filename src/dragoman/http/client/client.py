"""A thin HTTP/1.1 client on httptools: keep-alive connections, streaming bodies, backpressure.

The upstream client is where a gateway's time goes: a general HTTP library costs more than the
whole translation. This one does what an LLM upstream needs and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from functools import lru_cache, partial

from dragoman.core.transport import ConnectFailed, Timeouts
from dragoman.http.client.address import Address, address_of
from dragoman.http.client.connection import ClientConnection
from dragoman.http.client.head import request_head
from dragoman.http.client.outbox import Outbox
from dragoman.http.client.proxies import Proxy, open_tunnel, proxy_for
from dragoman.http.client.response import HttpReply

KEEP_FOR = 30.0  # seconds; servers and firewalls drop idle connections sooner or later, some without a word


class Client:
    """A pool of connections, one list of idle ones for each address."""

    def __init__(
        self,
        keep_idle: int = 256,
        keep_for: float = KEEP_FOR,
        tls: ssl.SSLContext | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._idle: dict[Address, list[ClientConnection]] = {}
        self._keep_idle, self._keep_for = keep_idle, keep_for
        self._tls = tls
        self._proxy = lru_cache(maxsize=1024)(partial(proxy_for, environ=environ))
        self._opened: set[ClientConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._outbox: Outbox | None = None

    @property
    def connections(self) -> int:
        return len(self._opened)

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> HttpReply:
        """Send one request and wait for the head of its answer."""
        address, path = address_of(url)
        proxy = self._proxy(address)
        if proxy and not address.tls:
            head = request_head(method, f"{address}{path}", address, headers, len(body), proxy.header)
        else:
            head = request_head(method, path, address, headers, len(body))
        connection = self._take(address) or await self._connect(address, proxy, timeouts)
        reply = HttpReply(connection, timeouts)
        connection.begin(reply, head, body)
        try:
            await reply.wait_for_head()
        except BaseException:
            reply.close()
            raise
        return reply

    async def close(self) -> None:
        if self._sweeper:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in tuple(self._opened):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets

    # The pool

    def _take(self, address: Address) -> ClientConnection | None:
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.is_usable(connection.loop.time(), self._keep_for):
                return connection
            connection.abort()
        return None

    def _give_back(self, connection: ClientConnection) -> None:
        idle = self._idle.setdefault(connection.address, [])
        if len(idle) >= self._keep_idle:
            connection.abort()
            return
        connection.idle_since = connection.loop.time()
        idle.append(connection)
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(self._keep_for, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody asked for in a while; the oldest stand first."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keep_for
        for address, idle in tuple(self._idle.items()):
            for connection in idle:
                if connection.idle_since <= oldest:
                    connection.abort()
            kept = [connection for connection in idle if not connection.closed]
            if kept:
                self._idle[address] = kept
            else:
                del self._idle[address]
        self._sweeper = loop.call_later(self._keep_for / 2, self._sweep) if self._idle else None

    # New connections

    async def _connect(self, address: Address, proxy: Proxy | None, timeouts: Timeouts) -> ClientConnection:
        try:
            async with asyncio.timeout(timeouts.connect):
                return await self._open(address, proxy)
        except TimeoutError:
            raise ConnectFailed(f"no connection to {address} within {timeouts.connect:g} s") from None
        except OSError as error:
            raise ConnectFailed(f"no connection to {address}: {_reason(error)}") from None

    async def _open(self, address: Address, proxy: Proxy | None) -> ClientConnection:
        loop = asyncio.get_running_loop()
        tls = self._context() if address.tls else None
        name = address.host if tls else None
        if self._outbox is None or self._outbox.loop is not loop:
            self._outbox = Outbox(loop)
        connection = ClientConnection(address, self._opened, self._give_back, self._outbox)
        if proxy and tls:
            raw = await open_tunnel(proxy, address)
            try:
                through = await loop.start_tls(raw, connection, tls, server_hostname=name)
            except BaseException:
                raw.abort()
                raise
            if through is None:
                raise ConnectFailed(f"{proxy} closed the tunnel to {address}")
            connection.connection_made(through)
            return connection
        host, port = (proxy.host, proxy.port) if proxy else (address.host, address.port)
        try:
            await loop.create_connection(lambda: connection, host, port, ssl=tls, server_hostname=name)
        except BaseException:  # given up: uvloop leaves open what comes about in the very same moment
            connection.abort()
            raise
        return connection

    def _context(self) -> ssl.SSLContext:
        """Made once: building one reads the certificate store."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return error.strerror or str(error) or type(error).__name__
