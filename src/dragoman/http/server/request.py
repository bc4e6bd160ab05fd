"""One request of a client: its head, and its body as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

import httptools

from dragoman.core.errors import DragomanError

_SHORT = 64 * 1024
_ESCAPE = ord("%")  # looking for a byte is several times as fast as looking for bytes


class ClientGone(Exception):
    """The client left before its request was complete."""


class TooSlow(DragomanError):
    """A body that would take forever to arrive."""

    def __init__(self) -> None:
        super().__init__("the body of the request took too long to arrive")


class TooLarge(DragomanError):
    """A body beyond the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes")


class ServerRequest:
    """Names of headers are lower case; of a header said twice the last counts.

    `gone`: the client left while its answer was under way, which cancels the application's task.
    """

    __slots__ = (
        "_awaited", "_limit", "_pieces", "_waiter", "complete", "discarded", "gone", "headers", "keep",
        "method", "modern", "path", "query", "size", "started",
    )  # fmt: skip

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: dict[str, str],
        modern: bool,
        keep: bool,
        started: float,
        awaited: Callable[[], None],
    ) -> None:
        self.method, self.headers = method, headers
        self.path, self.query = path_and_query(target)
        self.modern, self.keep = modern, keep  # HTTP/1.1, and the connection may serve another request
        self.started, self.size = started, 0
        self.complete = self.gone = self.discarded = False
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._limit = 0  # of who waits
        self._awaited = awaited

    async def read(self, limit: int) -> bytes:
        """The whole body; one that is longer than `limit` raises TooLarge, as early as that is known."""
        if self.size > limit or (not self.complete and self._announced() > limit):
            raise TooLarge(limit)
        if not self.complete:
            await self._wait(limit)
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body

    async def _wait(self, limit: int) -> None:
        self._limit = limit
        self._awaited()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def is_long(self) -> bool:
        """Whether much of its body, or nobody knows how much, is still to come; or perhaps nothing."""
        if self.complete:
            return False
        length = self._announced()
        return not length or length - self.size > _SHORT or "expect" in self.headers

    def _announced(self) -> int:
        """The size of the body, where its head tells it."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdigit() else 0

    # What the connection says

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self.discarded:
            return
        self._pieces.append(data)
        if self._waiter and self.size > self._limit:
            self._settle(TooLarge(self._limit))

    def end(self) -> None:
        self.complete = True
        if self._waiter:
            self._settle(None)

    def lose(self) -> None:
        self.gone = True
        self._settle(ClientGone())

    def is_too_slow(self) -> None:
        self._settle(TooSlow())

    def discard(self) -> None:
        """Nobody will read the rest."""
        self.discarded = True
        self._pieces.clear()

    def _settle(self, error: Exception | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter and not waiter.done():
            if error:
                waiter.set_exception(error)
            else:
                waiter.set_result(None)


def path_and_query(target: bytes) -> tuple[str, bytes]:
    """Of a request's target, which may be a whole URL; the path without its escapes."""
    if not target.startswith(b"/"):
        try:
            parsed = httptools.parse_url(target)
            target = (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
        except httptools.HttpParserInvalidURLError:
            pass
    path, _, query = target.partition(b"?")
    if _ESCAPE in path:
        path = unquote_to_bytes(path)
    return path.decode("utf-8", "replace"), query
