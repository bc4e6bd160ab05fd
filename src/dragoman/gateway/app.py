"""The gateway: every route of the four protocols, on one port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from functools import lru_cache, partial
from random import getrandbits
from typing import Any
from urllib.parse import parse_qsl

from msgspec.structs import replace
from prometheus_client import CONTENT_TYPE_LATEST

from dragoman.core import jsontext
from dragoman.core.body import Body
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.model import Failure
from dragoman.core.stored_turns import ConversationError
from dragoman.demo import DemoTransport
from dragoman.gateway.admission import Admission, AdmissionControl
from dragoman.gateway.admission.authentication import client_key, is_cross_site_request, owner_of
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store import StoreError, open_store
from dragoman.gateway.conversations.stored_turns import StoredTurns
from dragoman.gateway.conversations.upstream_sessions import UpstreamSessions
from dragoman.gateway.handlers import health, request_body
from dragoman.gateway.handlers.count_tokens import answer_count
from dragoman.gateway.handlers.generate import GenerateHandler
from dragoman.gateway.handlers.keep_alive import KeepAliveTicker
from dragoman.gateway.handlers.relay import CRASHED, Asked
from dragoman.gateway.handlers.reply_headers import retry_header
from dragoman.gateway.handlers.stored_responses import StoredResponsesHandler
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.gateway.observability.metrics_page import MetricsPage
from dragoman.gateway.observability.redaction import Redactor, secrets_of
from dragoman.gateway.observability.wire_log import LoggedTransport, WireLog
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.circuit_breaker import CircuitBreakers
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.gateway.upstreams.routing import UnknownModel, names, route
from dragoman.gateway.upstreams.sending import AttemptFailed
from dragoman.http.client import Client, Reply, Timeouts, Transport
from dragoman.http.server import ClientGone, ResponseWriter, ServerRequest, TooLarge, TooSlow
from dragoman.protocols import codec, server
from dragoman.protocols import names as protocol_names

_KEYLESS = Failure("unauthenticated", "this gateway needs a valid key", 401)
_LURED = Failure(
    "forbidden",
    "without keys this gateway answers programs of this machine, by a private name, and no web pages; "
    "set server.keys",
    403,
)


class Gateway:
    """One process of the gateway. Everything it keeps between exchanges is in here."""

    def __init__(
        self, config: Config, journal: AccessLog | None = None, pace: RetryPolicy | None = None
    ) -> None:
        pace = pace or RetryPolicy()
        self._config, self._pace = config, pace
        self._redactor = Redactor(secrets_of(config))
        self.client = Client()
        self.journal = journal or AccessLog.of(config)
        self.circuits = CircuitBreakers(time.monotonic, pace.opens_after, pace.stays_open)
        self.limits = AdmissionControl(config, partial(self.journal.note, "limits"))
        self.pings = KeepAliveTicker(pace)
        self._wires = WireLog(self.journal.write, self._redactor) if config.verbose else None
        self._transport: Transport = _Upstreams(self.client)
        if self._wires:
            self._transport = LoggedTransport(self._transport, self._wires)
        self.store = open_store(config.store_url, config.retention)
        sessions = UpstreamSessions(self.store, config.keys, self.journal.write)
        self._serving = GenerateHandler(
            self._transport, self.circuits, self.limits.slots, self.pings, pace, sessions
        )
        self.store.on_error = self._unstored
        self._keeping = StoredTurns(self.store, self._unstored)
        self._retrieving = StoredResponsesHandler(config, self._keeping, self._transport)
        self._overview = MetricsPage(self.journal.metrics, self._gauges)
        self._tasks: list[asyncio.Task[None]] = []
        self._route = lru_cache(maxsize=1024)(partial(route, config))
        self._speakers = [(codec(name), server(name)) for name in protocol_names()]
        self._forwarding = {  # of the other protocols, bodies are needed in full
            name for name in protocol_names() for each in config.providers.values() if each.forwards(name)
        }
        self._listing = self._speakers[::-1]  # who is told by a header goes before who takes every list

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self.pings.run()), asyncio.create_task(self._overview.share())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.limits.close()
        await self.client.close()
        await self.store.close()
        self.journal.close()
        self._overview.close()

    async def __call__(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        method, path, headers, raw = incoming.method, incoming.path, incoming.headers, incoming.query
        query = dict(parse_qsl(raw.decode("latin-1"))) if raw else {}
        request_id = f"req_{getrandbits(96):024x}"
        told = request_id.encode()
        answer.headers = [(b"request-id", told), (b"x-request-id", told)]
        if self._wires:
            answer.observer = self._wires.hears
        for speaker, serves in self._speakers if method == "POST" else self._listing:
            served = serves.recognise(method, path, query, headers)
            if served:
                key = client_key(headers, query)
                owner = owner_of(key, self._config.keys) if serves.kept else ""
                seen = ExchangeRecord(request_id, speaker.name, served.action)
                await self._served(
                    GatewayRequest(speaker, serves, served, incoming, query, key, owner, answer, seen)
                )
                return
        known = self.limits.callers.find(client_key(headers, query)) is not None and not self._lured(headers)
        await self._other(incoming, known, answer)

    def _lured(self, headers: Mapping[str, str]) -> bool:
        """Who has a key may come from anywhere."""
        return not self._config.keys and is_cross_site_request(headers)

    def _gauges(self) -> dict[str, float]:
        return {
            "dragoman_in_flight": self.journal.metrics.in_flight,
            "dragoman_waiting": self.limits.waiting,
            "dragoman_streams": len(self.pings),
            "dragoman_upstream_connections": self.client.connections,
            "dragoman_open_circuits": len(self.circuits.opened),
            "dragoman_tasks": len(asyncio.all_tasks()),
        }

    def _unstored(self, error: StoreError) -> None:
        """What the store could not do; clients are not told why."""
        self.journal.write(self._redactor.clean(jsontext.dumps({"store": str(error)})))

    async def _other(self, incoming: ServerRequest, known: bool, answer: ResponseWriter) -> None:
        """Probes, metrics, and paths that nobody has."""
        method, path, headers = incoming.method, incoming.path, incoming.headers
        if path == "/metrics" and known:
            await answer.whole(200, self._overview.page(), kind=CONTENT_TYPE_LATEST.encode())
        elif not await health.answered(method, path, headers, self.limits.full, answer):
            claimed = [speaker for speaker, serves in self._speakers if serves.claims(path, headers)]
            speaker = claimed[0] if claimed else self._speakers[0][0]
            failure = Failure("not_found", f"no such route: {method} {path}", 404)
            status, body = speaker.encode_error(_KEYLESS if path == "/metrics" else failure)
            await answer.json(status, body)

    async def _served(self, visit: GatewayRequest) -> None:
        """One request of a client, answered whatever happens, and told to the journal."""
        seen = visit.seen
        failure: Failure | None = None
        passage: Admission | None = None
        said = b""
        self.journal.begun(seen, visit.headers)
        try:
            caller = self.limits.callers.find(visit.key)
            if caller is None:
                failure = _KEYLESS
            elif self._lured(visit.headers):
                failure = _LURED
            elif visit.served.action in ("models", "model"):
                await self._listed(visit)
            else:
                seen.caller = caller.name
                passage = self.limits.arrive(caller, seen)
                if caller.limited:
                    await passage.count(visit.serves, visit.answer)
                if visit.served.id and visit.serves.kept:
                    await passage.turn()
                    await self._retrieving.answer(visit, visit.serves.kept)
                else:
                    await self._answered(visit, passage)
        except (ClientGone, asyncio.CancelledError):
            seen.gone = visit.incoming.gone
            raise
        except Exception as error:
            failure = _failure(error)
            said = error.body if isinstance(error, AttemptFailed) else b""
            seen.crash = error if failure is CRASHED else None
        finally:
            if passage:
                passage.leave()
            if failure:
                await self._refuse(visit, failure, said)
            elif seen.failure:  # a stream ended with it
                seen.failure = self._cleaned(seen.failure, visit.key)
            seen.status = visit.answer.status
            self.journal.told(seen)

    async def _answered(self, visit: GatewayRequest, passage: Admission) -> None:
        data = await request_body.read(visit.incoming, self._config.max_body)
        await passage.turn()
        client, serves, served, seen = visit.client, visit.serves, visit.served, visit.seen
        if self._wires:
            head = f"{client.name} {served.action} {served.model}"
            self._wires.asked(seen.id, visit.key, head, visit.headers, data)
        body = Body(data, client.name, serves.tally.request if client.name in self._forwarding else None)
        said = body.glance
        stream = bool(said.get("stream")) if served.stream is None else served.stream
        asked = Asked(client, serves, served, visit.headers, body, visit.key, stream, visit.owner)
        seen.model = served.model or str(said.get("model") or "")
        seen.stream, seen.tools = stream, serves.tally.tools(said)
        targets = self._route(seen.model)
        if serves.kept:
            asked, targets = await self._keeping.prepared(asked, targets)
        if served.action == "count":
            full = self.limits.slots.full(targets[0].provider)
            await answer_count(asked, targets[0], None if full else self._transport, visit.answer)
        else:
            await self._serving.serve(asked, targets, visit.answer, seen)

    async def _listed(self, visit: GatewayRequest) -> None:
        if visit.served.action == "models":
            await visit.answer.json(200, visit.serves.encode_models(names(self._config)))
        else:
            self._route(visit.served.model)
            await visit.answer.json(200, visit.serves.encode_model(visit.served.model))

    async def _refuse(self, visit: GatewayRequest, failure: Failure, said: bytes) -> None:
        """A failure in the client's words, or as it was `said` in them, without anybody's key in it."""
        visit.seen.failure = failure = self._cleaned(failure, visit.key)
        if not visit.answer.begun:  # else it is cut off here, which is more honest than a clean end
            status, body = visit.client.encode_error(failure)
            if said:
                told = self._redactor.clean(said.decode("utf-8", "replace"), visit.key)
                status, body = failure.status, jsontext.decode(told)
            await visit.answer.json(status, body, retry_header(failure.retry_after))

    def _cleaned(self, failure: Failure, key: str) -> Failure:
        return replace(failure, message=self._redactor.clean(failure.message, key))


def _failure(error: Exception) -> Failure:
    match error:
        case AttemptFailed() | ConversationError():
            return error.failure
        case UnknownModel():
            return Failure("not_found", str(error), 404)
        case TooLarge():
            return Failure("too_large", str(error), 413)
        case TooSlow():
            return Failure("timeout", str(error), 408)
        case ConfigError():  # of a provider: what its owner wrote cannot be used
            return Failure("server", f"the gateway's configuration: {error}", 500)
        case WireError() | request_body.Unreadable():
            return Failure("bad_request", str(error), 400)
        case _:
            return CRASHED


class _Upstreams:
    """The demo in the process, everything else over HTTP."""

    def __init__(self, client: Client) -> None:
        self._client, self._demo = client, DemoTransport()

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Coroutine[Any, Any, Reply]:
        if url.startswith("demo:"):
            return self._demo.send(method, url.removeprefix("demo:"), headers, body, timeouts)
        return self._client.send(method, url, headers, body, timeouts)
