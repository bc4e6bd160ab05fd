"""The gateway as a bare ASGI application: every route of the four protocols, on one port."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from dragoman import __version__
from dragoman.core.codec import Codec
from dragoman.core.errors import DragomanError
from dragoman.core.fields import read_body
from dragoman.core.model import Failure
from dragoman.core.server import Served
from dragoman.demo import DemoTransport
from dragoman.gateway.answers import Answer, Send
from dragoman.gateway.auth import allowed, key_of
from dragoman.gateway.circuits import Circuits
from dragoman.gateway.config import Config
from dragoman.gateway.journal import Journal
from dragoman.gateway.pings import Pings
from dragoman.gateway.routing import UnknownModel, names, route
from dragoman.gateway.serving import Asked, Seen, Serving, refuse
from dragoman.gateway.tokens import estimate
from dragoman.protocols import codec, server
from dragoman.protocols import names as protocol_names
from dragoman.transport import Client, Reply, Timeouts

Receive = Callable[[], Awaitable[dict[str, Any]]]
Scope = dict[str, Any]


class TooLarge(DragomanError):
    """A body beyond the limit."""


class ClientGone(Exception):
    """The client left before its request was complete."""


class Gateway:
    """One process of the gateway. Everything it keeps between exchanges is in here."""

    def __init__(self, config: Config, journal: Journal | None = None) -> None:
        self._config = config
        self._client = Client()
        self._journal = journal or Journal()
        self._pings = Pings(time.monotonic)
        self._serving = Serving(_Upstreams(self._client), Circuits(time.monotonic), self._pings)
        self._ticker: asyncio.Task[None] | None = None
        self._speakers = [(codec(name), server(name)) for name in protocol_names()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._ticker = asyncio.create_task(self._pings.run())
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._ticker:
                    self._ticker.cancel()
                await self._client.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        request_id = f"req_{uuid4().hex}"
        answer = Answer(send, [(b"request-id", request_id.encode()), (b"x-request-id", request_id.encode())])
        method, path = scope["method"], scope["path"]
        for speaker, serves in self._speakers:
            served = serves.recognise(method, path, query, headers)
            if served:
                await self._served(speaker, served, headers, query, receive, answer, request_id)
                return
        await self._other(method, path, headers, answer)

    async def _other(self, method: str, path: str, headers: dict[str, str], answer: Answer) -> None:
        """Probes, metrics, and what agents try before they talk."""
        match method, path:
            case (("GET" | "HEAD"), ("/" | "/healthz" | "/readyz" | "/api/hello")):
                await answer.json(200, {"status": "ok", "dragoman": __version__})
            case "GET", "/metrics":
                await answer.whole(200, self._journal.metrics(), [(b"x-format", b"prometheus")])
            case "GET", "/v1/responses" if headers.get("upgrade", "").lower() == "websocket":
                await answer.json(426, _error("this gateway speaks HTTP only"), [(b"upgrade", b"HTTP/1.1")])
            case _:
                await answer.json(404, _error(f"no such route: {method} {path}"))

    async def _served(
        self,
        speaker: Codec,
        served: Served,
        headers: dict[str, str],
        query: dict[str, str],
        receive: Receive,
        answer: Answer,
        request_id: str,
    ) -> None:
        seen = Seen(speaker.name, time.monotonic)
        key = key_of(headers, query)
        try:
            if not allowed(key, self._config.keys):
                await refuse(
                    speaker, Failure("unauthenticated", "this gateway needs a valid key", 401), answer, seen
                )
            else:
                await self._answered(speaker, served, key, receive, answer, seen)
        except UnknownModel as error:
            await refuse(speaker, Failure("not_found", str(error), 404), answer, seen)
        except TooLarge as error:
            await refuse(speaker, Failure("too_large", str(error), 413), answer, seen)
        except DragomanError as error:
            await refuse(speaker, Failure("bad_request", str(error), 400), answer, seen)
        except ClientGone:
            seen.gone = True
        except Exception as error:
            await refuse(
                speaker, Failure("server", "the gateway failed; its log tells more", 500), answer, seen
            )
            self._journal.crashed(request_id, error)
        finally:
            self._journal.told(request_id, seen, answer.status)

    async def _answered(
        self, speaker: Codec, served: Served, key: str, receive: Receive, answer: Answer, seen: Seen
    ) -> None:
        match served.action:
            case "models":
                await answer.json(200, server(speaker.name).encode_models(names(self._config)))
            case "model":
                await answer.json(200, server(speaker.name).encode_model(served.model))
            case "count":
                body = await self._body(receive)
                tokens = estimate(speaker, read_body(body, speaker.name))
                extra = [(b"x-dragoman-estimate", b"true")]
                await answer.json(200, server(speaker.name).encode_count(tokens), extra)
            case "generate":
                body = await self._body(receive)
                wire = read_body(body, speaker.name)
                asked = Asked(speaker, served, wire, body, key)
                seen.model = served.model or str(wire.get("model") or "")
                await self._while_connected(
                    self._serving.serve(asked, route(self._config, seen.model), answer, seen), receive
                )

    async def _body(self, receive: Receive) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > self._config.max_body:
                raise TooLarge(f"the body is larger than {self._config.max_body} bytes")
            pieces.append(piece)
            if not message.get("more_body"):
                return b"".join(pieces) if len(pieces) > 1 else piece

    async def _while_connected(self, work: Any, receive: Receive) -> None:
        """Do the work as long as the client is there; when it leaves, the upstream is cancelled."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                raise ClientGone
            task.result()
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()


class _Upstreams:
    """The demo in the process, everything else over HTTP."""

    def __init__(self, client: Client) -> None:
        self._client, self._demo = client, DemoTransport()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        transport = self._demo if url.startswith("demo:") else self._client
        return await transport.send(method, url.removeprefix("demo:"), headers, body, timeouts)


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None}}
