"""Writing to an ASGI client: whole JSON answers, and streams that know whether they have begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.losses import Loss

Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_LISTED = 5  # losses named in the header; the count tells the rest


class Answer:
    """One response to one client. `begun`: its status has gone out and cannot change any more."""

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send, self._headers = send, headers
        self.begun = self.ended = False
        self.status = 0

    async def whole(self, status: int, body: bytes, extra: Headers | None = None) -> None:
        headers = [_JSON, (b"content-length", str(len(body)).encode()), *self._headers, *(extra or ())]
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body})
        self.ended = True

    async def json(self, status: int, value: Any, extra: Headers | None = None) -> None:
        await self.whole(status, jsontext.encode(value), extra)

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        kind = [(b"content-type", content_type.encode()), (b"cache-control", b"no-cache")]
        await self._start(200, [*kind, *self._headers, *(extra or ())])

    async def piece(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": data})

    async def _start(self, status: int, headers: Headers) -> None:
        self.begun, self.status = True, status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


def loss_header(losses: list[Loss]) -> Headers:
    """A count and a short list, for people who wonder."""
    if not losses:
        return []
    named = ", ".join(f"{loss.kind} {loss.where}" for loss in losses[:_LISTED])
    text = f"{len(losses)}; {named}" + ("; …" if len(losses) > _LISTED else "")
    return [(b"x-dragoman-losses", text.encode("ascii", "replace").replace(b"\n", b" ").replace(b"\r", b" "))]


def retry_header(seconds: float | None) -> Headers:
    return [] if seconds is None else [(b"retry-after", str(max(1, round(seconds))).encode())]
