"""httpx connections to checked addresses, and replies of bounded size: a server may be anybody's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2

from dragoman.fetch.guard import AddressGuard, FetchError


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """The URL gets a checked address, the first that answers. Host and TLS keep the name, as httpx documents
    for `sni_hostname`."""

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
        for address in addresses[:-1]:  # localhost is ::1 first, where few servers listen
            request.url = request.url.copy_with(host=address)
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._inner.handle_async_request(request)
        request.url = request.url.copy_with(host=addresses[-1])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """`most`: bytes. `most_values`: of the JSON in it, for which its commas and brackets stand: each takes a
    hundred times its byte in memory, and its part of the time in which nobody else is served. Of a stream of
    events each may have as many."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int, most_values: int, has_events: bool) -> None:
        self._stream, self._left, self._most_values = stream, most, most_values
        self._has_events, self._values = has_events, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            self._count_values(piece)
            if self._left < 0 or self._values > self._most_values:
                raise httpx2.StreamError("the server sends more than is read of one reply")
            yield piece

    def _count_values(self, piece: bytes) -> None:
        if self._has_events and (end := max(piece.rfind(b"\n\n"), piece.rfind(b"\n\r\n"))) >= 0:
            self._values, piece = 0, piece[end:]
        self._values += sum(piece.count(mark) for mark in (b",", b"[", b"{"))

    async def aclose(self) -> None:
        await self._stream.aclose()


def bound_reply(response: httpx2.Response, most: int, most_values: int) -> None:
    """`response` raises StreamError after so much. It is not unpacked: little would become much."""
    assert isinstance(response.stream, httpx2.AsyncByteStream), "of an async client"
    response.headers.pop("content-encoding", None)
    has_events = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _BoundedStream(response.stream, most, most_values, has_events)


def guard_transport(guard: AddressGuard) -> httpx2.AsyncBaseTransport:
    return _GuardedTransport(guard)
