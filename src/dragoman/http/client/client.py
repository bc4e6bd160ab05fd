"""A thin HTTP/1.1 client on httptools: keep-alive connections, streaming bodies, backpressure.

A general HTTP library costs more time per request than the whole translation, so this one does only what
LLM upstreams need.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.transport import ConnectFailed, SharedHeaders, Timeouts
from dragoman.http.client.address import Address, Proxy, address_of, open_tunnel, proxy_for, read_proxy
from dragoman.http.client.connection import ClientConnection
from dragoman.http.client.reply import HttpReply
from dragoman.http.memory_budget import CALLER_MEMORY, MemoryBudget
from dragoman.http.write_batch import WriteBatch

Fields = SharedHeaders | tuple[tuple[str, str], ...]
_COPIED = 16 * 1024  # bytes of a body; a larger one is not copied behind its head
_LINE_ENDS = ("\r", "\n", "\0")


class IdleConnections(Struct, frozen=True):
    """How many connections to one address stay open while they are idle, and for how many seconds: servers
    and firewalls drop idle connections, some without closing them."""

    most: int = 256
    seconds: float = 30.0


class Client:
    """A connection pool: one list of idle connections for each address."""

    def __init__(
        self,
        keep: IdleConnections | None = None,
        tls: ssl.SSLContext | None = None,
        environ: Mapping[str, str] = os.environ,
        memory: MemoryBudget | None = None,
        proxy: str = "",
    ) -> None:
        """`proxy`: through which all requests go; empty: as `environ` says for each address."""
        self._memory = memory or MemoryBudget()
        self._idle: dict[Address, list[ClientConnection]] = {}
        self._keep = keep or IdleConnections()
        self._tls = tls
        find: Callable[[Address], Proxy | None]
        if proxy:
            find = partial(_fixed_proxy, read_proxy("proxy", proxy))
        else:
            find = lru_cache(maxsize=1024)(partial(proxy_for, environ=environ))
        self._destination = lru_cache(maxsize=256)(partial(destination, find))
        self._open_connections: set[ClientConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._batch: WriteBatch | None = None

    @property
    def connections(self) -> int:
        return len(self._open_connections)

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> HttpReply:
        """Send one request and wait for the head of its reply."""
        known = headers if isinstance(headers, SharedHeaders) else tuple(headers.items())
        address, proxy, head = self._destination(method, url, known)
        connection = self._acquire(address) or await self._connect(address, proxy, timeouts)
        reply = HttpReply(connection, timeouts, CALLER_MEMORY.get() or self._memory)
        if len(body) <= _COPIED:
            connection.begin(reply, b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            connection.begin(reply, b"%bcontent-length: %d\r\n\r\n" % (head, len(body)), body)
        try:
            while not (reply.status or reply.error):
                await reply.wait()
            if reply.error:  # also for a head whose encoding is not supported
                raise reply.error
        except BaseException:
            reply.close()
            raise
        return reply

    async def close(self) -> None:
        if self._sweeper:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in tuple(self._open_connections):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets

    # The pool

    def _acquire(self, address: Address) -> ClientConnection | None:
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.is_usable(connection.loop.time(), self._keep.seconds):
                return connection
            connection.abort()
        return None

    def _release(self, connection: ClientConnection) -> None:
        idle = self._idle.setdefault(connection.address, [])
        if len(idle) >= self._keep.most:
            connection.abort()
            return
        connection.idle_since = connection.loop.time()
        idle.append(connection)
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(self._keep.seconds, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle for `keep.seconds`."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keep.seconds
        for address, idle in tuple(self._idle.items()):
            for connection in idle:
                if connection.idle_since <= oldest:
                    connection.abort()
            usable = [connection for connection in idle if not connection.closed]
            if usable:
                self._idle[address] = usable
            else:
                del self._idle[address]
        self._sweeper = loop.call_later(self._keep.seconds / 2, self._sweep) if self._idle else None

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
        if self._batch is None or self._batch.loop is not loop:
            self._batch = WriteBatch(loop)
        connection = ClientConnection(address, self._open_connections, self._release, self._batch)
        if proxy and tls:
            raw = await open_tunnel(proxy, address)
            try:
                tunnelled = await loop.start_tls(raw, connection, tls, server_hostname=name)
            except BaseException:
                raw.abort()
                raise
            if tunnelled is None:
                raise ConnectFailed(f"{proxy} closed the tunnel to {address}")
            connection.connection_made(tunnelled)
            return connection
        host, port = (proxy.host, proxy.port) if proxy else (address.host, address.port)
        try:
            await loop.create_connection(lambda: connection, host, port, ssl=tls, server_hostname=name)
        except BaseException:  # on a timeout, uvloop leaves open a socket that connects in that moment
            connection.abort()
            raise
        return connection

    def _context(self) -> ssl.SSLContext:
        """Made once, because building one reads the certificate store."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return error.strerror or str(error) or type(error).__name__


def _fixed_proxy(proxy: Proxy, _: Address) -> Proxy:
    return proxy


def destination(
    find_proxy: Callable[[Address], Proxy | None], method: str, url: str, fields: Fields
) -> tuple[Address, Proxy | None, bytes]:
    """Where a request goes, and its head without the length, in which alone two requests of a provider
    differ. Raises ConfigError for a header that would end its line."""
    address, path = address_of(url)
    proxy = find_proxy(address)
    extra = ""
    if proxy and not address.tls:
        path, extra = f"{address}{path}", proxy.header
    headers = dict(fields)
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
        raise _illegal(headers)
    encoding = "" if "accept-encoding" in headers else "accept-encoding: identity\r\n"
    text = f"{method} {path} HTTP/1.1\r\nhost: {address.authority}\r\n{lines}{extra}{encoding}"
    try:
        return address, proxy, text.encode("latin-1")
    except UnicodeEncodeError:
        raise _illegal(headers) from None


def _illegal(headers: dict[str, str]) -> ConfigError:
    """Names the header, not its value, which may be a key."""
    for name, value in headers.items():
        if any(end in name or end in value for end in _LINE_ENDS):
            return ConfigError(f"the header {name!r} has a line break or a zero in it")
        if any(ord(letter) > 255 for letter in name + value):
            return ConfigError(f"the header {name!r} has characters that HTTP cannot carry")
    return ConfigError("a header cannot be sent as it is")
