"""httpx connections to checked addresses: each request resolves its host through an AddressGuard."""

from __future__ import annotations

import asyncio

import httpx2

from dragoman.fetch.guard import AddressGuard, FetchError


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """The URL gets the checked address; Host and TLS keep the name, as httpx documents for `sni_hostname`."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await asyncio.to_thread(self._guard.resolve, host, port)
        except FetchError as error:
            raise httpx2.ConnectError(str(error), request=request) from None
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=addresses[0])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def guarded_transport(guard: AddressGuard) -> httpx2.AsyncBaseTransport:
    return _GuardedTransport(guard)
