"""One exchange, from the client's request to its answer: targets in order, and tries of each."""

from __future__ import annotations

import asyncio

from dragoman.core import jsontext
from dragoman.core.model import Failure, FailureKind
from dragoman.exchange import Exchange
from dragoman.gateway.admission import ProviderConcurrency
from dragoman.gateway.conversations.upstream_sessions import UpstreamSessions
from dragoman.gateway.handlers.keep_alive import KeepAlive, KeepAliveTicker
from dragoman.gateway.handlers.relay import Asked, Errand, Leg, failed_stream, relay
from dragoman.gateway.handlers.reply_headers import loss_header
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.gateway.observability.traces import trace_headers
from dragoman.gateway.upstreams.circuit_breaker import CircuitBreakers
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.gateway.upstreams.routing import Target
from dragoman.gateway.upstreams.sending import AttemptFailed, headers_for, send
from dragoman.http.client import Transport
from dragoman.http.server import ResponseWriter
from dragoman.profiles import Provider

# Not worth another try there, but another provider may do
_ELSEWHERE: frozenset[FailureKind] = frozenset(
    {"unauthenticated", "billing", "forbidden", "not_found", "context_too_long", "too_large"}
)
# How an upstream says that it does not know a conversation, or a reply in it
_FORGOTTEN: frozenset[FailureKind] = frozenset({"not_found", "bad_request", "conflict"})


class GenerateHandler:
    """Everything exchanges share."""

    def __init__(
        self,
        transport: Transport,
        circuits: CircuitBreakers,
        slots: ProviderConcurrency,
        pings: KeepAliveTicker,
        pace: RetryPolicy,
        sessions: UpstreamSessions,
    ) -> None:
        self._transport, self._circuits, self._slots = transport, circuits, slots
        self._pings, self._pace, self._sessions = pings, pace, sessions

    async def serve(
        self, asked: Asked, targets: tuple[Target, ...], answer: ResponseWriter, seen: ExchangeRecord
    ) -> None:
        """Answer from the first target that can. Raises AttemptFailed where none can."""
        if not asked.stream:
            await self._targets(Errand(asked, answer, seen), targets)
            return
        pulse = KeepAlive(
            answer, _ping(asked), lambda: answer.begin(asked.content_type, loss_header(seen.losses))
        )
        self._pings.watch(pulse)
        try:
            await self._targets(Errand(asked, answer, seen, pulse), targets)
        except AttemptFailed as refused:
            await pulse.settle()
            if not answer.begun:
                raise
            seen.failure = refused.failure
            await answer.end(failed_stream(asked, refused.failure))
        finally:
            self._pings.forget(pulse)

    async def _targets(self, errand: Errand, targets: tuple[Target, ...]) -> None:
        """In order, but where a provider is full, the others go first and its queue is the last resort."""
        refused: AttemptFailed | None = None
        order = list(targets)
        for place, target in enumerate(order):
            left = len(order) - 1 - place
            if place < len(targets) and left and self._slots.full(target.provider):
                order.append(target)
                continue
            if not self._circuits.admits(target.provider.name):
                continue
            try:
                await self._tries(errand, target, left)
                return
            except AttemptFailed as error:
                refused = error
                if not (refused.retry or refused.failure.kind in _ELSEWHERE):
                    break
        raise refused or self._resting(targets)

    async def _tries(self, errand: Errand, target: Target, left: int) -> None:
        """As often as it may help; with other targets `left`, a long wait is not worth it."""
        name, pace, seen = target.provider.name, self._pace, errand.seen
        patience = pace.impatience if left else pace.patience
        attempt = 0
        while True:
            seen.target = target
            slot = await self._slots.enter(target.provider, seen)
            seen.tries += 1
            try:
                await self._try(errand, target)
                return
            except AttemptFailed as refused:
                if refused.reachable:
                    self._circuits.reached(name)
                else:
                    self._circuits.unreachable(name)
                wait = pace.wait(attempt, refused.failure.retry_after)
                attempt += 1
                hopeless = not refused.retry or attempt == pace.tries or wait > patience
                if hopeless or self._circuits.is_open(name):
                    raise
            finally:
                if slot:
                    slot.leave()
            await asyncio.sleep(wait)

    async def _try(self, errand: Errand, target: Target) -> None:
        """A conversation that the upstream has forgotten begins anew, once, with everything."""
        seen = errand.seen
        try:
            await self._ask(errand, target)
        except AttemptFailed as refused:
            resumed = seen.exchange is not None and seen.exchange.resumed
            if not (resumed and refused.failure.kind in _FORGOTTEN):
                raise
            seen.tries += 1
            await self._ask(errand, target, anew=True)

    async def _ask(self, errand: Errand, target: Target, anew: bool = False) -> None:
        asked, seen, provider = errand.asked, errand.seen, target.provider
        keeper = asked.keeper if asked.keeper and asked.keeper.serves(provider) else None
        said = keeper.body if keeper else asked.body
        exchange = seen.exchange = _exchange(asked, provider, seen.id)
        body = exchange.request_bytes(said, target.model, asked.stream)
        talk = self._sessions.talk(exchange, provider, asked.key, seen.id) if exchange.has_session else None
        if talk and not anew and (resumed := await talk.resumed()):
            body = jsontext.encode(resumed)
        headers = headers_for(provider, asked.client.name, asked.key, asked.headers)
        if seen.span is not None:
            headers |= trace_headers(seen.span)
        reply = await send(self._transport, target, exchange, body, headers)
        self._circuits.reached(provider.name)
        try:
            await relay(Leg(errand, exchange, reply, talk, keeper))
        finally:
            reply.close()

    def _resting(self, targets: tuple[Target, ...]) -> AttemptFailed:
        names = dict.fromkeys(target.provider.name for target in targets)
        soonest = min(self._circuits.rests(name) for name in names)
        problem = f"not reachable at the moment: {', '.join(names)}; it is tried again soon"
        return AttemptFailed(Failure("overloaded", problem, 503, retry_after=soonest))


def _exchange(asked: Asked, provider: Provider, id: str) -> Exchange:
    return Exchange(
        asked.client.name,
        provider.protocol,
        provider.dialect,
        recover=provider.recover,
        origin=provider.name,
        reply_id=id.removeprefix("req_"),
    )


def _ping(asked: Asked) -> bytes:
    return b"\n" if asked.served.array else asked.client.keep_alive  # between two entries of an array
