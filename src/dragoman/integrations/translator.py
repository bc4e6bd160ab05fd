"""One HTTP request of a client in any protocol, answered in that protocol by a model of any provider.

It knows no server and no HTTP library: the transport and the middleware beside it bring requests here.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.providers import Model, Provider, model_of
from dragoman.core import jsontext
from dragoman.core.codec import Framing, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.errors import (
    ConfigError,
    DragomanError,
    LossError,
    UpstreamError,
    WireError,
    describe_unknown,
)
from dragoman.core.losses import Loss, Losses, Strictness
from dragoman.core.model import Failure, Wire
from dragoman.core.token_estimate import estimate_tokens
from dragoman.exchange import Exchange
from dragoman.http.client import Reply, TimedOut, Transport, TransportError
from dragoman.http.client.retries import send_with_retries
from dragoman.profiles import split_model
from dragoman.protocols import codec as find_codec
from dragoman.protocols import routes, server
from dragoman.serving.routes import RouteMatch, RouteTable
from dragoman.serving.server import ListedModel

_LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_BODY = 64 * 1024 * 1024  # as of the gateway
_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream"}

# A model for all requests, one for each requested name (`*`: any other), or a function of that name
Routing = str | Model | Mapping[str, str | Model] | Callable[[str], str | Model]
OnLosses = Callable[[list[Loss]], object]
HttpRequest = tuple[str, str, dict[str, str], dict[str, str]]  # method, path, query, headers
AppT = TypeVar("AppT")  # the type of the app behind a middleware


class TranslatedReply(Struct, frozen=True):
    """An answer in the client's protocol; `body` yields it in pieces and must be closed."""

    status: int
    headers: dict[str, str]
    body: AsyncGenerator[bytes]


class SyncBody:
    """The pieces of a body for code that is not async; its reader closes it."""

    def __init__(self, body: AsyncGenerator[bytes]) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        while (piece := wait_for(anext(self._body, None))) is not None:
            yield piece

    def close(self) -> None:
        wait_for(self._body.aclose())


