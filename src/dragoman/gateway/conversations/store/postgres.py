"""A store that several gateways share: PostgreSQL with asyncpg.

    REACHED   a connection cannot be had, or is lost twice, or a caller waited too long  -> AWAY
    AWAY      the first caller begins a probe and waits for it; others fail at once      -> AWAY
    AWAY      the probe gets an answer                                                   -> REACHED

So a database that does not even refuse connections costs one caller its patience, not all of them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from dragoman.gateway.conversations.store import sql
from dragoman.gateway.conversations.store.addresses import without_password
from dragoman.gateway.conversations.store.values import (
    ChainTooLarge,
    Reserve,
    Retention,
    Statement,
    StoreAway,
    StoredTurn,
    StoreError,
)


class PostgresConnection(Protocol):
    """The methods of asyncpg's connection that are used here."""

    async def fetch(self, query: str, *values: object) -> list[Any]: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...

    async def execute(self, query: str, *values: object, timeout: float | None = None) -> str: ...

    async def executemany(self, query: str, rows: Sequence[tuple[object, ...]]) -> None: ...


T = TypeVar("T")
# Advisory locks: "dragoman" and two more
_MIGRATION_LOCK, _SWEEP_LOCK, _ALONE_LOCK = 0x647261676F6D616E, 0x647261676F6D616F, 0x647261676F6D6170
_TIMEOUT = 10.0  # seconds for one statement, and for a connection
_CONNECTIONS = 10  # at most, of each process
_LOST = (
    OSError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection ended during a statement
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
)


class _RolledBack(Exception):
    """A required statement gave no row."""


