"""Both wires for `--verbose`: heads and bodies, without secrets and long blobs.

It observes the response writer and wraps the transport, so it costs nothing where it is off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar

from dragoman.core import jsontext
from dragoman.gateway.observability.redaction import Redactor
from dragoman.http.client import Reply, Timeouts, Transport
from dragoman.recording.redaction import without_blobs, without_credentials, without_secrets

_LONGEST = 20_000  # characters of one body
_exchange: ContextVar[tuple[str, str]] = ContextVar("exchange", default=("", ""))  # its id and its key


class WireLog:
    def __init__(self, write: Callable[[str], object], redactor: Redactor) -> None:
        self._write, self._redactor = write, redactor

    def begin(self) -> Callable[[int, bytes], None]:
        """What observes the answer to a request. Its task may have served another one before."""
        _exchange.set(("", ""))
        return self.client_response

    def client_request(self, id: str, key: str, head: str, headers: Mapping[str, str], body: bytes) -> None:
        """What this task sends upstream belongs to this request. `key` is the client's, valid or not."""
        _exchange.set((id, key))
        self.write("client request", body, head, headers)

    def client_response(self, status: int, body: bytes) -> None:
        """The client's side of an answer."""
        self.write("client response", body, str(status) if status else "")

    def write(self, what: str, body: bytes, head: str = "", headers: Mapping[str, str] | None = None) -> None:
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

    def __init__(self, transport: Transport, wire_log: WireLog) -> None:
        self._transport, self._wire_log = transport, wire_log

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        self._wire_log.write("upstream request", body, f"{method} {url}", headers)
        reply = await self._transport.send(method, url, headers, body, timeouts)
        self._wire_log.write("upstream response", b"", str(reply.status), reply.headers)
        return _LoggedReply(reply, self._wire_log)


class _LoggedReply:
    def __init__(self, reply: Reply, wire_log: WireLog) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply, self._wire_log = reply, wire_log

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._reply:
            self._wire_log.write("upstream body", piece)
            yield piece

    async def read(self, limit: int) -> bytes:
        body = await self._reply.read(limit)
        self._wire_log.write("upstream body", body)
        return body

    def close(self) -> None:
        self._reply.close()
