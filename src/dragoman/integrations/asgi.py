"""ASGI middleware: a model, or the app behind it in its own protocol, answers requests of all protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts
from dragoman.integrations.translator import HttpRequest, Middleware

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiMiddleware(Middleware[App]):
    """See `Middleware` for the arguments."""

    def transport(self, app: App) -> AsgiTransport:
        return AsgiTransport(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._pass_on(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
        request = (scope["method"], scope["path"], query, headers)
        if self._app and self.is_for_app(*request):
            await self._app(scope, receive, send)
            return
        outside = _client.set((scope.get("client"), self.pass_on(query, headers)))
        try:
            await _unless_gone(self._answer(request, await _body(receive, self.max_body), send), receive)
        finally:
            _client.reset(outside)

    async def _answer(self, request: HttpRequest, body: bytes | None, send: Send) -> None:
        reply = await self._translator.answer(*request, body)
        try:
            headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            async for piece in reply.body:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await reply.body.aclose()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app:
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "websocket.close", "code": 1000})


# The client of the request under way: its address, and the headers that the app behind gets too
_client: ContextVar[tuple[Any, dict[str, str]]] = ContextVar("client", default=(None, {}))


class AsgiTransport:
    """Requests to an ASGI app in this process, which sees the client's address and key."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> AppReply:
        parts = urlsplit(url)
        client, more = _client.get()
        headers = {**more, **headers, "content-length": str(len(body))}
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": client or ("127.0.0.1", 0),
            "server": (parts.hostname or "app", 80),
        }
        reply = AppReply(timeouts)
        reply.start(self._app, scope, body)
        return await reply.begin()


class AppReply:
    """What the app sends, in a queue of a few pieces, so that it waits for a slow reader."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(8)
        self._head, self._closed = asyncio.Event(), asyncio.Event()
        self._timeouts = timeouts
        self._task: asyncio.Task[None] | None = None

    def start(self, app: App, scope: Scope, body: bytes) -> None:
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if waiting:
                return waiting.pop()
            await self._closed.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            try:
                await app(scope, receive, self._send)
            finally:
                self._head.set()
                await self._pieces.put(None)

        self._task = asyncio.create_task(run())

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
            self._head.set()
        elif message["type"] == "http.response.body" and message.get("body"):
            await self._pieces.put(message["body"])

    async def begin(self) -> AppReply:
        try:
            async with asyncio.timeout(self._timeouts.first_byte):
                await self._head.wait()
        except TimeoutError:
            self.close()
            raise TimedOut(f"the app took more than {self._timeouts.first_byte:g} s to answer") from None
        if not self.status:
            raise ReplyBroken(f"the app failed before its answer{self._reason()}")
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._read()

    async def _read(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
        if reason := self._reason():
            raise ReplyBroken(f"the app failed inside its answer{reason}")

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        self._closed.set()
        if self._task and not self._task.done():
            self._task.cancel()

    def _reason(self) -> str:
        done = self._task and self._task.done() and not self._task.cancelled()
        error = self._task.exception() if self._task and done else None
        return f": {error!r}" if error else ""


async def _body(receive: Receive, limit: int) -> bytes | None:
    """None: it has more than `limit` bytes, and the rest was not kept."""
    read, size = list[bytes](), 0
    while True:
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            read.append(piece)
        if not message.get("more_body"):
            return b"".join(read) if size <= limit else None


async def _unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """`work`, which ends when the client leaves: nobody reads the rest, and somebody pays for it."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