class Translator:
    """`model` says which model answers; by default the one that the request names as `provider:model`.

    `strict` refuses what would be lost; `on_losses` is called with the losses of an exchange at its end.
    """

    def __init__(
        self,
        model: Routing | None = None,
        *,
        strict: Strictness = False,
        on_losses: OnLosses | None = None,
        max_body: int = _LARGEST_BODY,
    ) -> None:
        self.max_body = max_body
        self._route = _router(model)
        self._models = _names(model)
        self._strict: Strictness = strict
        self._on_losses = on_losses

    def protocol_of(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> str | None:
        """The protocol in which a request is written, by its URL and headers; None: it is none of ours."""
        found = _routes().find(method, path, query, headers)
        return found[1] if found else None

    async def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> TranslatedReply:
        """The reply, once its first bytes are there. Names of headers are lower case. It does not raise.
        A body of more than `max_body` bytes is refused; None is one that was not read because it has more."""
        found = _routes().find(method, path, query, headers)
        if found is None:
            _, name = _routes().nearest(method, path, headers)
            return self._fail(name, Failure("not_found", f"there is no route {method} {path}", 404))
        match, name = found
        try:
            whole = _decompress(body, headers, self.max_body) if body is not None else None
            if whole is None or len(whole) > self.max_body:
                problem = f"the body has more than {self.max_body} bytes"
                return self._fail(name, Failure("too_large", problem, 413))
            return await self._dispatch(match, name, headers, whole)
        except UpstreamError as error:
            return self._fail(name, error.failure)
        except ConfigError as error:
            return self._fail(name, Failure("not_found", str(error), 404))
        except (WireError, LossError) as error:
            return self._fail(name, Failure("bad_request", str(error), 400))
        except DragomanError as error:
            return self._fail(name, Failure("server", str(error), 500))

    async def _dispatch(
        self, match: RouteMatch, name: str, headers: Mapping[str, str], body: bytes
    ) -> TranslatedReply:
        match match.action:
            case "generate":
                return await self._generate(match, name, headers, body)
            case "count":
                request = find_codec(name).decode_request(_fill_count(name, body), Losses())
                return _json(200, server(name).encode_count(estimate_tokens(request)))
            case "models":
                listed = tuple([self._list_model(model) for model in self._models])
                return _json(200, server(name).encode_models(listed))
            case "model":
                return _json(200, server(name).encode_model(self._list_model(match.model)))
            case action:
                raise UpstreamError(Failure("not_found", f"{action} needs the gateway: dragoman serve", 404))

    async def _generate(
        self, match: RouteMatch, name: str, headers: Mapping[str, str], body: bytes
    ) -> TranslatedReply:
        wire = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
        requested = match.model or str(wire.get("model") or "")
        target = model_of(self._route(requested))
        provider = target.provider
        exchange = Exchange(
            name,
            provider.protocol,
            provider.dialect.name if provider.dialect else None,
            self._strict,
            recover=provider.recover,
            images="summary" if provider.summarise else "native",
            origin=provider.name,
            profile=provider.profile(target.name),
            reply_model=requested,
        )
        sent = exchange.request_bytes(body, model=target.name, stream=match.stream)
        forwarded = server(name).forwards if name == provider.protocol else ()  # such as anthropic-beta
        given = {field: headers[field] for field in forwarded if field in headers}
        exchange.headers = {**exchange.headers, **given}
        reply = await _send(provider, exchange, sent)
        if exchange.streaming:
            return await self._stream(exchange, reply, match.framing)
        return await self._whole(exchange, reply)

    async def _whole(self, exchange: Exchange, reply: Reply) -> TranslatedReply:
        try:
            body = exchange.response_bytes(await reply.read(_LARGEST_REPLY))
        except TransportError as error:
            raise UpstreamError(_failure_of(error)) from error
        except WireError as error:
            raise UpstreamError(Failure("server", f"malformed upstream answer: {error}", 502)) from error
        finally:
            reply.close()
            self._report(exchange)
        return TranslatedReply(exchange.status, _JSON, _pieces(body))

    async def _stream(self, exchange: Exchange, reply: Reply, framing: Framing | None) -> TranslatedReply:
        """A stream that fails before its first piece becomes an error with a status."""
        pieces = self._translate(exchange, reply, framing)
        first = await anext(pieces, b"")
        if not first and exchange.failure:
            await pieces.aclose()
            raise UpstreamError(exchange.failure)
        headers = {"content-type": framing.content_type} if framing else _EVENTS
        return TranslatedReply(200, headers, _chain(first, pieces))

    async def _translate(
        self, exchange: Exchange, reply: Reply, framing: Framing | None
    ) -> AsyncGenerator[bytes]:
        stream, begun = exchange.stream(framing=framing), False
        try:
            try:
                async for chunk in reply:
                    out = stream.feed(chunk)
                    if stream.failure and not begun:
                        exchange.failure = stream.failure
                        return
                    if out:
                        begun = True
                        yield out
                last = stream.close()
            except TransportError as error:
                last = stream.close() if stream.ended else stream.fail(_failure_of(error))
            if stream.failure and not begun:
                exchange.failure = stream.failure
            elif last:
                yield last
        finally:
            reply.close()
            self._report(exchange)

    def _report(self, exchange: Exchange) -> None:
        if self._on_losses and (losses := exchange.losses):
            self._on_losses(losses)

    def _list_model(self, name: str) -> ListedModel:
        target = model_of(self._route(name))
        return ListedModel(name, target.provider.profile(target.name), target.provider.protocol)

    def _fail(self, name: str, failure: Failure) -> TranslatedReply:
        status, body = find_codec(name).encode_error(failure)
        wait = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return TranslatedReply(status, {**_JSON, **wait}, _pieces(jsontext.encode(body)))


class Middleware(Generic[AppT]):
    """One of two ways to answer the routes of all protocols (`/v1/messages`, `/v1/chat/completions`, …).

    `Middleware(app, protocol="openai-chat")`: the app serves that protocol, and now the others too; what
    is in its own protocol passes unchanged. `base`: the path before its routes, where that is not the usual.
    `Middleware(app, model="groq:…")`: a model answers; see `Translator` for what `model` may be.
    Every other request goes to the app. `max_body`: the bytes of a request, also after it is unpacked.
    """

    def __init__(
        self,
        app: AppT | None = None,
        model: Routing | None = None,
        *,
        protocol: str = "",
        base: str | None = None,
        strict: Strictness = False,
        on_losses: OnLosses | None = None,
        max_body: int = _LARGEST_BODY,
    ) -> None:
        self._app, self._protocol, self.max_body = app, protocol, max_body
        if protocol:
            if app is None or model is not None:
                raise ConfigError("protocol is that of the app behind, so it needs an app and no model")
            url = f"http://app{(_usual_base(protocol) if base is None else base).rstrip('/')}"
            transport = self.transport(app)
            model = Provider("app", protocol=protocol, base_url=url, transport=transport, tries=1).model
        self._translator = Translator(model, strict=strict, on_losses=on_losses, max_body=max_body)

    def transport(self, app: AppT) -> Transport:
        """Requests to the app in this process."""
        raise NotImplementedError

    def pass_on(self, query: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
        """What the app behind gets of a translated request's headers: the client's key where its protocol
        has it, and all that says nothing of the body or of another protocol."""
        if not self._protocol:
            return {}
        kept = {
            name: value
            for name, value in headers.items()
            if name not in _OF_THE_BODY and not name.startswith(_OF_A_VENDOR)
        }
        credential = Credential(key=_key_of(query, headers))
        request = OutgoingRequest("POST", "", {}, b"")
        authenticate = find_codec(self._protocol).http.authenticate
        return {**kept, **(authenticate(credential, request) if credential else {})}

    def is_for_app(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> bool:
        """Whether a request is in no protocol, or in that of the app."""
        return self._translator.protocol_of(method, path, query, headers) in (None, self._protocol)


_OF_THE_BODY = {
    *("content-length", "content-type", "content-encoding", "transfer-encoding", "accept", "accept-encoding"),
    *("connection", "expect", "te", "trailer", "upgrade", "host", "authorization", "x-api-key"),
}
_OF_A_VENDOR = ("anthropic-", "openai-", "x-goog-", "x-stainless-")


def _key_of(query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """The client's key, wherever its protocol puts it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or query.get("key", "")


def _usual_base(protocol: str) -> str:
    """The path before the routes of an app, where they are those of the vendor."""
    route = next(route.path for route in server(protocol).routes if route.action == "generate")
    path = find_codec(protocol).http.path("", False)
    return route.removesuffix(path) if route.endswith(path) else ""


async def _send(provider: Provider, exchange: Exchange, body: bytes) -> Reply:
    """The answer of the upstream, requested again where that may help; raises UpstreamError."""
    url = provider.base_url + exchange.path
    request = OutgoingRequest("POST", url, exchange.headers, body)

    def attempt() -> Awaitable[Reply | Failure]:
        return provider.send(request, provider.timeouts)

    return await send_with_retries(attempt, max(provider.tries, 1))


@lru_cache(maxsize=1)
def _routes() -> RouteTable[str]:
    return RouteTable(routes())


def _router(model: Routing | None) -> Callable[[str], str | Model]:
    match model:
        case None:
            return lambda requested: requested
        case str() | Model():
            found = model_of(model)
            return lambda _: found
        case Mapping():
            rows = dict(model)

            def look_up(requested: str) -> str | Model:
                if requested not in rows and "*" not in rows:
                    raise ConfigError(describe_unknown("model", requested, rows))
                return rows.get(requested) or rows["*"]

            return look_up
        case _:
            return model


def _names(model: Routing | None) -> tuple[str, ...]:
    """What a list of models shows."""
    match model:
        case Model():
            return (model.name,)
        case str():
            return (split_model(model)[2],)
        case None:
            return ()
        case Mapping():
            return tuple([name for name in model if "*" not in name])
        case _:
            return ()


def _decompress(body: bytes, headers: Mapping[str, str], limit: int) -> bytes:
    """At most a byte more than `limit`: then it is too large."""
    if headers.get("content-encoding", "identity") == "identity":
        return body
    try:
        return zlib.decompressobj(47).decompress(body, limit + 1)
    except zlib.error as error:
        raise WireError("HTTP", "body", f"not gzip or deflate: {error}") from None


def _fill_count(name: str, body: bytes) -> Wire:
    """The body of a count may lack the conversation; Gemini's holds the request inside a field of its own."""
    wire = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
    nested = wire.get("generateContentRequest")
    return {find_codec(name).turns: [], **(nested if jsontext.is_object(nested) else {}), **wire}


def _json(status: int, body: Wire) -> TranslatedReply:
    return TranslatedReply(status, _JSON, _pieces(jsontext.encode(body)))


async def _pieces(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


async def _chain(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


def _failure_of(error: TransportError) -> Failure:
    kind, status = ("timeout", 504) if isinstance(error, TimedOut) else ("truncated", 502)
    return Failure(kind, f"the upstream's answer broke: {error}", status)
