"""A transport for httpx: an SDK that speaks one protocol, on any provider.

httpx2, which newer SDKs use, and httpx have the same interface but not the same classes, and a client accepts
only responses of its own. So each response is made with the classes of the request that it answers.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.client.background import wait_for
from dragoman.core.errors import ConfigError
from dragoman.core.losses import Strictness
from dragoman.integrations.translator import OnLosses, Routing, SyncBody, TranslatedReply, Translator


class _Closeable:
    """What httpx calls of a transport beside the two methods below."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def aclose(self) -> None: ...


if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, BaseTransport
else:  # neither httpx need be installed
    AsyncBaseTransport, BaseTransport = object, _Closeable


class HttpxTransport(BaseTransport, AsyncBaseTransport):
    """`httpx.Client(transport=HttpxTransport("groq:openai/gpt-oss-120b"))`, and for `AsyncClient` likewise.

    The SDK's address and key are not used: the path tells the protocol, `model` the provider. Without
    `model`, requests name it themselves as `provider:model`.
    """

    def __init__(
        self, model: Routing | None = None, *, strict: Strictness = False, on_losses: OnLosses | None = None
    ) -> None:
        self._translator = Translator(model, strict=strict, on_losses=on_losses)

    def handle_request(self, request: Any) -> Any:
        reply = wait_for(self._answer(request, request.read()))
        return _response(request, reply, "SyncByteStream")

    async def handle_async_request(self, request: Any) -> Any:
        reply = await self._answer(request, await request.aread())
        return _response(request, reply, "AsyncByteStream")

    async def _answer(self, request: Any, body: bytes) -> TranslatedReply:
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = dict(request.url.params)
        return await self._translator.answer(request.method, request.url.path, query, headers, body)


def http_client(model: Routing | None = None, **options: Any) -> Any:
    """An `httpx2.Client` (or `httpx.Client`) for an SDK: `openai.OpenAI(http_client=http_client("…"))`."""
    return _library().Client(transport=HttpxTransport(model, **options))


def async_http_client(model: Routing | None = None, **options: Any) -> Any:
    """The same for the SDK's async client."""
    return _library().AsyncClient(transport=HttpxTransport(model, **options))


def _library() -> Any:
    for name in ("httpx2", "httpx"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            pass
    raise ConfigError("Neither httpx2 nor httpx is installed. The SDK that is to use this client brings one.")


def _response(request: Any, reply: TranslatedReply, base: str) -> Any:
    library = type(request).__module__.partition(".")[0]
    stream = _stream_class(library, base)(reply.body)
    return sys.modules[library].Response(reply.status, headers=reply.headers, stream=stream)


@lru_cache(maxsize=8)
def _stream_class(library: str, base: str) -> Any:
    """A body that is a stream in the eyes of that library."""
    pieces = SyncBody if base == "SyncByteStream" else _AsyncBody
    return type(pieces.__name__, (pieces, getattr(sys.modules[library], base)), {})


class _AsyncBody:
    def __init__(self, body: AsyncGenerator[bytes]) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body

    async def aclose(self) -> None:
        await self._body.aclose()
