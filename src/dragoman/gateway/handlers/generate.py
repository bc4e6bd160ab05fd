"""Generate: read the client's request, find its targets, and relay the first usable answer.

`RequestReader` serves every handler that sends a request to an upstream.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache, partial
from hashlib import blake2s
from typing import TYPE_CHECKING, Any

from dragoman.core import jsontext, seal
from dragoman.core.conversation_memory import ConversationMemory
from dragoman.core.errors import DragomanError
from dragoman.core.fields import Body, read_body
from dragoman.core.jsontext import Glance
from dragoman.core.known_bodies import SMALLEST, KnownBodies
from dragoman.core.model import Failure, Wire
from dragoman.gateway import large_bodies
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.cut_ids import CutIds
from dragoman.gateway.conversations.stored_turns import StoredTurns
from dragoman.gateway.handlers.relay import (
    KeepAliveStream,
    KeepAliveTicker,
    failed_stream,
    loss_header,
    opened_stream,
    overdue,
    relay,
)
from dragoman.gateway.large_bodies import LARGE
from dragoman.gateway.observability.wire_log import WireLog
from dragoman.gateway.request import AttemptFailed, GatewayRequest
from dragoman.gateway.upstreams.attempts import Attempts
from dragoman.gateway.upstreams.routing import Target, UnknownModel
from dragoman.gateway.upstreams.routing import route as find_targets
from dragoman.http.server import TooLarge

if TYPE_CHECKING:
    from dragoman.gateway.handlers.compact import Compactor

_EXPANSION = 20  # a guess; at most deflate makes 1,032 bytes of one
Accept = Callable[[GatewayRequest, tuple[Target, ...]], Awaitable[None]]


class GenerateHandler:
    """`timeout`: seconds that one request may take in all; 0: any time. `accept` answers requests that are
    run in the background."""

    def __init__(
        self,
        reader: RequestReader,
        attempts: Attempts,
        keep_alives: KeepAliveTicker,
        compactor: Compactor,
        accept: Accept,
        timeout: float = 0,
    ) -> None:
        self._reader, self._attempts, self._keep_alives = reader, attempts, keep_alives
        self._compactor, self._accept, self._timeout = compactor, accept, timeout

    async def answer(self, request: GatewayRequest) -> None:
        """Raises AttemptFailed where no target answers and nothing went out yet."""
        targets = await self._reader.read(request)
        if request.deferred:
            await self._accept(request, targets)
            return
        if not request.stream:
            if self._timeout or request.compaction:
                await self._run(request, targets)
            else:
                await self._attempts.run(request, targets, relay)
            return
        writer = request.writer
        request.keep_alive = keep_alive = KeepAliveStream(
            writer,
            framing.keep_alive if (framing := request.framing) else request.client.keep_alive,
            lambda: writer.begin(request.content_type, loss_header(request.losses)),
            request.client.keep_alive_events,
            partial(opened_stream, request) if request.client.keep_alive_events else None,
        )
        self._keep_alives.add(keep_alive)
        try:
            await self._run(request, targets)
        except AttemptFailed as error:
            await keep_alive.settle()
            if not writer.begun:
                raise
            request.record.failure = error.failure
            await writer.end(failed_stream(request, error.failure))
        finally:
            self._keep_alives.remove(keep_alive)

    def _run(self, request: GatewayRequest, targets: tuple[Target, ...]) -> Coroutine[Any, Any, None]:
        timeout = 0 if request.background_run else self._timeout
        if timeout:
            return self._run_until(request, targets, timeout)
        if request.compaction:
            return self._attempt(request, targets)
        return self._attempts.run(request, targets, relay)

    async def _run_until(self, request: GatewayRequest, targets: tuple[Target, ...], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout) as request.timeout:
                await self._attempt(request, targets)
        except TimeoutError:
            raise AttemptFailed(overdue(timeout)) from None

    async def _attempt(self, request: GatewayRequest, targets: tuple[Target, ...]) -> None:
        if request.compaction and request.compaction.threshold:
            await self._compactor.compact_history(request, targets)
        await self._attempts.run(request, targets, relay)


class UnreadableBody(DragomanError):
    """A body whose content encoding cannot be decoded."""


class RequestReader:
    def __init__(
        self,
        config: Config,
        stored_turns: StoredTurns,
        wire_log: WireLog | None,
        cut_ids: CutIds | None = None,
    ) -> None:
        self._cut_ids = cut_ids
        bodies = config.history // 4  # of those that are forwarded; all together take what is configured
        self._memory = ConversationMemory(config.history - bodies) if config.history else None
        self._bodies = KnownBodies(bodies) if config.history else None
        self._max_body, self._stored_turns, self._wire_log = config.max_body, stored_turns, wire_log
        self._targets = lru_cache(maxsize=1024)(partial(find_targets, config))
        self._forwards = lru_cache(maxsize=256)(self._may_forward)

    async def read(self, request: GatewayRequest) -> tuple[Target, ...]:
        """Read the body, wait for the turn of this request, and return its targets in order.

        It waits after the body was read, because only then can a client's disconnect be noticed.
        """
        client, server, record, route = request.client, request.protocol_server, request.record, request.route
        incoming, limit = request.incoming, self._max_body
        # mostly it has arrived, and a coroutine costs more than to take it
        data = incoming.take() if incoming.complete and incoming.size <= limit else await incoming.read(limit)
        if encoding := request.incoming.headers.get("content-encoding"):
            data = await decoded(data, encoding.lower(), self._max_body)
        if request.admission and not request.admission.enter():
            await request.admission.turn()
        if request.recording:
            request.recording.body = data
        if self._wire_log:
            head = f"{client.name} {route.action} {route.model}"
            self._wire_log.client_request(record.id, request.key, head, request.headers, data)
        if route.variant and server.unwrap:
            wire, headers = server.unwrap(read_body(data, client.name), route)
            data = jsontext.encode(wire)
            request.incoming.headers.update(headers)
        sealed = seal.HINT in data and seal.is_in(data)
        if sealed and self._cut_ids:
            data = await self._cut_ids.restored(request.caller.id if request.caller else "", data)
        # A glance is enough for a body that passes unchanged. A wrong guess of its model costs only time
        model = route.model or jsontext.guess_model(data)
        glance = server.accounting.request if self._forwards(client.name, model) else None
        memory = None if glance else self._memory
        if len(data) > LARGE:
            look = partial(self._look, request, glance) if glance else None
            recall = partial(memory.outline, _scope(request)) if memory else None
            request.body = body = await large_bodies.read(data, client, look, recall)
        else:
            seen = self._look(request, glance, data) if glance else None
            outline = memory.outline(_scope(request), client, data) if memory else None
            request.body = body = Body(data, client.name, seen, outline=outline)
        body.sealed = sealed
        seen = body.glance
        request.model = route.model or str(seen.get("model") or "")
        request.stream = bool(seen.get("stream")) if route.stream is None else route.stream
        if request.caller and request.caller.models:
            check_model(request)
        record.model, record.stream = request.model, request.stream
        record.tools = server.accounting.tools(seen)
        if server.compaction and not server.compaction.fields.isdisjoint(seen):
            request.compaction = server.compaction.decode(seen)
        try:
            targets = self._targets(request.model)
        except UnknownModel as error:
            raise unknown_model(error, request.model) from None
        if (codec := server.turn_codec) and (storage := codec.decode_storage(seen)):
            return await self._stored_turns.prepare(request, targets, codec, storage)
        return targets

    def _look(self, request: GatewayRequest, glance: Glance[Any], data: bytes) -> Wire | None:
        if self._bodies is None or len(data) < SMALLEST:
            return glance.read(data)
        client, accounting = request.client, request.protocol_server.accounting
        caller = _scope(request), client.name
        return self._bodies.glance(caller, glance, client.turns, data, accounting.may_hold_key)

    def _may_forward(self, protocol: str, model: str) -> bool:
        try:
            targets = self._targets(model)
        except UnknownModel:
            return False
        return any(target.provider.forwards(protocol) for target in targets)


def _scope(request: GatewayRequest) -> str:
    """Callers share no conversation: how fast an answer comes would tell one what another sent."""
    return request.caller.id if request.caller else _digest(request.key) if request.key else ""


@lru_cache(256)
def _digest(key: str) -> str:
    return blake2s(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_model(request: GatewayRequest) -> None:
    """Raises AttemptFailed where the key may not use the model."""
    caller = request.caller
    if caller and not caller.may_use(request.model):
        problem = f"the key {caller.name!r} may not use the model {request.model!r}"
        raise AttemptFailed(Failure("forbidden", problem, 403))


def unknown_model(error: UnknownModel, model: str) -> Exception:
    """A request that names no model is wrong itself."""
    return error if model else AttemptFailed(Failure("bad_request", f"model: expected a name; {error}", 400))


async def decoded(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadableBody(f"the body is encoded as {encoding!r}; send it as it is, or as gzip")
    return await large_bodies.run_for(len(body) * _EXPANSION, _inflate, body, encoding, limit)


def _inflate(body: bytes, encoding: str, limit: int) -> bytes:
    inflate = zlib.decompressobj(47)
    try:
        decoded = inflate.decompress(body, limit + 1)
    except zlib.error as error:
        raise UnreadableBody(f"the body is not {encoding}: {error}") from None
    if len(decoded) > limit:
        raise TooLarge(limit)
    if not inflate.eof:
        raise UnreadableBody(f"the body ends inside its {encoding}")
    return decoded
