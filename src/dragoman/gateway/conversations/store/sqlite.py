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
import time
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any, Generic, TypeVar

from dragoman.gateway.conversations.store import schema
from dragoman.gateway.conversations.store import statements as say
from dragoman.gateway.conversations.store.values import Retention, StoredTurn, StoreError

T = TypeVar("T")
_PATIENCE = 10.0  # seconds, for another process that writes
_TOGETHER = 256  # at most, in one transaction
_PARAMETER = re.compile(r"\$(\d)")


class SqliteStore:
    def __init__(self, path: str) -> None:
        """`path` may be `:memory:`. Fails where it cannot be opened or is of a newer version."""
        self._path = path
        self._waiting: queue.SimpleQueue[_Work[Any] | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._run, name="store", daemon=True)
        self._connection = _opened(path)
        self._thread.start()

    async def put(self, turn: StoredTurn) -> None:
        def write(file: sqlite3.Connection) -> None:
            found = _rows(file, say.ROOT, turn.owner, turn.previous) if turn.previous else []
            for statement, values in say.writes(turn, found[0][0] if found else turn.id):
                _rows(file, statement, *values)

        await self._do(write)

    async def get(self, owner: str, id: str) -> StoredTurn | None:
        return _first(await self._turns(say.GET, owner, id))

    async def chain(self, owner: str, id: str) -> list[StoredTurn]:
        return say.unbroken(await self._turns(say.CHAIN, owner, id))

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        return _first(await self._turns(say.FIND, owner, name))

    async def _turns(self, statement: str, owner: str, id: str) -> list[StoredTurn]:
        """Reading is a use of the whole conversation."""

        def read(file: sqlite3.Connection) -> list[StoredTurn]:
            turns = [say.read_turn(row) for row in _rows(file, statement, owner, id)]
            if turns:
                _rows(file, say.TOUCH, owner, turns[-1].id, time.time())
            return turns

        return await self._do(read)

    async def delete(self, owner: str, id: str) -> bool:
        def remove(file: sqlite3.Connection) -> bool:
            removed = _rows(file, say.DELETE, owner, id)
            for root, size in removed:
                _rows(file, say.SHRINK, owner, root, size)
                _rows(file, say.FORGET, owner, root)
            return bool(removed)

        return await self._do(remove)

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await self._do(lambda file: _rows(file, say.REMEMBER, owner, digest, handle, time.time()))

    async def recall(self, owner: str, digest: str) -> bytes | None:
        found = await self._do(lambda file: _rows(file, say.RECALL, owner, digest, time.time()))
        return found[0][0] if found else None

    async def sweep(self, retention: Retention) -> None:
        def drop(file: sqlite3.Connection) -> None:
            for statement, value in say.sweeps(retention):
                _rows(file, statement, value)
            for _ in range(_rows(file, "pragma freelist_count")[0][0]):
                _rows(file, "pragma incremental_vacuum")  # one page at a time, as Python asks for it

        await self._do(drop)

    async def close(self) -> None:
        """What was asked for before is still done."""
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Work(act, future, loop))
        return await future

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            ending = False
            while len(batch) < _TOGETHER and not ending and not self._waiting.empty():
                work = self._waiting.get()
                ending = work is None
                batch += [work] if work else []
            self._together(batch)
            if ending:
                break
        self._connection.close()

    def _together(self, batch: list[_Work[Any]]) -> None:
        """Where something fails, each is tried alone, so that it fails only whom it concerns."""
        try:
            results = _in_transaction(self._connection, [work.act for work in batch])
        except Exception as error:  # whatever it is, nobody may wait for it for ever
            if len(batch) == 1 or _is_locked(error):
                for work in batch:
                    work.fail(_unusable(self._path, error))
            else:
                for work in batch:
                    self._together([work])
            return
        for work, result in zip(batch, results, strict=True):
            work.end(result)


class _Work(Generic[T]):
    """What somebody on the event loop waits for."""

    __slots__ = ("_future", "_loop", "act")

    def __init__(
        self,
        act: Callable[[sqlite3.Connection], T],
        future: asyncio.Future[T],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.act, self._future, self._loop = act, future, loop

    def end(self, result: T) -> None:
        self._tell(lambda: self._future.cancelled() or self._future.set_result(result))

    def fail(self, error: StoreError) -> None:
        self._tell(lambda: self._future.cancelled() or self._future.set_exception(error))

    def _tell(self, tell: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(tell)


def _opened(path: str) -> sqlite3.Connection:
    try:
        if path != ":memory:":
            os.close(
                os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            )  # what people say is nobody else's business
        connection = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        connection.execute("pragma auto_vacuum = incremental")
        _patiently(lambda: connection.execute("pragma journal_mode = wal"))
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        _in_transaction(connection, [_migrate])
    except (sqlite3.Error, OSError) as error:
        raise _unusable(path, error) from None
    return connection


def _migrate(file: sqlite3.Connection) -> None:
    """In a transaction that others wait for, so that two who open at once do not both take a step."""
    _rows(file, schema.VERSIONS.format(**schema.SQLITE))
    ((version,),) = _rows(file, schema.VERSION)
    for number, step in schema.due(version, schema.SQLITE):
        for statement in step:
            _rows(file, statement)
        _rows(file, schema.TAKEN, number)


def _patiently(act: Callable[[], object]) -> None:
    """Entering WAL mode does not wait for others by itself."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            act()
            return
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _in_transaction(file: sqlite3.Connection, acts: Iterable[Callable[[sqlite3.Connection], T]]) -> list[T]:
    file.execute("begin immediate")
    try:
        results = [act(file) for act in acts]
        file.execute("commit")
    except BaseException:
        if file.in_transaction:  # a full disk may have ended it already
            file.execute("rollback")
        raise
    return results


def _rows(file: sqlite3.Connection, statement: str, *values: object) -> list[Any]:
    return file.execute(_PARAMETER.sub(r"?\1", statement), values).fetchall()


def _is_locked(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _first(turns: list[StoredTurn]) -> StoredTurn | None:
    return turns[0] if turns else None


def _unusable(path: str, error: Exception) -> StoreError:
    return StoreError(f"the store {path} cannot be used: {error}")
