"""The scripted model behind a socket (`DemoApp`, ASGI) and behind the transport seam (`DemoTransport`).

Both send the pieces of an answer in time, with the fault that the prompt asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts
from dragoman.demo.answers import ScriptedAnswer, answer, refuse_key
from dragoman.demo.faults import Memory

SILENCE = 0.3  # seconds: longer than the pings of a test, shorter than its timeouts


class Cut(Exception):
    """The connection is to be closed here, in mid-answer."""


async def before(scripted: ScriptedAnswer) -> None:
    """What happens before the head goes out. Raises Cut where there is to be none."""
    match scripted.fault.name if scripted.fault else "":
        case "hang":
            await asyncio.Event().wait()
        case "drop":
            raise Cut
        case "late":
            await asyncio.sleep(SILENCE)
        case _:
            pass


async def pieces(scripted: ScriptedAnswer) -> AsyncIterator[bytes]:
    """Raises Cut where the connection is to be closed."""
    fault = scripted.fault
    name = fault.name if fault else ""
    at = fault.at if fault and fault.at >= 0 else len(scripted.pieces) // 2
    if name == "empty":
        return
    for index, piece in enumerate(scripted.pieces):
        if index == at:
            match name:
                case "cut":
                    raise Cut
                case "malformed":
                    yield b"data: {broken\n\n"
                case "pause":
                    await asyncio.sleep(SILENCE)
                case "stall":
                    await asyncio.Event().wait()
                case _:
                    pass
        if name == "slow":
            await asyncio.sleep(0.02)
        yield piece
    if name == "cut" and at >= len(scripted.pieces):
        raise Cut


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# seconds; a server that has read the next request of the connection reports the disconnect to that one only
_DISCONNECT = 1.0


class DemoApp:
    """`key`: requests must carry it where their protocol puts keys. `under_way`: answers not ended yet."""

    def __init__(self, key: str = "") -> None:
        self._key, self._memory = key, Memory()
        self.under_way = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = await _body(receive)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        request = (scope["method"], scope["path"], query, headers)
        known = not self._key or self._key in (*headers.values(), headers.get("authorization", "")[7:])
        scripted = answer(*request, body, self._memory) if known else refuse_key(*request)
        self.under_way += 1
        gone = asyncio.ensure_future(_left(receive))
        work = asyncio.ensure_future(_send(scripted, send))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and isinstance(work.exception(), Cut):
                _hang_up(receive)
                await asyncio.wait((gone,), timeout=_DISCONNECT)
        finally:
            self.under_way -= 1
            work.cancel()
            gone.cancel()


async def _send(scripted: ScriptedAnswer, send: Send) -> None:
    await before(scripted)
    headers = [(b"content-type", scripted.content_type.encode())]
    headers += [(name.encode(), value.encode()) for name, value in scripted.headers.items()]
    fault = scripted.fault.name if scripted.fault else ""
    if scripted.content_type == "application/json" and fault not in ("empty", "malformed"):
        headers.append((b"content-length", str(sum(map(len, scripted.pieces))).encode()))
    await send({"type": "http.response.start", "status": scripted.status, "headers": headers})
    async for piece in pieces(scripted):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _hang_up(receive: Receive) -> None:
    """Close the connection. ASGI has no message for it; uvicorn has the transport beside `receive`."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        raise Cut  # any other server closes the connection of an application that fails
    transport.close()


async def _body(receive: Receive) -> bytes:
    read: list[bytes] = []
    while True:
        message = await receive()
        read.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(read)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


class DemoTransport:
    def __init__(self) -> None:
        self._memory = Memory()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> DemoReply:
        parts = urlsplit(url)
        scripted = answer(method, parts.path, dict(parse_qsl(parts.query)), headers, body, self._memory)
        try:
            async with asyncio.timeout(timeouts.first_byte):
                await before(scripted)
        except TimeoutError:
            raise TimedOut(f"the demo took more than {timeouts.first_byte:g} s to answer") from None
        except Cut:
            raise ReplyBroken("the demo closed the connection before its answer") from None
        return DemoReply(scripted, timeouts)


class DemoReply:
    def __init__(self, scripted: ScriptedAnswer, timeouts: Timeouts) -> None:
        self.status = scripted.status
        self.headers = {"content-type": scripted.content_type, **scripted.headers}
        self._pieces, self._timeouts = pieces(scripted), timeouts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._timeouts.idle):
                return await anext(self._pieces)
        except TimeoutError:
            raise TimedOut(f"the demo took more than {self._timeouts.idle:g} s to go on") from None
        except Cut:
            raise ReplyBroken("the demo closed the connection before its answer ended") from None

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        """Nothing is open: pieces that were not read were never made."""
