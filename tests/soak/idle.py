"""Clients that keep their connection and say nothing, while others are served."""

from __future__ import annotations

import asyncio
import resource

from msgspec import Struct

from soak.processes import Process

_SPARE = 400  # handles for everything else
_TOGETHER = 200  # connections opened at a time
_HELLO = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Idle(asyncio.Protocol):
    """Asks once whether the gateway is well, and then keeps still."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.open = transport, True
        transport.write(_HELLO)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 200") and not self.answered.done():
            self.answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionResetError("closed without an answer"))


class Limit(Struct, frozen=True):
    """How many connections this machine allows, and what it says about more."""

    connections: int
    note: str = ""


def allowed(wanted: int) -> Limit:
    """Raises the limit of this process as far as it may; the gateway does the same for itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + _SPARE if hard == resource.RLIM_INFINITY else min(hard, wanted + _SPARE)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    room = max(soft, most) - _SPARE
    if room >= wanted:
        return Limit(wanted)
    return Limit(room, f"this machine allows {hard} open files, so {room:,} instead of {wanted:,}")


async def hold(gateway: Process, count: int) -> list[Idle]:
    """Connections that have been answered once."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    loop = asyncio.get_running_loop()
    held: list[Idle] = []
    while len(held) < count:
        batch = min(_TOGETHER, count - len(held))
        opened = await asyncio.gather(*(loop.create_connection(Idle, host, int(port)) for _ in range(batch)))
        held += [protocol for _, protocol in opened]
        await asyncio.gather(*(protocol.answered for _, protocol in opened))
    return held
