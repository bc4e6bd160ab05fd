"""Retry and fallback: targets in order, several attempts at each; and what one attempt sends.

next target --circuit open--------------------------> next target
next target --full, others left---------------------> last in the order
attempt     --answered------------------------------> done
attempt     --failed, worth a retry, wait short-----> attempt at the same target
attempt     --failed, another provider may answer---> next target
attempt     --failed otherwise, or none left--------> AttemptFailed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from hashlib import blake2s
from typing import Any

from msgspec import Struct

from dragoman import __version__
from dragoman.core import jsontext
from dragoman.core.codec import Codec, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.fields import Body
from dragoman.core.model import Failure, FailureKind
from dragoman.core.transport import CredentialFailed, SharedHeaders
from dragoman.exchange import Exchange, ExchangePlan
from dragoman.gateway.admission import ProviderConcurrency
from dragoman.gateway.conversations.cut_ids import CutIds
from dragoman.gateway.conversations.turn_writer import stores_turns
from dragoman.gateway.conversations.upstream_sessions import UpstreamSession, UpstreamSessions
from dragoman.gateway.large_bodies import LARGE, run_for
from dragoman.gateway.large_bodies import translate as translate_large
from dragoman.gateway.observability.traces import trace_headers
from dragoman.gateway.request import Attempt, AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.pools import RESTS, Pools
from dragoman.gateway.upstreams.retry_policy import CircuitBreakers, RetryPolicy
from dragoman.gateway.upstreams.routing import Target
from dragoman.gateway.upstreams.surfaces import SurfaceRequest, attempt_surfaces
from dragoman.http.client import ConnectFailed, Reply, TimedOut, Timeouts, Transport, TransportError
from dragoman.http.client.retries import RETRYABLE, read_failure, unreachable
from dragoman.profiles import ProviderSettings
from dragoman.protocols import upstream
from dragoman.transforms.rounds import RoundEnd

LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_MOST_VARIANTS = 64  # of the headers of a plan; clients choose some of their values
_USER_AGENT = {"user-agent": f"dragoman/{__version__}"}  # firewalls before providers refuse requests without

Relay = Callable[[Attempt, Reply], Awaitable[RoundEnd]]

# Not worth a retry at the same provider, but another one may answer
_WORTH_FALLBACK: frozenset[FailureKind] = frozenset(
    {"unauthenticated", "billing", "forbidden", "not_found", "context_too_long", "too_large"}
)
# How an upstream refuses a conversation that it does not know any more
_SESSION_LOST: frozenset[FailureKind] = frozenset({"not_found", "bad_request", "conflict"})

_REFUSED: frozenset[FailureKind] = frozenset({"unauthenticated", "forbidden"})  # AWS answers 403 to both


class Upstreams(Struct, frozen=True, eq=False):
    """What all requests share on their way to upstreams."""

    transport: Transport
    circuit_breakers: CircuitBreakers
    slots: ProviderConcurrency
    pools: Pools
    policy: RetryPolicy


class Attempts:
    def __init__(self, upstreams: Upstreams, sessions: UpstreamSessions, cut_ids: CutIds) -> None:
        self._transport, self._circuit_breakers = upstreams.transport, upstreams.circuit_breakers
        self._slots, self._pools, self._policy = upstreams.slots, upstreams.pools, upstreams.policy
        self._sessions, self._cut_ids = sessions, cut_ids

    def run(self, request: RoutedRequest, relay: Relay) -> Coroutine[Any, Any, RoundEnd]:
        """Hand the first usable answer to `relay`. Raises AttemptFailed where no target gives one."""
        targets = request.targets
        if len(targets) == 1 and not self._circuit_breakers.failures:
            return self._try(request, targets[0], 0, relay)
        return self._fall_back(request, relay)

    async def _fall_back(self, request: RoutedRequest, relay: Relay) -> RoundEnd:
        targets = request.targets
        failed: AttemptFailed | None = None
        order = await self._pools.order(targets, request)
        for place, target in enumerate(order):
            left = len(order) - 1 - place
            if left and place < len(targets) and self._slots.full(target.provider):
                order.append(target)  # its queue is the last resort
                continue
            if not self._circuit_breakers.admits(target.provider.name):
                continue
            try:
                return await self._ask(request, target, left, relay, order[0])
            except AttemptFailed as error:
                # of several accounts, that one refuses its key says less than that another is busy
                if not (target.shared and failed and failed.retry):
                    failed = error
                if not _may_succeed_elsewhere(error):
                    break
        try:
            if failed and failed.retry and (rested := self._pools.soonest(order, self._policy.longest_wait)):
                failed = None  # as below
                target, wait = rested
                await asyncio.sleep(wait)
                return await self._ask(request, target, 0, relay, order[0])
            raise failed or self._all_open(targets)
        finally:
            failed = None  # its traceback refers to this frame: a cycle that would keep the body in memory

    async def _ask(
        self, request: RoutedRequest, target: Target, left: int, relay: Relay, first: Target
    ) -> RoundEnd:
        """One of several targets, of which `first` was asked before the others."""
        try:
            end = await self._try(request, target, left, relay)
        except AttemptFailed as error:
            if target.shared:
                self._pools.note_failure(target, error.failure, error.unsent)
            raise
        if target.shared:
            await self._pools.note_answer(target, request, first)
        return end

    async def _try(self, request: RoutedRequest, target: Target, left: int, relay: Relay) -> RoundEnd:
        """Attempts at one target. With other targets `left`, a long wait is not worth it.

        A conversation that the upstream has forgotten is sent again at once, with its whole history. So is a
        request whose credential was refused, where that can be fetched anew.
        """
        provider, record = target.provider, request.arrived.record
        failures, resume, renewed = 0, True, False
        record.target, record.shed = target, ""
        while True:
            slot = await self._slots.enter(provider, record) if provider.max_concurrency else None
            record.tries += 1
            try:
                if target.surfaces:
                    return await self._attempt_surfaces(request, target, resume, relay)
                if request.arrived.recording:
                    _note_attempt(request, target)
                return await self._send(request, await self._translate(request, target), resume, relay)
            except AttemptFailed as error:
                record.failed_tries = (*record.failed_tries, (provider.name, error.failure.kind))
                resumed = resume and record.exchange and record.exchange.resumed
                if resumed and error.failure.kind in _SESSION_LOST:
                    resume, wait = False, 0.0
                elif not renewed and error.failure.kind in _REFUSED and provider.credentials.note_refusal():
                    renewed, wait = True, 0.0
                else:
                    wait = self._wait_after(error, target, failures, left)
                    failures += 1
                    if wait is None:
                        raise
            finally:
                if slot:
                    slot.leave()
            if wait:
                await asyncio.sleep(wait)

    def _wait_after(self, error: AttemptFailed, target: Target, failures: int, left: int) -> float | None:
        """Seconds until the next attempt at the same target; None where none is worth it."""
        breakers, policy, provider = self._circuit_breakers, self._policy, target.provider.name
        if error.reachable:
            breakers.note_success(provider)
        else:
            breakers.unreachable(provider)
        wait = policy.wait(failures, error.failure.retry_after)
        longest = policy.longest_wait_with_fallback if left else policy.longest_wait
        hopeless = not error.retry or failures + 1 == policy.tries or wait > longest
        if hopeless or breakers.is_open(provider):
            return None
        # another account may answer now
        return None if target.shared and left and error.failure.kind in RESTS else wait

    async def _attempt_surfaces(
        self, request: RoutedRequest, target: Target, resume: bool, relay: Relay
    ) -> RoundEnd:
        """The same at a provider that has several protocols."""

        def translate(at: Target) -> Awaitable[SurfaceRequest]:
            return self._translate(request, at)

        def send(translation: SurfaceRequest) -> Awaitable[RoundEnd]:
            request.arrived.record.target = translation.target
            _note_attempt(request, translation.target)
            return self._send(request, translation, resume, relay)

        return await attempt_surfaces(target, translate, send)

    async def _translate(self, request: RoutedRequest, target: Target) -> SurfaceRequest:
        arrived, provider, model = request.arrived, target.provider, target.model
        client, record = arrived.client.name, arrived.record
        compaction, writer = request.compaction, request.turn_writer
        if compaction and (compaction.threshold or stores_turns(client, provider)):
            compaction = None  # done before this request, or by the provider
        plan = target.plans.get(client) or _plan(arrived, target)
        exchange = Exchange.planned(plan, record.id[4:], request.model, compaction, request.rounds)
        if names := exchange.upstream.http.header_fields:
            exchange.header_fields = _fields_of_headers(arrived, exchange, names)
        if writer and not writer.serves(provider):
            writer = None
        record.exchange = exchange
        given = writer.body if writer else request.body
        if arrived.admission and arrived.admission.is_budgeted:
            given = _meter(request, target, given)
        if len(given.data) > LARGE:
            body = await run_for(len(given.data), translate_large, exchange, given, model, request.stream)
        else:
            body = exchange.request_bytes(given, model, request.stream)
        return SurfaceRequest(target, exchange, writer, body)

    async def _send(
        self, request: RoutedRequest, translation: SurfaceRequest, resume: bool, relay: Relay
    ) -> RoundEnd:
        arrived, target, exchange = request.arrived, translation.target, translation.exchange
        provider, record, body = target.provider, arrived.record, translation.body
        record.exchange = exchange
        session: UpstreamSession | None = None
        if exchange.upstream.session:
            session = self._sessions.talk(exchange, provider, arrived.key, record.id)
            if resume and (resumed := await session.resume()):
                body = jsontext.encode(resumed)
        headers = exchange.headers
        if record.span is not None:
            headers = {**headers, **trace_headers(record.span)}
        try:
            outgoing = OutgoingRequest("POST", url_at(provider, exchange.path), headers, body)
            reply = await send(self._transport, arrived, provider, outgoing)
        except TransportError as error:
            raise unreachable_provider(provider, error) from error
        if not 200 <= reply.status < 300:
            raise await refusal(reply, exchange.upstream, exchange.client)
        if self._circuit_breakers.failures:
            self._circuit_breakers.note_success(provider.name)
        try:
            end = await relay(Attempt(request, target, exchange, translation.turn_writer, session), reply)
        finally:
            reply.close()
        if long_ids := exchange.long_ids:
            await self._cut_ids.remember(arrived.caller.id if arrived.caller else "", long_ids)
        return end

    def _all_open(self, targets: tuple[Target, ...]) -> AttemptFailed:
        names = dict.fromkeys(target.provider.name for target in targets)
        soonest = min(self._circuit_breakers.seconds_left(name) for name in names)
        paused = " and ".join(repr(name) for name in names)
        problem = f"Provider {paused} failed repeatedly and is paused. Next attempt in {soonest:.0f} s."
        return AttemptFailed(Failure("overloaded", problem, 503, retry_after=soonest))


def _may_succeed_elsewhere(error: AttemptFailed) -> bool:
    return error.retry or error.failure.kind in _WORTH_FALLBACK


def _note_attempt(request: RoutedRequest, target: Target) -> None:
    if recording := request.arrived.recording:
        recording.begin_attempt(target.provider.name, target.provider.protocol, target.model)


def _fields_of_headers(request: GatewayRequest, exchange: Exchange, names: dict[str, str]) -> dict[str, str]:
    """What the client says in headers and the upstream reads in the body; the messages are the same."""
    if exchange.upstream.conversation.protocol != request.client.name:
        return {}
    given = request.incoming.headers
    return {field: value for name, field in names.items() if (value := given.get(name))}


def _meter(request: RoutedRequest, target: Target, body: Body) -> Body:
    """The body of a request whose tokens are billed: where an upstream counts those of a stream on request
    only, and the client does not ask, the gateway does. The relay takes the count out again."""
    arrived, provider = request.arrived, target.provider
    arrived.record.received = len(body.data)
    accounting = arrived.protocol_server.accounting
    is_foreign = arrived.client.name != upstream(provider.protocol).name
    if not request.stream or not accounting.usage_request or is_foreign:
        return body
    if accounting.asks_usage(body.wire) or not provider.profile(target.model).stream_usage:
        return body
    wire = dict(body.wire)
    for name, fields in accounting.usage_request.items():
        given = wire.get(name)
        wire[name] = {**given, **fields} if jsontext.is_object(given) else dict(fields)
    metered = Body(jsontext.encode(wire), arrived.client.name, None, wire)
    metered.sealed = body.sealed
    return metered


@lru_cache(4096)
def _issuer(provider: str, key: str) -> str:
    """Who makes opaque state: a provider, and the account at it. The key itself is not in the name."""
    return f"{provider}/{blake2s(key.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"


def _plan(request: GatewayRequest, target: Target) -> ExchangePlan:
    """What exchanges of this client's protocol with `target` share; not stored where keys pass through."""
    provider, client = target.provider, request.client.name
    key = request.key if provider.passthrough else provider.state_key
    plan = ExchangePlan(
        client,
        provider.protocol,
        provider.dialect,
        recover=provider.recover,
        origin=_issuer(provider.issuer, key) if key else provider.issuer,
        profile=provider.profile(target.model),
        overrides=target.overrides,
    )
    if not provider.passthrough:
        target.plans[client] = plan
    return plan


