"""A store in one file, or in memory: SQLite, in a thread of its own.

Everything that waits is done in one transaction, so that many turns share one commit, and the event loop
never waits for a disk. Several processes may use the same file.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from typing import Any, Generic, TypeVar

from dragoman.gateway.conversations.store import sql
from dragoman.gateway.conversations.store.values import (
    ChainTooLarge,
    Reserve,
    Retention,
    Statement,
    StoredTurn,
    StoreError,
)

T = TypeVar("T")
_BUSY_TIMEOUT = 10.0  # seconds to wait for another process that writes
_VACUUM_SECONDS = 0.02  # of one transaction
_BATCH = 256  # operations in one transaction
_PARAMETER = re.compile(r"\$(\d+)")


class SqliteStore:
    def __init__(self, path: str) -> None:
        """`path` may be `:memory:`. Raises StoreError where it cannot be opened or is of a newer version."""
        self._path = path
        self._queue: queue.SimpleQueue[_Operation[Any] | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._run, name="store", daemon=True)
        self._connection = _open(path)
        self._thread.start()

    async def put(self, turn: StoredTurn) -> None:
        def write(file: sqlite3.Connection) -> None:
            found = _rows(file, sql.ROOT, turn.owner, turn.previous) if turn.previous else []
            for statement, values in sql.writes(turn, found[0][0] if found else turn.id):
                _rows(file, statement, *values)

        await self._do(write)

    async def get(self, owner: str, id: str) -> StoredTurn | None:
        return _first(await self._turns(sql.GET, owner, id))

    async def chain(
        self, owner: str, id: str, limit: int = sys.maxsize, reserve: Reserve = bool
    ) -> list[StoredTurn]:
        ((size,),) = await self._read(lambda file: _rows(file, sql.CHAIN_SIZE, owner, id))
        if size > limit:
            raise ChainTooLarge(size, limit)
        reserve(size)
        return sql.unbroken(await self._turns(sql.CHAIN, owner, id))

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        return _first(await self._turns(sql.FIND, owner, name))

    async def _turns(self, statement: str, owner: str, id: str) -> list[StoredTurn]:
        return [
            sql.read_turn(row) for row in await self._read(lambda file: _rows(file, statement, owner, id))
        ]

    async def touch(self, used: Sequence[tuple[str, str]]) -> None:
        def write(file: sqlite3.Connection) -> None:
            for owner, id in used:
                _rows(file, sql.TOUCH, owner, id, time.time())

        await self._do(write)

    async def delete(self, owner: str, id: str) -> bool:
        def remove(file: sqlite3.Connection) -> bool:
            removed = _rows(file, sql.DELETE, owner, id)
            for root, size in removed:
                _rows(file, sql.SHRINK, owner, root, size)
                _rows(file, sql.FORGET, owner, root)
            return bool(removed)

        return await self._do(remove)

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await self._do(lambda file: _rows(file, sql.REMEMBER, owner, digest, handle, time.time()))

    async def recall(self, owner: str, digest: str) -> bytes | None:
        found = await self._do(lambda file: _rows(file, sql.RECALL, owner, digest, time.time()))
        return found[0][0] if found else None

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
        def write(file: sqlite3.Connection) -> None:
            _rows(file, sql.ADD_TOKENS, caller, day, tokens)
            _rows(file, sql.FORGET_TOKENS, caller, day - 1)

        await self._do(write)

    async def tokens(self, caller: str, day: int) -> int:
        found = await self._read(lambda file: _rows(file, sql.TOKENS, caller, day))
        return found[0][0] if found else 0

    async def transaction(self, *statements: Statement) -> list[list[Any]] | None:
        def run(file: sqlite3.Connection) -> list[list[Any]] | None:
            file.execute("savepoint statements")  # other operations may share the transaction
            results: list[list[Any]] = []
            for statement in statements:
                rows = _rows(file, statement.sql, *statement.values)
                if statement.required and not rows:
                    file.execute("rollback to statements")
                    return None
                results.append(rows)
            file.execute("release statements")
            return results

        return await self._do(run)

    async def write_many(
        self, sql: str, rows: Sequence[tuple[object, ...]], first: Statement | None = None
    ) -> bool:
        def write(file: sqlite3.Connection) -> bool:
            if first and not _rows(file, first.sql, *first.values):
                return False
            file.executemany(_PARAMETER.sub(r"?\1", sql), rows)
            return True

        return await self._do(write)

    async def sweep(self, retention: Retention) -> None:
        """In short transactions, so that others write in between: deleting and vacuuming a gigabyte takes
        seconds, and SQLite has one writer."""
        for rows in sql.list_expired(retention):
            for owner, key in await self._read(lambda file, rows=rows: _rows(file, rows.select, rows.value)):
                await self._do(lambda file, args=(rows.delete, owner, key): _rows(file, *args))
        while await self._do(_vacuum_some):
            pass

    is_away = False  # a file is always there

    def suspect(self) -> None:
        """A file that is slow may be slow; there is nothing to reach."""

    async def close(self) -> None:
        """Operations that are queued are still done."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _do(self, run: Callable[[sqlite3.Connection], T], writes: bool = True) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Operation(run, future, loop, writes))
        return await future

    async def _read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(run, writes=False)

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            ending = False
            while len(batch) < _BATCH and not ending and not self._queue.empty():
                operation = self._queue.get()
                ending = operation is None
                batch += [operation] if operation else []
            self._run_batch(batch)
            if ending:
                break
        self._connection.close()

    def _run_batch(self, batch: list[_Operation[Any]]) -> None:
        """Where one fails, each is run alone, so that only the failing one fails."""
        try:
            kind = "immediate" if any(operation.writes for operation in batch) else "deferred"
            results = _in_transaction(self._connection, [operation.run for operation in batch], kind)
        except Exception as error:  # of any kind, since callers wait for the result
            if len(batch) == 1 or _is_locked(error):
                for operation in batch:
                    operation.fail(_unusable(self._path, error))
            else:
                for operation in batch:
                    self._run_batch([operation])
            return
        for operation, result in zip(batch, results, strict=True):
            operation.end(result)


