"""The gateway as a bare ASGI application: every route of the four protocols, on one port."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any
from urllib.parse import parse_qsl

from prometheus_client import CONTENT_TYPE_LATEST

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.fields import read_body
from dragoman.core.model import Failure
from dragoman.core.server import Served, Server
from dragoman.demo import DemoTransport
from dragoman.gateway import bodies, probes
from dragoman.gateway.answers import Answer, Send, retry_header
from dragoman.gateway.auth import allowed, key_of
from dragoman.gateway.bodies import ClientGone, Receive, TooLarge
from dragoman.gateway.circuits import Circuits
from dragoman.gateway.config import Config
from dragoman.gateway.counting import answer_count
from dragoman.gateway.headers import Headers
from dragoman.gateway.journal import Journal
from dragoman.gateway.overview import Overview
from dragoman.gateway.pace import Pace
from dragoman.gateway.pings import Pings
from dragoman.gateway.presence import Presence
from dragoman.gateway.redaction import Redactor, secrets_of
from dragoman.gateway.relaying import CRASHED, Asked
from dragoman.gateway.routing import UnknownModel, names, route
from dragoman.gateway.seen import Seen
from dragoman.gateway.serving import Serving
from dragoman.gateway.upstream import Refused
from dragoman.gateway.wires import OverheardTransport, Wires
from dragoman.protocols import codec, server
from dragoman.protocols import names as protocol_names
from dragoman.transport import Client, Reply, Timeouts, Transport

Scope = dict[str, Any]
_KEYLESS = Failure("unauthenticated", "this gateway needs a valid key", 401)


class Gateway:
    """One process of the gateway. Everything it keeps between exchanges is in here."""

    def __init__(self, config: Config, journal: Journal | None = None, pace: Pace | None = None) -> None:
        pace = pace or Pace()
        self._config, self._pace = config, pace
        self._redactor = Redactor(secrets_of(config))
        self.client = Client()
        self.journal = journal or Journal.of(config)
        self.circuits = Circuits(time.monotonic, pace.opens_after, pace.stays_open)
        self.pings = Pings(pace)
        self._wires = Wires(self.journal.write, self._redactor) if config.verbose else None
        self._transport: Transport = _Upstreams(self.client)
        if self._wires:
            self._transport = OverheardTransport(self._transport, self._wires)
        self._serving = Serving(self._transport, self.circuits, self.pings, pace)
        self._overview = Overview(self.journal.metrics, self._gauges)
        self._tasks: list[asyncio.Task[None]] = []
        self._speakers = [(codec(name), server(name)) for name in protocol_names()]
        self._listing = self._speakers[::-1]  # who is told by a header goes before who takes every list

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
                self._tasks = [
                    asyncio.create_task(self.pings.run()),
                    asyncio.create_task(self._overview.share()),
                ]
                await send({"type": "lifespan.startup.complete"})
            else:
                for task in self._tasks:
                    task.cancel()
                await self.client.close()
                self.journal.close()
                self._overview.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _gauges(self) -> dict[str, float]:
        return {
            "dragoman_in_flight": self.journal.metrics.in_flight,
            "dragoman_streams": len(self.pings),
            "dragoman_upstream_connections": self.client.connections,
            "dragoman_open_circuits": len(self.circuits.opened),
        }

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope["headers"])
        raw = scope["query_string"]
        query = dict(parse_qsl(raw.decode("latin-1"))) if raw else {}
        request_id = f"req_{os.urandom(12).hex()}"
        told = request_id.encode()
        answer = Answer(
            self._wires.overhear(send) if self._wires else send,
            [(b"request-id", told), (b"x-request-id", told)],
        )
        method, path = scope["method"], scope["path"]
        for speaker, serves in self._speakers if method == "POST" else self._listing:
            served = serves.recognise(method, path, query, headers)
            if served:
                seen = Seen(request_id, speaker.name, served.action)
                await self._served(speaker, serves, served, headers, query, receive, answer, seen)
                return
        await self._other(method, path, headers, allowed(key_of(headers, query), self._config.keys), answer)

    async def _other(self, method: str, path: str, headers: Headers, known: bool, answer: Answer) -> None:
        """Probes, metrics, and paths that nobody has."""
        if path == "/metrics" and known:
            await answer.whole(200, self._overview.page(), kind=CONTENT_TYPE_LATEST.encode())
        elif not await probes.answered(method, path, headers, answer):
            claimed = [speaker for speaker, serves in self._speakers if serves.claims(path, headers)]
            speaker = claimed[0] if claimed else self._speakers[0][0]
            failure = Failure("not_found", f"no such route: {method} {path}", 404)
            status, body = speaker.encode_error(_KEYLESS if path == "/metrics" else failure)
            await answer.json(status, body)

    async def _served(
        self,
        speaker: Codec,
        serves: Server,
        served: Served,
        headers: Headers,
        query: dict[str, str],
        receive: Receive,
        answer: Answer,
        seen: Seen,
    ) -> None:
        """One request of a client, answered whatever happens, and told to the journal."""
        key = key_of(headers, query)
        failure: Failure | None = None
        said = b""
        self.journal.begun(seen, headers)
        try:
            if allowed(key, self._config.keys):
                await self._answered(speaker, serves, served, headers, key, receive, answer, seen)
            else:
                failure = _KEYLESS
        except ClientGone:
            seen.gone = True
        except Exception as error:
            failure = _failure(error)
            said = error.body if isinstance(error, Refused) else b""
            seen.crash = error if failure is CRASHED else None
        finally:
            if failure:
                await self._refuse(speaker, failure, said, key, answer, seen)
            seen.status = answer.status
            self.journal.told(seen)

    async def _answered(
        self,
        speaker: Codec,
        serves: Server,
        served: Served,
        headers: Headers,
        key: str,
        receive: Receive,
        answer: Answer,
        seen: Seen,
    ) -> None:
        if served.action == "models":
            await answer.json(200, serves.encode_models(names(self._config)))
            return
        if served.action == "model":
            route(self._config, served.model)
            await answer.json(200, serves.encode_model(served.model))
            return
        body = await bodies.read(receive, headers, self._config.max_body)
        if self._wires:
            self._wires.asked(seen.id, f"{speaker.name} {served.action} {served.model}", headers, body)
        wire = read_body(body, speaker.name)
        stream = bool(wire.get("stream")) if served.stream is None else served.stream
        asked = Asked(speaker, serves, served, headers, wire, body, key, stream)
        seen.model = served.model or str(wire.get("model") or "")
        seen.stream, seen.tools = stream, serves.tally.tools(wire)
        targets = route(self._config, seen.model)
        presence = Presence(receive, answer, self._pace.looks_after)
        try:
            if served.action == "count":
                await answer_count(asked, targets[0], self._transport, answer)
            else:
                await self._serving.serve(asked, targets, answer, seen)
        except asyncio.CancelledError:
            if not presence.returned():
                raise
            raise ClientGone from None
        finally:
            presence.close()

    async def _refuse(
        self, speaker: Codec, failure: Failure, said: bytes, key: str, answer: Answer, seen: Seen
    ) -> None:
        """A failure in the client's words, or as it was `said` in them, without anybody's key in it."""
        message = self._redactor.clean(failure.message, key)
        failure = Failure(failure.kind, message, failure.status, failure.code, failure.retry_after)
        seen.failure = failure
        if not answer.begun:  # else it is cut off here, which is more honest than a clean end
            status, body = speaker.encode_error(failure)
            if said:
                status, body = failure.status, jsontext.decode(self._redactor.clean(said.decode(), key))
            await answer.json(status, body, retry_header(failure.retry_after))


def _failure(error: Exception) -> Failure:
    match error:
        case Refused():
            return error.failure
        case UnknownModel():
            return Failure("not_found", str(error), 404)
        case TooLarge():
            return Failure("too_large", str(error), 413)
        case ConfigError():  # of a provider: what its owner wrote cannot be used
            return Failure("server", f"the gateway's configuration: {error}", 500)
        case WireError() | bodies.Unreadable():
            return Failure("bad_request", str(error), 400)
        case _:
            return CRASHED


class _Upstreams:
    """The demo in the process, everything else over HTTP."""

    def __init__(self, client: Client) -> None:
        self._client, self._demo = client, DemoTransport()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        if url.startswith("demo:"):
            return await self._demo.send(method, url.removeprefix("demo:"), headers, body, timeouts)
        return await self._client.send(method, url, headers, body, timeouts)