def url_at(provider: ProviderSettings, path: str) -> str:
    return provider.base_url.rstrip("/") + path


def send(
    transport: Transport,
    request: GatewayRequest,
    provider: ProviderSettings,
    outgoing: OutgoingRequest,
    timeouts: Timeouts | None = None,
) -> Coroutine[Any, Any, Reply]:
    """To the headers are added: the client's that belong to a body of the same protocol, the key's and the
    provider's. To those of a plan, which belongs to one provider, they are added once for all requests in
    which the client's are the same."""
    method, url, headers, body = outgoing.method, outgoing.url, outgoing.headers, outgoing.body
    timeouts = timeouts or provider.timeouts
    names, given = request.protocol_server.forwards, ()
    if names and request.client.name == provider.protocol:
        given = tuple([request.incoming.headers.get(name) for name in names])
    variants: dict[tuple[str | None, ...], SharedHeaders] | None = getattr(headers, "variants", None)
    if variants and (found := variants.get(given)):
        return transport.send(method, url, found, body, timeouts)
    sent = {**headers, **_USER_AGENT}
    sent |= {name: value for name, value in zip(names, given, strict=False) if value is not None}
    source = Credential(key=request.key) if provider.passthrough else provider.credentials
    credential = source.current()
    if credential is None:
        return _send_later(transport, provider, outgoing, sent, timeouts)
    sent = _sign(provider, credential, outgoing, sent)
    http = upstream(provider.protocol).http
    changes = http.signs or provider.passthrough or credential is not source  # which fetches another one
    if variants is not None and len(variants) < _MOST_VARIANTS and not changes:
        sent = variants[given] = SharedHeaders(sent)
    return transport.send(method, url, sent, body, timeouts)