class _Operation(Generic[T]):
    """A function for the store's thread, and the future of its result on the event loop."""

    __slots__ = ("_future", "_loop", "run", "writes")

    def __init__(
        self,
        run: Callable[[sqlite3.Connection], T],
        future: asyncio.Future[T],
        loop: asyncio.AbstractEventLoop,
        writes: bool,
    ) -> None:
        self.run, self._future, self._loop, self.writes = run, future, loop, writes

    def end(self, result: T) -> None:
        self._call(lambda: self._future.cancelled() or self._future.set_result(result))

    def fail(self, error: StoreError) -> None:
        self._call(lambda: self._future.cancelled() or self._future.set_exception(error))

    def _call(self, settle: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)


def _open(path: str) -> sqlite3.Connection:
    try:
        if path != ":memory:":
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # conversations are private
        connection = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        connection.execute("pragma auto_vacuum = incremental")
        _retry_locked(lambda: connection.execute("pragma journal_mode = wal"))
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        _in_transaction(connection, [_migrate])
    except (sqlite3.Error, OSError) as error:
        raise _unusable(path, error) from None
    return connection


def _migrate(file: sqlite3.Connection) -> None:
    """In a transaction, so that two processes that open it at once do not both migrate it."""
    _rows(file, sql.VERSIONS.format(**sql.SQLITE))
    ((version,),) = _rows(file, sql.VERSION)
    for number, migration in sql.migrations(version, sql.SQLITE):
        for statement in migration:
            _rows(file, statement)
        _rows(file, sql.TAKEN, number)


def _retry_locked(run: Callable[[], object]) -> None:
    """Switching to WAL mode ignores the busy timeout."""
    until = time.monotonic() + _BUSY_TIMEOUT
    while True:
        try:
            run()
            return
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _in_transaction(
    file: sqlite3.Connection, runs: Iterable[Callable[[sqlite3.Connection], T]], kind: str = "immediate"
) -> list[T]:
    file.execute(f"begin {kind}")
    try:
        results = [run(file) for run in runs]
        file.execute("commit")
    except BaseException:
        if file.in_transaction:  # a full disk rolls back by itself
            file.execute("rollback")
        raise
    return results


def _vacuum_some(file: sqlite3.Connection) -> bool:
    """Gives pages back to the file system; whether there are more."""
    until = time.monotonic() + _VACUUM_SECONDS
    for left in range(_rows(file, "pragma freelist_count")[0][0], 0, -1):
        if time.monotonic() > until:
            return left > 0
        _rows(file, "pragma incremental_vacuum")  # one page a call: Python steps a statement once
    return False


def _rows(file: sqlite3.Connection, statement: str, *values: object) -> list[Any]:
    return file.execute(_PARAMETER.sub(r"?\1", statement), values).fetchall()


def _is_locked(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _first(turns: list[StoredTurn]) -> StoredTurn | None:
    return turns[0] if turns else None


def _unusable(path: str, error: Exception) -> StoreError:
    return StoreError(f"the store {path} cannot be used: {error}")
