"""What passes on both sides, for `--verbose`: heads and bodies, without secrets and long blobs.

Both sides are overheard from outside, so an exchange that nobody listens to pays nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar

from dragoman.core import jsontext
from dragoman.gateway.observability.redaction import (
    Redactor,
    without_blobs,
    without_credentials,
    without_secrets,
)
from dragoman.http.client import Reply, Timeouts, Transport

_LONGEST = 20_000  # characters of one body
_exchange: ContextVar[tuple[str, str]] = ContextVar("exchange", default=("", ""))  # its id and its key


class WireLog:
    def __init__(self, write: Callable[[str], object], redactor: Redactor) -> None:
        self._write, self._redactor = write, redactor

    def asked(self, id: str, key: str, head: str, headers: Mapping[str, str], body: bytes) -> None:
        """A client's request; what this task sends on belongs to it. `key` is the client's, known or not."""
        _exchange.set((id, key))
        self.tell("client asks", body, head, headers)

    def hears(self, status: int, body: bytes) -> None:
        """The client's side of an answer."""
        self.tell("client hears", body, str(status) if status else "")

    def tell(self, what: str, body: bytes, head: str = "", headers: Mapping[str, str] | None = None) -> None:
        id, key = _exchange.get()
        line: dict[str, object] = {"id": id, "wire": what}
        if head:
            line["head"] = head
        if headers:
            line["headers"] = without_secrets(headers)
        if body:
            text = without_blobs(without_credentials(body.decode("utf-8", "replace")))
            line["body"] = self._redactor.clean(text, key)[:_LONGEST]  # before it is cut
        self._write(self._redactor.clean(jsontext.dumps(line), key))


class LoggedTransport:
    """The upstream's side."""

    def __init__(self, transport: Transport, wires: WireLog) -> None:
        self._transport, self._wires = transport, wires

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        self._wires.tell("upstream is asked", body, f"{method} {url}", headers)
        reply = await self._transport.send(method, url, headers, body, timeouts)
        self._wires.tell("upstream answers", b"", str(reply.status), reply.headers)
        return _LoggedReply(reply, self._wires)


class _LoggedReply:
    def __init__(self, reply: Reply, wires: WireLog) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply, self._wires = reply, wires

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._reply:
            self._wires.tell("upstream says", piece)
            yield piece

    async def read(self, limit: int) -> bytes:
        body = await self._reply.read(limit)
        self._wires.tell("upstream says", body)
        return body

    def close(self) -> None:
        self._reply.close()
