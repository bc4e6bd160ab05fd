"""A store that several gateways share: PostgreSQL, by asyncpg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from dragoman.gateway.conversations.store import schema
from dragoman.gateway.conversations.store import statements as say
from dragoman.gateway.conversations.store.addresses import without_password
from dragoman.gateway.conversations.store.values import Retention, StoredTurn, StoreError


class PostgresConnection(Protocol):
    """What is used of asyncpg's."""

    async def fetch(self, query: str, *values: object) -> list[Any]: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...

    async def execute(self, query: str, *values: object, timeout: float | None = None) -> str: ...


T = TypeVar("T")
_MIGRATING, _SWEEPING = (
    0x647261676F6D616E,
    0x647261676F6D616F,
)  # the locks' numbers; nobody else's, it is hoped
_PATIENCE = 10.0  # seconds for one statement, and for a connection
_CONNECTIONS = 10  # at most, for each process
_LOST = (
    OSError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the end of a connection, noticed in the middle of a statement
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
)


class PostgresStore:
    def __init__(self, url: str, pool: Any) -> None:
        self._url, self._pool = url, pool

    @classmethod
    async def open(cls, url: str) -> PostgresStore:
        try:
            pool: Any = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no stubs
                url, min_size=0, max_size=_CONNECTIONS, timeout=_PATIENCE, command_timeout=_PATIENCE
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise _unusable(url, error) from None
        store = cls(url, pool)
        try:
            await store._do(migrate)
        except BaseException:
            pool.terminate()
            raise
        return store

    async def put(self, turn: StoredTurn) -> None:
        async def write(connection: PostgresConnection) -> None:
            root = await connection.fetchval(say.ROOT, turn.owner, turn.previous) if turn.previous else None
            for statement, values in say.writes(turn, root or turn.id):
                await connection.execute(statement, *values)

        await self._do(write)

    async def get(self, owner: str, id: str) -> StoredTurn | None:
        return _first(await self._turns(say.GET, owner, id))

    async def chain(self, owner: str, id: str) -> list[StoredTurn]:
        return say.unbroken(await self._turns(say.CHAIN, owner, id))

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        return _first(await self._turns(say.FIND, owner, name))

    async def _turns(self, statement: str, owner: str, id: str) -> list[StoredTurn]:
        """Reading is a use of the whole conversation."""

        async def read(connection: PostgresConnection) -> list[StoredTurn]:
            turns = [say.read_turn(tuple(row)) for row in await connection.fetch(statement, owner, id)]
            if turns:
                await connection.execute(say.TOUCH, owner, turns[-1].id, time.time())
            return turns

        return await self._do(read)

    async def delete(self, owner: str, id: str) -> bool:
        async def remove(connection: PostgresConnection) -> bool:
            removed = await connection.fetch(say.DELETE, owner, id)
            for root, size in removed:
                await connection.execute(say.SHRINK, owner, root, size)
                await connection.execute(say.FORGET, owner, root)
            return bool(removed)

        return await self._do(remove)

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await self._do(
            lambda connection: connection.execute(say.REMEMBER, owner, digest, handle, time.time())
        )

    async def recall(self, owner: str, digest: str) -> bytes | None:
        return await self._do(lambda connection: connection.fetchval(say.RECALL, owner, digest, time.time()))

    async def sweep(self, retention: Retention) -> None:
        async def drop(connection: PostgresConnection) -> None:
            if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _SWEEPING):
                return  # another gateway is at it
            for statement, value in say.sweeps(retention):
                await connection.execute(statement, value, timeout=300)

        await self._do(drop)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), _PATIENCE)
        except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._pool.terminate()

    async def _do(self, act: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """In one transaction. That a connection broke while nobody used it shows here: once more, then."""
        for again in (True, False):
            try:
                async with self._pool.acquire(timeout=_PATIENCE) as connection, connection.transaction():
                    return await act(connection)
            except _LOST as error:
                if not again:
                    raise _unusable(self._url, error) from None
            except (asyncpg.PostgresError, TimeoutError) as error:
                raise _unusable(self._url, error) from None
        raise AssertionError("the second try returned or raised")


async def migrate(connection: PostgresConnection) -> None:
    """Under a lock that others wait for, so that two who open at once do not both take a step."""
    await connection.execute("select pg_advisory_xact_lock($1)", _MIGRATING)
    await connection.execute(schema.VERSIONS.format(**schema.POSTGRES))
    version = await connection.fetchval(schema.VERSION)
    for number, step in schema.due(version, schema.POSTGRES):
        for statement in step:
            await connection.execute(statement)
        await connection.execute(schema.TAKEN, number)


def _first(turns: list[StoredTurn]) -> StoredTurn | None:
    return turns[0] if turns else None


def _unusable(url: str, error: Exception) -> StoreError:
    problem = without_password(str(error) or type(error).__name__, url)
    return StoreError(f"the store {without_password(url, url)} cannot be used: {problem}")
