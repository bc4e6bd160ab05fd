"""The gateway: start, stop, and dispatch of each request by one table of routes.

The routes come from the protocols (`ProtocolServer.routes`), from `handlers/internal_routes.py` and from
extensions (`add_routes`: the inspector); `_handlers` maps the action of each to the function that answers it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from hmac import compare_digest
from random import getrandbits
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.failures import UNKNOWN_ROUTE
from dragoman.core.model import Failure
from dragoman.gateway.admission import Admission, AdmissionControl, Caller
from dragoman.gateway.admission.authentication import FailedKeys, client_key, is_cross_site_request, owner_of
from dragoman.gateway.admission.budgets import Budgets
from dragoman.gateway.admission.load_shedding import memory_full
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.cut_ids import CutIds
from dragoman.gateway.conversations.hosted_results import StoredResults
from dragoman.gateway.conversations.request_files import RequestFiles
from dragoman.gateway.conversations.store import StoreError, open_store
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.conversations.stored_turns import UNREADABLE, StoredTurns
from dragoman.gateway.conversations.upstream_sessions import UpstreamSessions
from dragoman.gateway.handlers import internal_routes
from dragoman.gateway.handlers.batches import BatchesHandler
from dragoman.gateway.handlers.compact import CompactHandler, Compactor
from dragoman.gateway.handlers.conversations import ACTIONS as CONVERSATION_ACTIONS
from dragoman.gateway.handlers.conversations import ConversationsHandler
from dragoman.gateway.handlers.count_tokens import CountTokensHandler
from dragoman.gateway.handlers.forward import ForwardHandler
from dragoman.gateway.handlers.generate import GenerateHandler, RoundRunner
from dragoman.gateway.handlers.models import ModelsHandler
from dragoman.gateway.handlers.relay import CRASHED, KeepAliveTicker, fail_stream, loss_header
from dragoman.gateway.handlers.request_reader import RequestReader, UnreadableBody
from dragoman.gateway.handlers.search import SearchHandler
from dragoman.gateway.handlers.stored_responses import StoredResponsesHandler
from dragoman.gateway.handlers.websocket import WarmUpHandler, WebSocketHandler
from dragoman.gateway.jobs.job_table import Job
from dragoman.gateway.jobs.jobs import Jobs
from dragoman.gateway.jobs.replay import CapturedResponse, ReplayedExchange, restore_request
from dragoman.gateway.jobs.services import GatewayParts
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.metrics_page import MetricsPage
from dragoman.gateway.observability.redaction import Redactor
from dragoman.gateway.observability.wire_log import LoggedTransport, WireLog
from dragoman.gateway.request import AttemptFailed, ExchangeRecord, GatewayRequest
from dragoman.gateway.upstreams.affinity import Affinity
from dragoman.gateway.upstreams.attempts import Attempts, Upstreams
from dragoman.gateway.upstreams.pools import Pools
from dragoman.gateway.upstreams.retry_policy import CircuitBreakers, RetryPolicy
from dragoman.gateway.upstreams.routing import UnknownModel, rule_for
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.settings import build_executors
from dragoman.http.client import Client, Reply, Timeouts, Transport
from dragoman.http.memory_budget import default_limit
from dragoman.http.server import (
    ClientGone,
    Headers,
    MemoryBudget,
    MemoryFull,
    ResponseWriter,
    ServerRequest,
    TooLarge,
    TooSlow,
)
from dragoman.protocols import codec, server
from dragoman.protocols import names as protocol_names
from dragoman.recording.recorder import Recorder, open_recorder
from dragoman.serving.conversations import ConversationError
from dragoman.serving.routes import Route, RouteMatch, RouteTable
from dragoman.serving.server import ProtocolServer

if TYPE_CHECKING:
    from dragoman.demo import DemoTransport
    from dragoman.gateway.jobs.background import BackgroundRun
    from dragoman.gateway.upstreams.websocket import WebSocketTransport

_WRONG_KEY = Failure("unauthenticated", "This gateway needs a valid key.", 401)
# Own routes that need no key: probes of load balancers and agents, and the page, which asks for it
_OPEN = frozenset({"health", "ready", "page"})
_NO_ADMIN = Failure("unauthenticated", "This page needs one of inspector.admin_keys.", 401)
_CROSS_SITE = Failure(
    "forbidden",
    "Without keys this gateway answers programs of this machine, by a private name, and no web pages. "
    "Set server.keys.",
    403,
)
_UNLIMITED = ("models", "model")  # actions that rate and concurrency limits do not count

Handler = Callable[[GatewayRequest], Awaitable[None]]


class Endpoint(Struct, frozen=True):
    """Who answers a route: the protocol that its client speaks, and the handler. `own`: it is no exchange."""

    client: Codec
    server: ProtocolServer
    handler: Handler
    own: bool = False


class RequestHead(Struct, frozen=True):
    """What the head of a request says. `routes` is the table that it was looked up in: with another
    configuration there is another one."""

    routes: RouteTable[Endpoint]
    route: RouteMatch
    endpoint: Endpoint
    query: Mapping[str, str]
    key: str
    owner: str


class Gateway:
    """One process of the gateway, with everything that exchanges share."""

    def __init__(
        self,
        config: Config,
        access_log: AccessLog | None = None,
        policy: RetryPolicy | None = None,
        recorder: Recorder | None = None,
        hosted: HostedTools | None = None,
    ) -> None:
        policy = policy or RetryPolicy()
        self.config = config
        self._redactor = Redactor(())
        self._redactor.add(config)
        self.recorder = recorder or _recorder(config)
        self.memory = MemoryBudget(config.memory or default_limit(config.workers))
        self.client = Client(memory=self.memory)
        self.access_log = access_log or AccessLog.of(config)
        self.circuit_breakers = CircuitBreakers(time.monotonic, policy.opens_after, policy.stays_open)
        self.store = open_store(config.store_url, config.retention)
        self.store.on_error = self._log_store_error
        budgets = Budgets(self.store, self._log_store_error)
        self.admission = AdmissionControl(
            config, partial(self.access_log.note, "limits"), self.memory, budgets
        )
        self.keep_alives = KeepAliveTicker(policy)
        self._wire_log = WireLog(self.access_log.write, self._redactor) if config.verbose else None
        self._transports = _Transports(self.client)
        self._transport: Transport = self._transports
        if self._wire_log:
            self._transport = LoggedTransport(self._transport, self._wire_log)
        if self.recorder:
            self.recorder.secrets = self._redactor.secrets
            self._transport = self.recorder.transport(self._transport)
        self._hosted = hosted
        if hosted is None and (settings := config.hosted):
            self._hosted = HostedTools(build_executors(settings, self.client).values(), settings.limits)
        if self._hosted:
            self._hosted.keep_in(StoredResults(self.store, self._log_store_error))
        self._observes = bool(self.recorder or self.access_log.traces)
        self.is_draining: Callable[[], bool] = bool
        self._metrics_page = MetricsPage(self.access_log.metrics, self._gauges)
        log = self.access_log
        parts = GatewayParts(self.store, self._replay, log.metrics, self._log_store_error, log.log_crash)
        self.jobs = Jobs(config, parts)
        self._policy = policy
        self._cut_ids = CutIds(self.store, self._log_store_error)
        note = partial(self.access_log.note, "pool")
        has_replicas = bool(config.store_url) and not read_address(config.store_url).path
        shared = has_replicas or config.workers > 1
        self._pools = Pools(Affinity(self.store, note, shared=shared), note)
        self._failed_keys: FailedKeys | None = None
        self._extensions: list[tuple[Route, Endpoint]] = []
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self.keep_alives.run,
            self._metrics_page.share,
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._build_routes()

    def configure(self, config: Config) -> None:
        """Serve by another configuration. Requests under way end by the one that they began with, because
        their handlers hold it. Settings of `reload.ONLY_AT_START` are not looked at again."""
        self.config = config
        self._redactor.add(config)
        self.admission.configure(config)
        self.jobs.space.configure(config)
        self._build_routes()

    def _build_routes(self) -> None:
        config = self.config
        self._transports.configure(config, self.memory)
        sessions = UpstreamSessions(self.store, config.keys, self.access_log.write)
        upstreams = Upstreams(
            self._transport, self.circuit_breakers, self.admission.slots, self._pools, self._policy
        )
        self.attempts = Attempts(upstreams, sessions, self._cut_ids)
        limit = config.failed_keys_per_minute if config.keys else 0
        if self._failed_keys and limit:
            self._failed_keys.limit = limit  # wrong keys of before a reload still count
        else:
            self._failed_keys = FailedKeys(limit) if limit else None
        self._rows = self._endpoints(upstreams)
        self._routes = RouteTable(self._rows + self._extensions)

    def _endpoints(self, upstreams: Upstreams) -> list[tuple[Route, Endpoint]]:
        handlers = self._handlers(upstreams)
        names = protocol_names()
        rows = [
            (route, Endpoint(codec(name), server(name), handlers[route.action], route.action == "websocket"))
            for name in names
            for route in server(name).routes
        ]
        first = codec(names[0]), server(names[0])  # whose errors the gateway's own routes answer with
        return rows + [
            (route, Endpoint(*first, handlers[route.action], own=True)) for route in internal_routes.ROUTES
        ]

    def _handlers(self, upstreams: Upstreams) -> dict[str, Handler]:
        config, transport = self.config, self._transport
        stored_turns = StoredTurns(self.store, self._log_store_error, config.max_body)
        files = RequestFiles(self.jobs.batches.table, config.max_body)
        reader = RequestReader(config, stored_turns, self._wire_log, self._cut_ids, files)
        compactor = Compactor(self.attempts)
        background = self.jobs.background
        self._warm_up = WarmUpHandler(reader).answer
        rounds = RoundRunner(self.attempts, compactor, self._hosted)
        self._generate = generate = GenerateHandler(
            reader, rounds, self.keep_alives, background.accept, config.request_timeout
        ).answer
        conversations = ConversationsHandler(stored_turns.conversations, config.max_body)
        models = ModelsHandler(config)
        stored_responses = StoredResponsesHandler(config, stored_turns, transport, background)
        batches = BatchesHandler(config, self.jobs.batches)
        own = internal_routes.HealthHandler(
            self.admission, self._metrics_page, self.store, lambda: self.is_draining()
        )
        return {
            "generate": generate,
            "compact": CompactHandler(reader, compactor, transport).answer,
            "count": CountTokensHandler(reader, upstreams).answer,
            "forward": ForwardHandler(config, upstreams).answer,
            "search": SearchHandler(config, self._hosted).answer,
            "models": models.list,
            "model": models.retrieve,
            "retrieve": stored_responses.answer,
            "delete": stored_responses.answer,
            "items": stored_responses.answer,
            "cancel": stored_responses.answer,
            **dict.fromkeys(CONVERSATION_ACTIONS, conversations.answer),
            "batch": batches.answer,
            "file": batches.answer_file,
            "websocket": WebSocketHandler(self._respond_to_message, config.max_body).answer,
            "health": own.health,
            "ready": own.ready,
            "key": own.key,
            "metrics": own.metrics,
        }

    def add_routes(self, routes: Iterable[Route], handler: Handler) -> None:
        """Routes of an extension, such as the inspector; their actions decide who may ask (`_answer_own`)."""
        endpoint = replace(self._rows[-1][1], handler=handler)
        self._extensions += [(route, endpoint) for route in routes]
        self._routes = RouteTable(self._rows + self._extensions)

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(run()) for run in self.background]
        await self.jobs.start()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.jobs.stop()
        await self.admission.close()
        await self._transports.close()
        if self._hosted:
            await self._hosted.close()
        await self.store.close()
        self.access_log.close()
        self._metrics_page.close()
        if self.recorder:
            await asyncio.to_thread(self.recorder.close)

    def __call__(self, incoming: ServerRequest, writer: ResponseWriter) -> Coroutine[Any, Any, None]:
        request_id = "req_" + getrandbits(96).to_bytes(12, "big").hex()
        writer.lines = f"request-id: {request_id}\r\nx-request-id: {request_id}\r\n".encode()
        if self._wire_log:
            writer.observer = self._wire_log.begin()
        head: RequestHead | None = incoming.memo.found
        if head is None or head.routes is not self._routes:
            head = incoming.memo.found = self._read_head(incoming)
        if head is None:
            return self._answer_unknown(request_id, incoming, writer)
        endpoint, route = head.endpoint, head.route
        client = endpoint.client
        record = ExchangeRecord(request_id, client.name, route.action, address=incoming.address)
        request = GatewayRequest(
            client, endpoint.server, route, incoming, head.query, head.key, head.owner, writer, record
        )
        return (self._answer_own if endpoint.own else self._answer)(request, endpoint.handler)

    def _read_head(self, incoming: ServerRequest) -> RequestHead | None:
        """None where there is no such route."""
        headers = incoming.headers
        query = dict(parse_qsl(incoming.query.decode("latin-1"))) if incoming.query else {}
        found = self._routes.find(incoming.method, incoming.path, query, headers)
        if found is None:
            return None
        route, endpoint = found
        key = client_key(headers, query)
        keeps = endpoint.server.turn_codec or endpoint.server.named_files
        owner = owner_of(key, self.config.keys) if keeps else ""
        return RequestHead(self._routes, route, endpoint, query, key, owner)

    async def _answer(self, request: GatewayRequest, handler: Handler) -> None:
        """A request of a protocol: it is answered whatever happens, and has a line in the access log."""
        record, log = request.record, self.access_log
        failure: Failure | None = None
        body = b""
        log.metrics.in_flight += 1
        if self._observes:
            request = self._observe(request)
        try:
            request = self._admit(request)
            if request.admission:
                request.admission.arrive()  # before its body is read
                if request.caller and request.caller.limited:
                    await request.admission.count(request.protocol_server, request.writer)
            await handler(request)
        except (ClientGone, asyncio.CancelledError):
            record.gone = request.incoming.gone
            raise
        except Exception as error:
            failure, body = self._note_failure(error, record)
        finally:
            if request.admission:
                request.admission.leave()
            if record.spent:
                record.add_spent(record.spent)
            try:
                if failure:
                    await self._refuse(request, failure, body)
                elif record.failure:  # a stream ended with it
                    record.failure = self._redact(record.failure, request.key)
            finally:
                record.status = request.writer.status
                log.finish(record)
                if request.recording and self.recorder:
                    request.recording.headers = request.writer.headers
                    self.recorder.finish(request.recording, record, rule_for(self.config, record.model))

    def _note_failure(self, error: Exception, record: ExchangeRecord) -> tuple[Failure, bytes]:
        """The failure, and its body where an upstream wrote one."""
        if isinstance(error, StoreError):
            self._log_store_error(error)
        failure = _failure(error)
        if failure is CRASHED:
            record.crash = error
        return failure, error.body if isinstance(error, AttemptFailed) else b""

    def _admit(self, request: GatewayRequest) -> GatewayRequest:
        """The request with its sender. Raises AttemptFailed where it has no valid key."""
        record, caller = request.record, request.caller
        if caller is None:
            found = self._authenticate(request)
            if isinstance(found, Failure):
                raise AttemptFailed(found)
            caller = found
        if record.action in _UNLIMITED:
            return replace(request, caller=caller)
        record.caller = caller.name
        admission = Admission(self.admission, caller, record, caller.budgeted)
        return replace(request, caller=caller, admission=admission)

    async def _respond_to_message(self, request: GatewayRequest, generate: bool) -> None:
        """A request that came over WebSocket, by the configuration of this moment: connections live long."""
        handler = self._generate if generate else self._warm_up
        if self._wire_log:
            request.writer.observer = self._wire_log.client_response
        await self._answer(request, handler)

    async def _replay(
        self, job: Job, writer: CapturedResponse, run: BackgroundRun | None = None
    ) -> ReplayedExchange:
        """Answer a stored request. Its client's key is not stored, so the request is made for its caller."""
        incoming = restore_request(job)
        found = self._routes.find("POST", incoming.path, {}, incoming.headers)
        assert found, "only requests of known routes are stored"
        match, endpoint = found
        action = "background" if run else match.action
        record = ExchangeRecord(f"req_{getrandbits(96):024x}", endpoint.client.name, action)
        key = f"job-{job.caller}"  # nobody's
        caller = self.admission.callers.by_id(job.caller)
        if caller is None:
            record.failure = _WRONG_KEY
            await writer.json(*endpoint.client.encode_error(_WRONG_KEY))
            return ReplayedExchange(writer.status, writer.body, record)
        request = GatewayRequest(
            endpoint.client,
            endpoint.server,
            match,
            incoming,
            {},
            key,
            job.owner,
            writer,
            record,
            caller,
            background_run=run,
        )
        await self._answer(request, endpoint.handler)
        return ReplayedExchange(writer.status, writer.body, record)

    async def _answer_own(self, request: GatewayRequest, handler: Handler) -> None:
        """A route that is no exchange, without a line in the access log. It needs a key unless it is one of
        `_OPEN`; whatever shows recordings needs an admin key."""
        action = request.route.action
        failure: Failure | None = None
        if action == "recordings":
            failure = self._authenticate_admin(request)
        elif action not in _OPEN:
            caller = self._authenticate(request)
            failure = caller if isinstance(caller, Failure) else None
        if failure:
            await self._refuse(request, failure)
        else:
            await handler(request)

    async def _answer_unknown(self, request_id: str, incoming: ServerRequest, writer: ResponseWriter) -> None:
        """A path with other methods: 405; any other: 404, with the nearest route. In the path's protocol.
        It has a line in the access log, because a wrong base URL is looked for there, and is not counted."""
        method, path = incoming.method, incoming.path
        if others := self._routes.methods(path):
            allow = ", ".join(sorted(others))
            problem = f"{method} is not allowed on {path}. Use {allow}."
            endpoint, headers = next(iter(others.values())), [(b"allow", allow.encode())]
            failure = Failure("bad_request", problem, 405)
        else:
            nearest, endpoint = self._routes.nearest(method, path, incoming.headers)
            problem = f"There is no {method} {path}. Did you mean {nearest.method} {nearest.path}?"
            failure, headers = Failure("not_found", problem, 404, UNKNOWN_ROUTE), None
        client = endpoint.client
        record = ExchangeRecord(request_id, client.name, "unknown", address=incoming.address)
        _, body = client.encode_error(failure)
        await writer.json(failure.status, body, headers)
        record.status, record.failure = writer.status, failure
        self.access_log.note_refusal(record)

    def _authenticate(self, request: GatewayRequest) -> Caller | Failure:
        if self._failed_keys and (failure := self._failed_keys.refusal(request.incoming.address)):
            return failure
        caller = self.admission.callers.find(request.key)
        if caller is None:
            return self._wrong_key(request, _WRONG_KEY)
        if not self.config.keys and is_cross_site_request(request.incoming.headers):
            return _CROSS_SITE  # a client with a key may come from anywhere
        if caller.memory:
            request.incoming.charge(caller.memory)
        return caller

    def _authenticate_admin(self, request: GatewayRequest) -> Failure | None:
        config, key = self.config, request.key.encode("utf-8", "surrogateescape")
        if self._failed_keys and (failure := self._failed_keys.refusal(request.incoming.address)):
            return failure
        if config.keys or config.admin_keys:
            known = [compare_digest(key, admin.encode()) for admin in config.admin_keys]
            return None if any(known) else self._wrong_key(request, _NO_ADMIN)
        return _CROSS_SITE if is_cross_site_request(request.incoming.headers) else None

    def _wrong_key(self, request: GatewayRequest, failure: Failure) -> Failure:
        if self._failed_keys:
            self._failed_keys.add(request.incoming.address)
        return failure

    def _observe(self, request: GatewayRequest) -> GatewayRequest:
        incoming, record, writer = request.incoming, request.record, request.writer
        if self.access_log.traces:
            self.access_log.traces.begin(record, incoming.headers)
        if self.recorder is None:
            return request
        url = incoming.path + (f"?{incoming.query.decode('latin-1')}" if incoming.query else "")
        recording = self.recorder.begin(
            record.id, incoming.method, url, incoming.headers, record.client, request.key
        )
        recording.record = record
        log, observe = writer.observer, recording.observe
        if log is None:
            writer.observer = observe
        else:
            writer.observer = lambda status, data: (log(status, data), observe(status, data))[1]
        return replace(request, recording=recording)

    async def _refuse(self, request: GatewayRequest, failure: Failure, body: bytes = b"") -> None:
        """A failure in the client's protocol, or with the upstream's own `body`, without any key in it."""
        writer, record = request.writer, request.record
        record.failure = failure = self._redact(failure, request.key)
        if writer.begun:  # the answer is cut off here, which the client sees, unlike a clean end
            return
        if failure.kind == "context_too_long" and record.stream and request.protocol_server.streams_overflow:
            # Codex compacts at `response.failed`; it shows a 400 to the user and stops (G16, G36)
            await writer.begin(request.content_type, loss_header(record.losses))
            await writer.end(fail_stream(request, failure))
            return
        status, error = request.client.encode_error(failure)
        if failure.status == 408:  # the client is slow, not an upstream, for which 504 stands
            status = 408
        if body:
            error = jsontext.decode(self._redactor.clean(body.decode("utf-8", "replace"), request.key))
            status = failure.status
        await writer.json(status, error, _retry_headers(failure.retry_after))

    def _redact(self, failure: Failure, key: str) -> Failure:
        return replace(failure, message=self._redactor.clean(failure.message, key))

    def _log_store_error(self, error: StoreError) -> None:
        """For the log only: clients get no details of the store."""
        self.access_log.write(self._redactor.clean(jsontext.dumps({"store": str(error)})))

    def _gauges(self) -> dict[str, float]:
        return {
            "dragoman_in_flight": self.access_log.metrics.in_flight,
            "dragoman_waiting": self.admission.waiting,
            "dragoman_buffered_bytes": self.memory.used,
            "dragoman_streams": len(self.keep_alives),
            "dragoman_upstream_connections": self.client.connections,
            "dragoman_open_circuits": len(self.circuit_breakers.opened),
            "dragoman_jobs_running": len(self.jobs.runner.running),
            "dragoman_tasks": len(asyncio.all_tasks()),
        }


