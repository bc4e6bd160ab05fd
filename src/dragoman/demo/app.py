"""The scripted model as a server of its own: a bare ASGI application that really misbehaves on the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from dragoman.demo.answers import Answered, answer, unauthorised
from dragoman.demo.carrying import Cut, before, pieces
from dragoman.demo.faults import Memory

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
# seconds; a server that has read another request on the same connection tells only that one of its end
_GOODBYE = 1.0


class DemoApp:
    """`key`: requests must carry it where their protocol puts keys. `under_way`: answers not ended yet."""

    def __init__(self, key: str = "") -> None:
        self._key, self._memory = key, Memory()
        self.under_way = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = await _body(receive)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        asked = (scope["method"], scope["path"], query, headers)
        known = not self._key or self._key in (*headers.values(), headers.get("authorization", "")[7:])
        answered = answer(*asked, body, self._memory) if known else unauthorised(*asked)
        self.under_way += 1
        gone = asyncio.ensure_future(_left(receive))
        work = asyncio.ensure_future(_send(answered, send))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and isinstance(work.exception(), Cut):
                _hang_up(receive)
                await asyncio.wait((gone,), timeout=_GOODBYE)
        finally:
            self.under_way -= 1
            work.cancel()
            gone.cancel()


async def _send(answered: Answered, send: Send) -> None:
    await before(answered)
    headers = [(b"content-type", answered.content_type.encode())]
    headers += [(name.encode(), value.encode()) for name, value in answered.headers.items()]
    fault = answered.fault.name if answered.fault else ""
    if answered.content_type == "application/json" and fault not in ("empty", "malformed"):
        headers.append((b"content-length", str(sum(map(len, answered.pieces))).encode()))
    await send({"type": "http.response.start", "status": answered.status, "headers": headers})
    async for piece in pieces(answered):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _hang_up(receive: Receive) -> None:
    """Close the connection. ASGI has no word for it; uvicorn keeps the transport beside `receive`."""
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
