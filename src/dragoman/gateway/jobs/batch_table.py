"""Batches and files in the store. The lines of a batch are jobs (see job_table.py).

    running  --cancel------------------------------> cancelling  (lines that wait are cancelled at once)
    running  --deadline----------------------------> running     (lines that wait expire at once)
    running, cancelling  --no line is left---------> ended

A batch ends when somebody finds that none of its lines is left: whoever ended a line, whoever asks for the
batch, or the sweep of any gateway.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.gateway.conversations.store import SqlStore, Statement
from dragoman.gateway.jobs.space import StoreSpace, no_room
from dragoman.serving.jobs import PageQuery, StoredFile

_BATCH = "owner, id, protocol, settings, total, created, deadline, cancelled, ended, expires"
_ADD = f"insert into dragoman_batches ({_BATCH}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
_GET = f"select {_BATCH} from dragoman_batches where owner = $1 and id = $2"
_COUNTS = "select status, count(*) from dragoman_jobs where owner = $1 and batch = $2 group by status"
_LEFT = "select 1 from dragoman_jobs where owner = $1 and batch = $2 and ended is null limit 1"
_OPEN = f"select {_BATCH} from dragoman_batches where ended is null"
_CANCEL = """update dragoman_batches set cancelled = $3
    where owner = $1 and id = $2 and cancelled is null and ended is null returning id"""
_END_WAITING = """update dragoman_jobs set status = $3, ended = $4, body = $5
    where owner = $1 and batch = $2 and status = 'queued' and ended is null"""
_END = """update dragoman_batches set ended = $3 where owner = $1 and id = $2 and ended is null
    and not exists (select 1 from dragoman_jobs where owner = $1 and batch = $2 and ended is null)
    returning id"""
_RESULTS = """select line, id, custom_id, status, reply from dragoman_jobs
    where owner = $1 and batch = $2 and line > $3 and ended is not null order by line limit $4"""
_SIZES = """select status = 'completed', count(*), coalesce(sum(length(reply) + 1), 0) from dragoman_jobs
    where owner = $1 and batch = $2 group by 1"""
_DELETE_LINES = "delete from dragoman_jobs where owner = $1 and batch = $2"
_DELETE = "delete from dragoman_batches where owner = $1 and id = $2"
_EXPIRED = "select owner, id from dragoman_batches where expires < $1"

_FILE = "id, name, purpose, batch, size, created, expires, protocol, media_type"
_ADD_FILE = f"""insert into dragoman_files (owner, {_FILE}, content)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (owner, id) do nothing"""
_FILE_BY_ID = f"select {_FILE} from dragoman_files where owner = $1 and id = $2 and expires > $3"
_CONTENT = "select content from dragoman_files where owner = $1 and id = $2"
_DELETE_FILE = "delete from dragoman_files where owner = $1 and id = $2 returning id"
_EXPIRED_FILES = "delete from dragoman_files where expires < $1"

_CURSOR = "(created, id) {sign} (select created, id from {table} where owner = $1 and id = $2)"


class StoredBatch(Struct, frozen=True):
    owner: str
    id: str
    protocol: str
    settings: bytes
    total: int
    created: float
    deadline: float
    cancelled: float | None
    ended: float | None
    expires: float

    def read_settings(self) -> dict[str, Any]:
        return jsontext.decode(self.settings)


class BatchTable:
    def __init__(self, database: SqlStore) -> None:
        self._database = database

    async def add(self, batch: StoredBatch) -> None:
        values = (
            batch.owner, batch.id, batch.protocol, batch.settings, batch.total, batch.created,
            batch.deadline, batch.cancelled, batch.ended, batch.expires,
        )  # fmt: skip
        await self._run(Statement(_ADD, values))

    async def get(self, owner: str, id: str) -> StoredBatch | None:
        rows = await self._run(Statement(_GET, (owner, id)))
        return StoredBatch(*rows[0]) if rows else None

    async def counts(self, owner: str, id: str) -> dict[str, int]:
        return dict(await self._run(Statement(_COUNTS, (owner, id))))

    async def has_lines_left(self, batch: StoredBatch) -> bool:
        return bool(await self._run(Statement(_LEFT, (batch.owner, batch.id))))

    async def page(self, owner: str, protocol: str, page: PageQuery) -> tuple[list[StoredBatch], bool]:
        """And whether there are more."""
        rows, more = await self._page("dragoman_batches", _BATCH, owner, page, {"protocol": protocol})
        return [StoredBatch(*row) for row in rows], more

    async def cancel(self, batch: StoredBatch) -> None:
        now = time.time()
        cancelled = Statement(_CANCEL, (batch.owner, batch.id, now), required=True)
        waiting = Statement(_END_WAITING, (batch.owner, batch.id, "cancelled", now, b""))
        await self._database.transaction(cancelled, waiting)

    async def expire(self, batch: StoredBatch) -> None:
        await self._run(Statement(_END_WAITING, (batch.owner, batch.id, "expired", time.time(), b"")))

    async def end(self, batch: StoredBatch) -> bool:
        """Where no line is left; whether it was this call that ended it."""
        return bool(await self._run(Statement(_END, (batch.owner, batch.id, time.time()))))

    async def results(
        self, batch: StoredBatch, after: int, limit: int
    ) -> list[tuple[int, str, str, str, bytes]]:
        """Line, id, custom id, status and reply of lines that have ended."""
        rows = await self._run(Statement(_RESULTS, (batch.owner, batch.id, after, limit)))
        return [(line, id, custom_id, status, bytes(reply)) for line, id, custom_id, status, reply in rows]

    async def result_sizes(self, batch: StoredBatch) -> dict[bool, tuple[int, int]]:
        """Count and bytes of the answers (True), and of the other lines."""
        rows = await self._run(Statement(_SIZES, (batch.owner, batch.id)))
        return {bool(answers): (count, int(size)) for answers, count, size in rows}

    async def delete(self, owner: str, id: str) -> None:
        await self._run(Statement(_DELETE_LINES, (owner, id)), Statement(_DELETE, (owner, id)))

    async def open_batches(self) -> list[StoredBatch]:
        return [StoredBatch(*row) for row in await self._run(Statement(_OPEN))]

    async def sweep(self) -> None:
        now = time.time()
        for owner, id in await self._run(Statement(_EXPIRED, (now,))):
            await self.delete(owner, id)
        await self._run(Statement(_EXPIRED_FILES, (now,)))

    # Files

    async def add_file(
        self, owner: str, file: StoredFile, content: bytes, space: StoreSpace | None = None
    ) -> None:
        """ConversationError: the store has no room for it."""
        values = (
            owner, file.id, file.name, file.purpose, file.batch, file.size,
            file.created, file.expires, file.protocol, file.media_type, content,
        )  # fmt: skip
        claim = [space.claim(owner, file.size)] if space else []
        if await self._database.transaction(*claim, Statement(_ADD_FILE, values)) is None:
            raise no_room(file.size)

    async def file(self, owner: str, id: str, protocol: str = "") -> StoredFile | None:
        rows = await self._run(Statement(_FILE_BY_ID, (owner, id, time.time())))
        file = StoredFile(*rows[0]) if rows else None
        return file if file and file.protocol == protocol else None

    async def content(self, owner: str, id: str) -> bytes:
        rows = await self._run(Statement(_CONTENT, (owner, id)))
        return bytes(rows[0][0]) if rows else b""

    async def files(self, owner: str, page: PageQuery, protocol: str = "") -> tuple[list[StoredFile], bool]:
        only = {"protocol": protocol} | ({"purpose": page.purpose} if page.purpose else {})
        rows, more = await self._page("dragoman_files", _FILE, owner, page, only)
        return [StoredFile(*row) for row in rows], more

    async def delete_file(self, owner: str, id: str) -> bool:
        return bool(await self._run(Statement(_DELETE_FILE, (owner, id))))

    async def _page(
        self, table: str, columns: str, owner: str, page: PageQuery, only: dict[str, str]
    ) -> tuple[list[Any], bool]:
        backwards = bool(page.before)
        ascending = page.ascending != backwards
        wheres, values = ["owner = $1"], [owner, page.before or page.after]
        if values[1]:
            wheres.append(_CURSOR.format(sign=">" if ascending else "<", table=table))
        else:
            values.pop()
        for column, value in only.items():
            values.append(value)
            wheres.append(f"{column} = ${len(values)}")
        order = "asc" if ascending else "desc"
        text = (
            f"select {columns} from {table} where {' and '.join(wheres)} "
            f"order by created {order}, id {order} limit {page.limit + 1}"
        )
        rows = await self._run(Statement(text, tuple(values)))
        shown = rows[: page.limit]
        return (shown[::-1] if backwards else shown), len(rows) > page.limit

    async def _run(self, first: Statement, *more: Statement) -> list[Any]:
        """The rows of the first statement."""
        results = await self._database.transaction(first, *more)
        return results[0] if results else []
