"""The providers' own lists of models, all fetched at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.core.codec import OutgoingRequest
from dragoman.core.errors import DragomanError
from dragoman.http.client import Client, Transport, TransportError
from dragoman.model_lists import fetch_model_names
from dragoman.profiles import ProviderSettings
from dragoman.protocols import upstream

Listed = dict[str, "tuple[str, ...] | str"]


def live(providers: Iterable[ProviderSettings]) -> Listed:
    """For each provider the names of its models, or a text that says why there are none."""

    async def ask_all() -> Listed:
        client = Client()
        try:
            listed = list(providers)
            answers = await asyncio.gather(*(_answer(client, provider) for provider in listed))
            return {provider.name: answer for provider, answer in zip(listed, answers, strict=True)}
        finally:
            await client.close()

    return asyncio.run(ask_all())


async def models_of(transport: Transport, provider: ProviderSettings) -> tuple[str, ...]:
    """The names in the provider's own list."""

    async def authenticate(request: OutgoingRequest) -> dict[str, str]:
        credential = provider.credentials.current() or await provider.credentials.wait()
        http = upstream(provider.protocol).http
        return (http.authenticate(credential, request) if credential else {}) | provider.headers

    return await fetch_model_names(transport, provider.protocol, provider.base_url, authenticate)


async def _answer(transport: Transport, provider: ProviderSettings) -> tuple[str, ...] | str:
    if provider.base_url == "demo:":
        from dragoman.demo import DemoTransport  # for those who use it: it takes 40 ms to import

        transport = DemoTransport()
    try:
        return await models_of(transport, provider)
    except (DragomanError, TransportError, ValueError) as error:
        return " ".join(str(error).split())