class PostgresStore:
    def __init__(self, url: str, pool: Any) -> None:
        self._url, self._pool = url, pool
        self._away: StoreAway | None = None  # why, while it cannot be reached
        self._probing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str) -> PostgresStore:
        try:
            pool: Any = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no stubs
                url, min_size=0, max_size=_CONNECTIONS, timeout=_TIMEOUT, command_timeout=_TIMEOUT
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise _away(url, error) from None
        store = cls(url, pool)
        try:
            await store._do(migrate)
        except BaseException:
            pool.terminate()
            raise
        return store

    async def put(self, turn: StoredTurn) -> None:
        async def write(connection: PostgresConnection) -> None:
            root = await connection.fetchval(sql.ROOT, turn.owner, turn.previous) if turn.previous else None
            for statement, values in sql.writes(turn, root or turn.id):
                await connection.execute(statement, *values)

        await self._do(write)

    async def get(self, owner: str, id: str) -> StoredTurn | None:
        return _first(await self._turns(sql.GET, owner, id))

    async def chain(
        self, owner: str, id: str, limit: int = sys.maxsize, reserve: Reserve = bool
    ) -> list[StoredTurn]:
        size = await self._do(lambda connection: connection.fetchval(sql.CHAIN_SIZE, owner, id))
        if size > limit:
            raise ChainTooLarge(int(size), limit)
        reserve(int(size))
        return sql.unbroken(await self._turns(sql.CHAIN, owner, id))

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        return _first(await self._turns(sql.FIND, owner, name))

    async def _turns(self, statement: str, owner: str, id: str) -> list[StoredTurn]:
        rows = await self._do(lambda connection: connection.fetch(statement, owner, id))
        return [sql.read_turn(tuple(row)) for row in rows]

    async def touch(self, used: Sequence[tuple[str, str]]) -> None:
        async def write(connection: PostgresConnection) -> None:
            for owner, id in used:
                await connection.execute(sql.TOUCH, owner, id, time.time())

        await self._do(write)

    async def delete(self, owner: str, id: str) -> bool:
        async def remove(connection: PostgresConnection) -> bool:
            removed = await connection.fetch(sql.DELETE, owner, id)
            for root, size in removed:
                await connection.execute(sql.SHRINK, owner, root, size)
                await connection.execute(sql.FORGET, owner, root)
            return bool(removed)

        return await self._do(remove)

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await self._do(
            lambda connection: connection.execute(sql.REMEMBER, owner, digest, handle, time.time())
        )

    async def recall(self, owner: str, digest: str) -> bytes | None:
        return await self._do(lambda connection: connection.fetchval(sql.RECALL, owner, digest, time.time()))

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
        async def write(connection: PostgresConnection) -> None:
            await connection.execute(sql.ADD_TOKENS, caller, day, tokens)
            await connection.execute(sql.FORGET_TOKENS, caller, day - 1)

        await self._do(write)

    async def tokens(self, caller: str, day: int) -> int:
        return await self._do(lambda connection: connection.fetchval(sql.TOKENS, caller, day)) or 0

    async def transaction(self, *statements: Statement) -> list[list[Any]] | None:
        async def run(connection: PostgresConnection) -> list[list[Any]]:
            results: list[list[Any]] = []
            for statement in statements:
                rows = await _fetch(connection, statement)
                if statement.required and not rows:
                    raise _RolledBack
                results.append([tuple(row) for row in rows])
            return results

        try:
            return await self._do(run)
        except _RolledBack:
            return None

    async def write_many(
        self, sql: str, rows: Sequence[tuple[object, ...]], first: Statement | None = None
    ) -> bool:
        async def write(connection: PostgresConnection) -> bool:
            if first and not await _fetch(connection, first):
                return False
            await connection.executemany(sql, rows)
            return True

        return await self._do(write)

    async def sweep(self, retention: Retention) -> None:
        async def drop(connection: PostgresConnection) -> None:
            if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _SWEEP_LOCK):
                return  # another gateway sweeps
            for rows in sql.list_expired(retention):
                await connection.execute(rows.delete_all, rows.value, timeout=300)

        await self._do(drop)

    @property
    def is_away(self) -> bool:
        return self._away is not None

    def suspect(self) -> None:
        """A caller waited for it too long: the next one begins a probe."""
        self._away = self._away or _away(self._url, TimeoutError("it took too long"))

    async def close(self) -> None:
        if self._probing:
            self._probing.cancel()
        try:
            await asyncio.wait_for(self._pool.close(), _TIMEOUT)
        except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._pool.terminate()

    async def _do(self, run: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """In one transaction. A connection may have broken while it was idle: then it is tried once more."""
        if self._away:
            await self._find_again(self._away)
        for again in (True, False):
            connected = False
            try:
                async with self._pool.acquire(timeout=_TIMEOUT) as connection:
                    connected = True
                    async with connection.transaction():
                        return await run(connection)
            except (*_LOST, TimeoutError) as error:
                if not again or isinstance(error, TimeoutError):
                    self._away = _away(self._url, error)
                    raise _away(self._url, error) from None
            except asyncpg.PostgresError as error:
                if connected:
                    raise _unusable(self._url, error) from None
                self._away = _away(self._url, error)
                raise _away(self._url, error) from None
        raise AssertionError("the second attempt returned or raised")

    async def _find_again(self, away: StoreAway) -> None:
        """Raises StoreAway while it cannot be reached. The probe goes on when its caller gives up."""
        if self._probing:
            raise StoreAway(str(away))
        self._probing = asyncio.create_task(self._probe())
        self._probing.add_done_callback(self._end_probe)
        await asyncio.shield(self._probing)

    async def _probe(self) -> None:
        try:
            async with self._pool.acquire(timeout=_TIMEOUT) as connection:
                await connection.fetchval("select 1", timeout=_TIMEOUT)
        except (*_LOST, asyncpg.PostgresError, TimeoutError) as error:
            raise _away(self._url, error) from None
        self._away = None

    def _end_probe(self, probing: asyncio.Task[None]) -> None:
        self._probing = None
        if not probing.cancelled():
            probing.exception()  # retrieved, as nobody may wait for it any more


async def _fetch(connection: PostgresConnection, statement: Statement) -> list[Any]:
    if statement.alone:
        await connection.execute("select pg_advisory_xact_lock($1)", _ALONE_LOCK)
    return await connection.fetch(statement.sql, *statement.values)


async def migrate(connection: PostgresConnection) -> None:
    """Under a lock, so that two gateways that start at once do not both migrate."""
    await connection.execute("select pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
    await connection.execute(sql.VERSIONS.format(**sql.POSTGRES))
    version = await connection.fetchval(sql.VERSION)
    for number, migration in sql.migrations(version, sql.POSTGRES):
        for statement in migration:
            await connection.execute(statement)
        await connection.execute(sql.TAKEN, number)


def _first(turns: list[StoredTurn]) -> StoredTurn | None:
    return turns[0] if turns else None


def _unusable(url: str, error: Exception) -> StoreError:
    return StoreError(_problem(url, error))


def _away(url: str, error: Exception) -> StoreAway:
    return StoreAway(_problem(url, error))


def _problem(url: str, error: Exception) -> str:
    problem = without_password(str(error) or type(error).__name__, url)
    return f"the store {without_password(url, url)} cannot be used: {problem}"
