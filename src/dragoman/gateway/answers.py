"""Writing to an ASGI client: whole JSON answers, and streams that know whether they have begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.losses import Loss

Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_NO_CACHE = (b"cache-control", b"no-cache")
_UNBUFFERED = (b"x-accel-buffering", b"no")  # nginx would collect a stream before it passes it on
_LISTED = 5  # losses named in the header; the count tells the rest
_LONGEST = 1000  # characters of that header


class Answer:
    """One response to one client. `begun`: its status has gone out and cannot change any more."""

    __slots__ = ("_headers", "_send", "begun", "ended", "status")

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send, self._headers = send, headers
        self.begun = self.ended = False
        self.status = 0

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        content = (b"content-type", kind) if kind else _JSON
        headers = [content, (b"content-length", b"%d" % len(body)), *self._headers, *(extra or ())]
        self.begun, self.status = True, status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        self.ended = True
        await self._send({"type": "http.response.body", "body": body})

    async def json(self, status: int, value: Any, extra: Headers | None = None) -> None:
        await self.whole(status, jsontext.encode(value), extra)

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        kind = (b"content-type", content_type.encode())
        headers = [kind, _NO_CACHE, _UNBUFFERED, *self._headers, *(extra or ())]
        self.begun, self.status = True, 200
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def piece(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": data})


def loss_header(losses: list[Loss]) -> Headers:
    """A count and a short list, for people who wonder."""
    if not losses:
        return []
    named = ", ".join(f"{loss.kind} {loss.where}" for loss in losses[:_LISTED])
    text = f"{len(losses)}; {named}" + (", ..." if len(losses) > _LISTED else "")
    text = text[:_LONGEST]
    if not (text.isascii() and text.isprintable()):
        text = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return [(b"x-dragoman-losses", text.encode())]


def retry_header(seconds: float | None) -> Headers:
    """Whole seconds for everyone, and milliseconds for the SDKs that read them."""
    if seconds is None:
        return []
    whole = max(1, -int(-seconds // 1))
    return [(b"retry-after", b"%d" % whole), (b"retry-after-ms", b"%d" % round(seconds * 1000))]
