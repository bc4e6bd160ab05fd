"""Reads a client's request and finds where it goes; serves every handler that sends requests to upstreams.

body -> admission -> what the path wraps, and sealed ids that the client cut -> glance or parse
     -> targets -> stored turns that it continues -> RoutedRequest
"""

from __future__ import annotations

import zlib
from functools import lru_cache, partial
from typing import Any

from dragoman.core import jsontext, seal
from dragoman.core.errors import DragomanError
from dragoman.core.fields import Body
from dragoman.core.jsontext import Glance
from dragoman.core.model import Failure, Wire
from dragoman.gateway import large_bodies
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.cut_ids import CutIds
from dragoman.gateway.conversations.request_files import RequestFiles
from dragoman.gateway.conversations.stored_turns import StoredTurns
from dragoman.gateway.large_bodies import LARGE
from dragoman.gateway.observability.wire_log import WireLog
from dragoman.gateway.request import AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.routing import Target, UnknownModel
from dragoman.gateway.upstreams.routing import route as find_targets
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.http.server import MemoryFull, ServerRequest, TooLarge
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.memory.forwarded_bodies import SMALLEST, KnownBodies
from dragoman.serving import named_files

_EXPANSION = 20  # a guess; at most deflate makes 1,032 bytes of one


class UnreadableBody(DragomanError):
    """A body whose content encoding cannot be decoded."""


class RequestReader:
    def __init__(
        self,
        config: Config,
        stored_turns: StoredTurns,
        wire_log: WireLog | None,
        cut_ids: CutIds | None = None,
        files: RequestFiles | None = None,
    ) -> None:
        self._cut_ids, self._files = cut_ids, files
        bodies = config.history // 4  # of those that are forwarded; all together take what is configured
        self._memory = ConversationMemory(config.history - bodies) if config.history else None
        self._bodies = KnownBodies(bodies) if config.history else None
        self._max_body, self._stored_turns, self._wire_log = config.max_body, stored_turns, wire_log
        self._targets = lru_cache(maxsize=1024)(partial(find_targets, config))
        self._forwards = lru_cache(maxsize=256)(self._may_forward)

    async def read(self, request: GatewayRequest) -> RoutedRequest:
        """Read the body, wait for the turn of this request, and find its targets.

        It waits after the body was read, because only then can a client's disconnect be noticed.
        """
        incoming, limit = request.incoming, self._max_body
        if check := request.protocol_server.check_headers:
            check(incoming.headers)
        # mostly it has arrived, and a coroutine costs more than to take it
        data = incoming.take() if incoming.complete and incoming.size <= limit else await incoming.read(limit)
        if encoding := incoming.headers.get("content-encoding"):
            data = await decode_body(incoming, data, encoding.lower(), limit)
        if request.admission and not request.admission.enter():
            await request.admission.acquire()
        if request.recording or self._wire_log:
            if request.recording:
                request.recording.body = data
            if self._wire_log:
                head = f"{request.client.name} {request.route.action} {request.route.model}"
                self._wire_log.client_request(request.record.id, request.key, head, request.headers, data)
        routed = await self._route(request, await self._read_body(request, data))
        codec, seen = request.protocol_server.turn_codec, routed.body.glance
        if codec is None or (codec.storage_field and codec.storage_field not in seen):
            return routed
        if storage := codec.decode_storage(seen):
            return await self._stored_turns.prepare(routed, codec, storage)
        return routed

    async def _read_body(self, request: GatewayRequest, data: bytes) -> Body:
        """What `data` says, with the rest of what the client sent only in part."""
        if request.route.variant and request.protocol_server.unwrap:
            wire = await large_bodies.read_wire(request.incoming, data, request.client.name)
            data = await large_bodies.run_for(len(data), _unwrap, request, wire)
        sealed = seal.HINT in data and seal.is_in(data)
        if sealed and self._cut_ids:
            data = await self._cut_ids.restore(request.caller.id if request.caller else "", data)
        # A glance is enough for a body that passes unchanged. A wrong guess of its model costs only time
        model = request.route.model or jsontext.guess_model(data)
        forwards = self._forwards(request.client.name, model)
        glance = request.protocol_server.accounting.request if forwards else None
        if len(data) <= LARGE:
            body = self._parse(request, data, glance)
        else:
            body = await self._parse_large(request, data, glance)
        body.sealed = sealed
        named = request.protocol_server.named_files
        if self._files and named and body.holds(named_files.HINT):
            body = await self._files.fill(body, named, request)
        return body

    def _parse(self, request: GatewayRequest, data: bytes, glance: Glance[Any] | None) -> Body:
        client = request.client
        if glance:
            return self._look(request, glance, data) or Body(data, client.name)
        outline = self._memory.read(request.scope, client, data) if self._memory else None
        return Body(data, client.name, outline=outline)

    async def _parse_large(self, request: GatewayRequest, data: bytes, glance: Glance[Any] | None) -> Body:
        client = request.client
        if glance:
            look = partial(self._look, request, glance)
            return await large_bodies.read(data, client, look, None, request.incoming)
        recall = partial(self._memory.read, request.scope) if self._memory else None
        return await large_bodies.read(data, client, None, recall, request.incoming)

    def _look(self, request: GatewayRequest, glance: Glance[Any], data: bytes) -> Body | None:
        """None: it has to be read as a whole."""
        client, accounting = request.client, request.protocol_server.accounting
        if self._bodies is None or len(data) < SMALLEST:
            seen = glance.read(data)
            return None if seen is None else Body(data, client.name, seen)
        caller = request.scope, client.name
        glanced = self._bodies.read(caller, glance, client.turns, data, accounting.may_hold_key)
        return Body(data, client.name, outline=glanced) if glanced else None

    async def _route(self, request: GatewayRequest, body: Body) -> RoutedRequest:
        """What the body asks for, and who may answer it. Raises AttemptFailed where the key may not use the
        model."""
        seen, route, server, record = body.glance, request.route, request.protocol_server, request.record
        model = route.model or str(seen.get("model") or "")
        stream = bool(seen.get("stream")) if route.stream is None else route.stream
        if request.caller and request.caller.models:
            check_model(request, model)
        record.model, record.stream, record.tools = model, stream, server.accounting.tools(seen)
        budget = request.admission if request.admission and request.admission.is_budgeted else None
        if budget:
            await budget.check_model(model)
        try:
            targets = self._targets(model, request.client.name)
        except UnknownModel as error:
            raise unknown_model(error, model) from None
        if budget and budget.counts_dollars:
            targets = _keep_priced(targets, model)
        codec = server.compaction
        compaction = codec.decode(seen) if codec and not codec.fields.isdisjoint(seen) else None
        return RoutedRequest(request, body, model, stream, compaction, targets)

    def _may_forward(self, protocol: str, model: str) -> bool:
        try:
            targets = self._targets(model, protocol)
        except UnknownModel:
            return False
        return any(target.provider.forwards(protocol) for target in targets)


