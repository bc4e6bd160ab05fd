"""A stored request, answered as if its client had sent it now: through the same handlers, limits and logs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from dragoman.gateway.jobs.job_table import Job
from dragoman.gateway.request import ExchangeRecord
from dragoman.http.server import Headers, ResponseWriter, ServerRequest

if TYPE_CHECKING:
    from dragoman.gateway.jobs.background import BackgroundRun

Sink = Callable[[bytes], Awaitable[None]]


class Replay(Protocol):
    """Answers a job through the gateway. `run`: it is a response of the background."""

    async def __call__(
        self, job: Job, writer: CapturedResponse, run: BackgroundRun | None = None
    ) -> ReplayedExchange: ...


class ReplayedExchange(Struct, frozen=True):
    """What became of it: the status and the body of a whole answer, and what the access log knows."""

    status: int
    body: bytes
    record: ExchangeRecord


class CapturedResponse(ResponseWriter):
    """An answer without a connection: a whole one is in `body`, the pieces of a stream go to `sink`."""

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink, self.body = sink, b""

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        self.begun = self.ended = True
        self.status, self.body = status, body
        if self.observer:
            self.observer(status, body)

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        self.begun, self.status = True, 200
        if self.observer:
            self.observer(200, b"")

    async def piece(self, data: bytes) -> None:
        if self.observer:
            self.observer(0, data)
        if self._sink:
            await self._sink(data)

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        await self.piece(data)


def restore_request(job: Job) -> ServerRequest:
    headers = {**job.read_settings().headers, "content-type": "application/json"}
    incoming = ServerRequest("POST", job.path, b"", headers, keep_alive=False, started=time.monotonic())
    incoming.feed(job.body)
    incoming.end()
    return incoming