def _recorder(config: Config) -> Recorder | None:
    inspector = config.inspector
    return open_recorder(inspector.keep, inspector.path, inspector.max_mb) if inspector.enabled else None


def _failure(error: Exception) -> Failure:
    match error:
        case AttemptFailed() | ConversationError():
            return error.failure
        case StoreError():
            return UNREADABLE
        case UnknownModel():
            return Failure("not_found", str(error), 404)
        case TooLarge():
            return Failure("too_large", str(error), 413)
        case MemoryFull():
            return memory_full().failure
        case TooSlow():
            return Failure("timeout", str(error), 408)
        case ConfigError():  # a provider's configuration cannot be used
            return Failure("server", f"the gateway's configuration: {error}", 500)
        case WireError() | UnreadableBody():
            return Failure("bad_request", str(error), 400)
        case _:
            return CRASHED


def _retry_headers(seconds: float | None) -> Headers:
    """Whole seconds for all, and milliseconds for the SDKs of OpenAI and Anthropic, which read them first
    (`_base_client.py` of both)."""
    if seconds is None:
        return []
    whole = max(1, -int(-seconds // 1))
    return [(b"retry-after", b"%d" % whole), (b"retry-after-ms", b"%d" % round(seconds * 1000))]


class _Transports:
    """The embedded demo model for `demo:` URLs, WebSocket for `ws:` and `wss:`, HTTP for all others."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._proxied: dict[str, Client] = {}  # base URL of a provider with a proxy of its own
        self._demo: DemoTransport | None = None
        self._websocket: WebSocketTransport | None = None

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Coroutine[Any, Any, Reply]:
        if not url.startswith(("demo:", "ws")):
            client = self._client_for(url) if self._proxied else self._client
            return client.send(method, url, headers, body, timeouts)
        if url.startswith("demo:"):
            return self._demo_model().send(method, url.removeprefix("demo:"), headers, body, timeouts)
        return self._websockets().send(method, url, headers, body, timeouts)

    def configure(self, config: Config, memory: MemoryBudget) -> None:
        """Clients for the proxies of `config`; those of before keep what is under way."""
        wanted = {each.base_url.rstrip("/"): each.proxy for each in config.providers.values() if each.proxy}
        self._proxied = {url: Client(memory=memory, proxy=proxy) for url, proxy in wanted.items()}

    def _client_for(self, url: str) -> Client:
        return next((it for base, it in self._proxied.items() if url.startswith(f"{base}/")), self._client)

    def _demo_model(self) -> DemoTransport:
        if self._demo is None:
            from dragoman.demo import DemoTransport  # for those who use it: it takes 40 ms to import

            self._demo = DemoTransport()
        return self._demo

    def _websockets(self) -> WebSocketTransport:
        if self._websocket is None:
            from dragoman.gateway.upstreams.websocket import WebSocketTransport  # for those who use it

            self._websocket = WebSocketTransport(self._client)
        return self._websocket

    async def close(self) -> None:
        if self._websocket:
            await self._websocket.close()
        for client in (self._client, *self._proxied.values()):
            await client.close()