def _unwrap(request: GatewayRequest, given: Wire) -> bytes:
    """The body as the protocol has it, where the path belongs to a cloud that wraps it."""
    unwrap = request.protocol_server.unwrap
    assert unwrap, "only protocols with such paths come here"
    wire, headers = unwrap(given, request.route)
    request.incoming.headers.update(headers)
    return jsontext.encode(wire)


def check_model(request: GatewayRequest, model: str) -> None:
    """Raises AttemptFailed where the key may not use the model."""
    caller = request.caller
    if caller and not caller.may_use(model):
        problem = f"The key {caller.name!r} may not use the model {model!r}."
        raise AttemptFailed(Failure("forbidden", problem, 403))


def _keep_priced(targets: tuple[Target, ...], model: str) -> tuple[Target, ...]:
    """For a key with a budget in dollars: what a target costs that has no price, nobody could count. Raises
    AttemptFailed where none has one."""
    priced = tuple([target for target in targets if target.price])
    if not priced:
        problem = (
            f"The price of {model!r} is not known, and this key has a budget in dollars. "
            "Set price = { input = …, output = … } for the model, in dollars for a million tokens. "
            "0 says that it is free."
        )
        raise AttemptFailed(Failure("forbidden", problem, 403))
    return priced


def unknown_model(error: UnknownModel, model: str) -> Exception:
    """A request that names no model is wrong itself."""
    return (
        error
        if model
        else AttemptFailed(Failure("bad_request", f"model: The request names none. {error}", 400))
    )


async def receive(request: GatewayRequest, limit: int) -> bytes:
    """The body, unpacked, once it is the turn of the request."""
    incoming = request.incoming
    data = await incoming.read(limit)
    if encoding := incoming.headers.get("content-encoding"):
        data = await decode_body(incoming, data, encoding.lower(), limit)
    if request.admission:
        await request.admission.acquire()
    return data


async def decode_body(incoming: ServerRequest, body: bytes, encoding: str, limit: int) -> bytes:
    """The unpacked body counts in the memory as one that came so."""
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadableBody(f"the body is encoded as {encoding!r}; send it as it is, or as gzip")
    data = await large_bodies.run_for(len(body) * _EXPANSION, _inflate, body, encoding, limit)
    incoming.hold(BODY_WEIGHT * max(len(data) - len(body), 0))
    if incoming.memory.used >= incoming.memory.limit:
        raise MemoryFull
    return data


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
