"""WSGI middleware, as for ASGI. Translation runs on the client's event loop, the app in a thread."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dragoman.client.background import wait_for
from dragoman.core.transport import ReplyBroken, Timeouts
from dragoman.integrations.translator import Middleware, SyncBody

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class WsgiMiddleware(Middleware[WsgiApp]):
    """See `Middleware` for the arguments."""

    def transport(self, app: WsgiApp) -> WsgiTransport:
        return WsgiTransport(app)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = _headers(environ)
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
        request = (environ["REQUEST_METHOD"], path, query, headers)
        if self._app and self.is_for_app(*request):
            return self._app(environ, start_response)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size) if size <= self.max_body else None
        outside = _client.set((environ.get("REMOTE_ADDR", ""), self.pass_on(query, headers)))
        try:
            reply = wait_for(self._translator.answer(*request, body))
        finally:
            _client.reset(outside)
        start_response(f"{reply.status} {_reason(reply.status)}", [*reply.headers.items()])
        return SyncBody(reply.body)


# The client of the request under way: its address, and the headers that the app behind gets too
_client: ContextVar[tuple[str, dict[str, str]]] = ContextVar("client", default=("", {}))


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # Anthropic's 529, Cloudflare's 520 and others are in no standard
        return "Overloaded" if status == 529 else "Unknown"


class WsgiTransport:
    """Requests to a WSGI app in this process, which sees the client's address and key; each step of it runs
    in a thread."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> WsgiReply:
        parts = urlsplit(url)
        address, more = _client.get()
        headers = {**more, **headers}
        environ: Environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "SERVER_NAME": parts.hostname or "app",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": address or "127.0.0.1",
            "CONTENT_TYPE": headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
        }
        reply = WsgiReply()
        try:
            await asyncio.to_thread(reply.start, self._app, environ)
        except Exception as error:
            raise ReplyBroken(f"the app failed: {error!r}") from error
        return reply


class WsgiReply:
    def __init__(self) -> None:
        self.status, self.headers = 500, dict[str, str]()
        self._body: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] = iter(())
        self._first: bytes | None = None

    def start(self, app: WsgiApp, environ: Environ) -> None:
        """An app may call start_response as late as with its first piece."""

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            self.status = int(status.split()[0])
            self.headers = {name.lower(): value for name, value in headers}

        self._body = app(environ, start_response)
        self._pieces = iter(self._body)
        self._first = next(self._pieces, None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._read()

    async def _read(self) -> AsyncIterator[bytes]:
        piece = self._first
        while piece is not None:
            if piece:
                yield piece
            try:
                piece = await asyncio.to_thread(next, self._pieces, None)
            except Exception as error:
                raise ReplyBroken(f"the app failed inside its answer: {error!r}") from error

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        if close := getattr(self._body, "close", None):
            close()


def _headers(environ: Environ) -> dict[str, str]:
    named = {
        name[5:].lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return named | {"content-type": environ.get("CONTENT_TYPE", "")}