async def _send_later(
    transport: Transport,
    provider: ProviderSettings,
    outgoing: OutgoingRequest,
    sent: dict[str, str],
    timeouts: Timeouts,
) -> Reply:
    """Once the provider's credential was fetched."""
    sent = _sign(provider, await provider.credentials.wait(), outgoing, sent)
    return await transport.send(outgoing.method, outgoing.url, sent, outgoing.body, timeouts)


def _sign(
    provider: ProviderSettings, credential: Credential, outgoing: OutgoingRequest, sent: dict[str, str]
) -> dict[str, str]:
    """The headers that are `sent`, with the credential's and the provider's, which win."""
    http = upstream(provider.protocol).http
    return {**sent, **(http.authenticate(credential, outgoing) if credential else {}), **provider.headers}


async def ask(
    transport: Transport,
    request: GatewayRequest,
    provider: ProviderSettings,
    outgoing: OutgoingRequest,
    timeouts: Timeouts | None = None,
) -> tuple[int, bytes]:
    """Status and body of a reply that is not translated. Raises TransportError."""
    reply = await send(transport, request, provider, outgoing, timeouts)
    try:
        return reply.status, await reply.read(LARGEST_REPLY)
    finally:
        reply.close()


def unreachable_provider(provider: ProviderSettings, error: TransportError) -> AttemptFailed:
    """A server that hung up on this request may serve the next one."""
    reachable = not isinstance(error, ConnectFailed | TimedOut)
    unsent = isinstance(error, CredentialFailed)
    return AttemptFailed(unreachable(provider.name, error), retry=True, reachable=reachable, unsent=unsent)


