"""Files that a request names: their content takes their place, so that any upstream can read them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from dragoman.core import jsontext
from dragoman.core.fields import Body
from dragoman.core.model import Failure
from dragoman.gateway.large_bodies import hold, run_for
from dragoman.gateway.request import GatewayRequest
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.serving.conversations import ConversationError
from dragoman.serving.jobs import FileContent, StoredFile
from dragoman.serving.named_files import NamedFiles

_GROWTH = 4 / 3  # of base64


class FileTable(Protocol):
    """gateway/jobs/batch_table.py has one."""

    def file(self, owner: str, id: str, protocol: str = "") -> Awaitable[StoredFile | None]: ...

    def content(self, owner: str, id: str) -> Awaitable[bytes]: ...


class RequestFiles:
    """`limit`: bytes of a request with all its files."""

    def __init__(self, table: FileTable, limit: int) -> None:
        self._table, self._limit = table, limit

    async def fill(self, body: Body, named: NamedFiles, request: GatewayRequest) -> Body:
        """`body` with the content of the caller's own files; others may be the upstream's, and stay."""
        owner = request.owner
        wire = await run_for(len(body.data), lambda: body.wire)
        found: dict[str, FileContent] = {}
        size = float(len(body.data))
        for id in named.names(wire):
            if id not in found:
                if (file := await self._table.file(owner, id, named.stored)) is None:
                    continue
                self._check(size + file.size * _GROWTH)  # before it is read
                hold(request.incoming, int(BODY_WEIGHT * file.size * _GROWTH))
                found[id] = FileContent(file, await self._table.content(owner, id))
            size += found[id].file.size * _GROWTH
            self._check(size)
        if not found:
            return body
        return await run_for(int(size), _fill, body, named, found, request.client.name)

    def _check(self, size: float) -> None:
        if size > self._limit:
            problem = f"the request and its files have more than {self._limit} bytes (server.max_body_mb)"
            raise ConversationError(Failure("too_large", problem, 413))


def _fill(body: Body, named: NamedFiles, found: dict[str, FileContent], protocol: str) -> Body:
    wire = named.inline(body.wire, found)
    filled = Body(jsontext.encode(wire), protocol, wire=wire)
    filled.sealed = body.sealed
    return filled
