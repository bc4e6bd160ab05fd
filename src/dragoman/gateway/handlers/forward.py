"""Endpoints that are not translated (embeddings, images, audio, …): forwarded to a provider whose protocol
has them, with its key and its name of the model."""

from __future__ import annotations

from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Usage, Wire
from dragoman.framing.multipart import FormError, FormPart, read_form
from dragoman.gateway.config import Config
from dragoman.gateway.handlers.request_reader import check_model, receive, unknown_model
from dragoman.gateway.large_bodies import read_wire, run_for
from dragoman.gateway.request import AttemptFailed, GatewayRequest
from dragoman.gateway.upstreams.attempts import (
    LARGEST_REPLY,
    Upstreams,
    refusal,
    send,
    unreachable_provider,
    url_at,
)
from dragoman.gateway.upstreams.pools import RESTS
from dragoman.gateway.upstreams.routing import Target, UnknownModel, route
from dragoman.http.client import Reply, TransportError
from dragoman.protocols import upstream
from dragoman.serving.server import Forwarding, ProtocolServer

_COUNTED = 16 * 1024 * 1024  # bytes of a JSON reply that is read for its usage


class ForwardHandler:
    """The first target that can answer does: after a failure worth a retry the next one is tried."""

    def __init__(self, config: Config, upstreams: Upstreams) -> None:
        self._config, self._transport, self._slots = config, upstreams.transport, upstreams.slots
        self._pools, self._circuit_breakers = upstreams.pools, upstreams.circuit_breakers

    async def answer(self, request: GatewayRequest) -> None:
        forwarding = request.protocol_server.forwarding
        assert forwarding, "only protocols that forward have these routes"
        data = await receive(request, self._config.max_body)
        if request.recording:
            request.recording.body = data
        body = await _read(request, data)
        request.record.model = body.model
        check_model(request, body.model)
        try:
            targets = _able(route(self._config, body.model), forwarding, request)
        except UnknownModel as error:
            raise unknown_model(error, body.model) from None
        order = await self._pools.order(targets)
        for left, target in zip(range(len(order) - 1, -1, -1), order, strict=True):
            if left and not self._circuit_breakers.admits(target.provider.name):
                continue
            try:
                await self._forward(request, target, forwarding, body)
                return
            except AttemptFailed as error:
                is_worth = error.retry
                if target.shared:
                    self._pools.note_failure(target, error.failure)
                    is_worth = is_worth or error.failure.kind in RESTS
                if not (left and is_worth) or request.writer.begun:
                    raise

    async def _forward(
        self, request: GatewayRequest, target: Target, forwarding: Forwarding, body: _Body
    ) -> None:
        provider, record = target.provider, request.record
        record.target = target
        slot = await self._slots.enter(provider, record)
        record.tries += 1
        if request.recording:
            request.recording.begin_attempt(provider.name, provider.protocol, target.model)
        data = await run_for(len(body.data), body.for_model, target.model)
        path = forwarding.path(target.model, request.route.variant)
        own = {name: request.headers[name] for name in ("content-type", "accept") if name in request.headers}
        try:
            try:
                outgoing = OutgoingRequest("POST", url_at(provider, path), own, data)
                reply = await send(self._transport, request, provider, outgoing)
            except TransportError as error:
                self._circuit_breakers.unreachable(provider.name)
                raise unreachable_provider(provider, error) from error
            self._circuit_breakers.note_success(provider.name)
            if not 200 <= reply.status < 300:
                raise await refusal(reply, upstream(provider.protocol), request.client)
            try:
                await _relay(request, reply)
            finally:
                reply.close()
        finally:
            if slot:
                slot.leave()


async def _relay(request: GatewayRequest, reply: Reply) -> None:
    """JSON whole, so that its usage is counted; anything else piece by piece, as it comes."""
    writer, record = request.writer, request.record
    kind = reply.headers.get("content-type", "application/octet-stream")
    try:
        if kind.startswith("application/json"):
            data = await reply.read(LARGEST_REPLY)
            record.first_byte()
            record.usage = _usage(request.protocol_server, data)
            await writer.whole(reply.status, data)
            return
        async for piece in reply:
            if not writer.begun:
                record.first_byte()
                await writer.begin(kind)
            await writer.piece(piece)
    except TransportError as error:
        # An answer that has begun is cut off, which the client sees
        raise AttemptFailed(Failure("truncated", f"the upstream's answer broke: {error}", 502)) from error
    if not writer.begun:
        await writer.begin(kind)
    await writer.end()


def _usage(server: ProtocolServer, data: bytes) -> Usage | None:
    value = jsontext.decode_object(data.decode("utf-8", "replace")) if len(data) <= _COUNTED else None
    return server.accounting.count_usage(value) if value else None


def _able(targets: tuple[Target, ...], forwarding: Forwarding, request: GatewayRequest) -> tuple[Target, ...]:
    at = [target.speaking(forwarding.protocols) for target in targets]
    if able := tuple([target for target in at if target]):
        return able
    provider = targets[0].provider
    problem = (
        f"{request.incoming.path} is forwarded to providers of {' or '.join(forwarding.protocols)} only; "
        f"{provider.name}, which answers for {request.record.model!r}, has {provider.protocol}"
    )
    raise AttemptFailed(Failure("not_found", problem, 404))


class _Body:
    """A JSON object, or a form; the model may stand in the URL instead."""

    def __init__(self, data: bytes, form: FormPart | None, wire: Wire, model: str) -> None:
        self.data, self._form, self._wire, self.model = data, form, wire, model

    def for_model(self, model: str) -> bytes:
        """With the provider's name of the model, wherever the body repeats it."""
        if self._form:
            return self.data[: self._form.start] + model.encode() + self.data[self._form.end :]
        wire = self._wire
        named = wire.get("model")
        requests = wire.get("requests")  # Gemini repeats the model in each one
        if is_array(requests):
            renamed = [
                {**each, "model": f"models/{model}"} if is_object(each) and "model" in each else each
                for each in requests
            ]
            return jsontext.encode({**wire, "requests": renamed})
        if named is None or named == model:
            return self.data
        model = f"models/{model}" if isinstance(named, str) and named.startswith("models/") else model
        renamed = jsontext.replaced(self.data, "model", named, model)
        return renamed or jsontext.encode({**wire, "model": model})


async def _read(request: GatewayRequest, data: bytes) -> _Body:
    kind, name = request.headers.get("content-type", ""), request.client.name
    form, wire = None, Wire()
    if kind.lower().startswith("multipart/"):
        form = await run_for(len(data), _model_field, data, kind, name)
        named = data[form.start : form.end].decode("utf-8", "replace") if form else ""
    else:
        wire = await read_wire(request.incoming, data, name)
        named = wire.get("model") or ""
        if not isinstance(named, str):
            raise WireError(name, "model", "expected a string")
    return _Body(data, form, wire, request.route.model or named)


def _model_field(data: bytes, kind: str, protocol: str) -> FormPart | None:
    """The field of a form (audio, images) that names the model."""
    try:
        return next((part for part in read_form(data, kind) if part.name == "model"), None)
    except FormError as error:
        raise WireError(protocol, "body", str(error)) from None