async def refusal(reply: Reply, codec: Codec, client: Codec) -> AttemptFailed:
    """An answer that is an error of `codec`; it keeps its body for a client of the same protocol."""
    try:
        body = await reply.read(_LARGEST_ERROR)
    except TransportError:
        body = b""
    finally:
        reply.close()
    if (
        300 <= reply.status < 400
    ):  # a redirect is not followed: it would carry the prompt and the key elsewhere
        where = reply.headers.get("location", "")
        return AttemptFailed(Failure("server", f"the upstream redirects to {where!r}; set its base_url", 502))
    failure = read_failure(codec, http_status(reply.status), body, reply.headers)
    readable = client is codec and _is_error(body, codec, failure)
    return AttemptFailed(failure, retry=failure.kind in RETRYABLE, body=body if readable else b"")


def http_status(status: int) -> int:
    """The status of an upstream as a client may get it: 600 to 999 parse as a status, but are none."""
    return status if 200 <= status < 600 else 502


def _is_error(body: bytes, codec: Codec, failure: Failure) -> bool:
    """Whether the client can be given `body` as it is: an error of its protocol, and one at whose words it
    compacts where that is needed."""
    value = jsontext.decode_object(body.decode("utf-8", "replace"))
    if value is None or "error" not in value or codec.decode_error(value, 0) is None:
        return False
    if failure.kind != "context_too_long":
        return True
    given, own = value["error"], codec.encode_error(failure)[1]["error"]
    return jsontext.is_object(given) and all(
        given.get(key) == own[key] for key in own if own[key] is not None
    )
