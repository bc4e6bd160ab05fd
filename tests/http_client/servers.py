"""Servers that do on the socket exactly what a test says, and remember what they saw."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).with_name("certificate.pem")

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


class Seen:
    """What a server saw: the heads of the requests, how many connections, and how many of them ended."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.opened = 0
        self.closed = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextlib.asynccontextmanager
async def listening(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Seen]:
    """A server on a free port whose every connection runs `script`; it is gone when the test leaves."""
    seen = Seen()
    running: set[asyncio.Task[Any]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        seen.opened += 1
        writer.seen = seen  # type: ignore[attr-defined]
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await script(reader, writer)
        finally:
            seen.closed.set()
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.sleep(0)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """One request, head and body; the head is remembered."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    writer.seen.requests.append(head)  # type: ignore[attr-defined]
    return head


def answering(*pieces: bytes, then: str = "wait", pause: float = 0.0) -> Script:
    """Each request on a connection gets these bytes; then the server waits for more, or closes."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader, writer)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            if then == "close":
                return
            if then == "reset":
                writer.transport.abort()
                return
            if then == "hang":
                await reader.read()  # until the peer closes
                return

    return script


async def until(holds: Callable[[], object]) -> None:
    """Wait for it, as long as the test may take."""
    while not holds():
        await asyncio.sleep(0.002)


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))
