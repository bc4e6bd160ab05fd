"""A database of an earlier version is brought forward with its data; one of a later version is refused."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.gateway.conversations.store import LazyStore, StoredTurn, StoreError, open_store, sql
from gateway.conversations.databases import Database

ROWS = (
    "insert into dragoman_conversations values ('me', 'a', 1000000, 6)",
    "insert into dragoman_turns (owner, id, root, previous, protocol, made, items, reply, settings)"
    " values ('me', 'a', 'a', null, 'p', 1000000, '[]', '{}', '{}')",
    "insert into dragoman_turns (owner, id, root, previous, protocol, made, items, reply, settings)"
    " values ('me', 'b', 'a', 'a', 'p', 1000000, '[]', '{}', '{}')",
)


def at_version(database: Database, version: int) -> None:
    """As the program of that time left it."""
    database.rows(sql.VERSIONS.format(**database.types))
    for number, step in enumerate(sql.MIGRATIONS[:version], 1):
        for statement in sql.statements(step, database.types):
            database.rows(statement)
        database.rows(f"insert into dragoman_schema (version) values ({number})")


def read_chain(url: str) -> list[StoredTurn]:
    async def run() -> list[StoredTurn]:
        store = open_store(url)
        try:
            chain = await store.chain("me", "b")
            await store.remember("me", "d", b"handle")
            assert await store.recall("me", "d") == b"handle"
            return chain
        finally:
            await store.close()

    return asyncio.run(run())


@pytest.mark.parametrize("version", range(1, len(sql.MIGRATIONS)))
def test_an_earlier_database_is_brought_forward_with_its_data(database: Database, version: int):
    at_version(database, version)
    for row in ROWS:
        database.rows(row)
    assert [each.id for each in read_chain(database.url)] == ["a", "b"]
    numbers = [(number,) for number in range(1, len(sql.MIGRATIONS) + 1)]
    assert database.rows("select version from dragoman_schema order by version") == numbers


def test_two_who_open_at_once_take_each_step_once(database: Database):
    at_version(database, 1)

    async def run() -> None:
        stores = [open_store(database.url) for _ in range(6)]
        await asyncio.gather(*(store.recall("me", "d") for store in stores))
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(run())
    assert database.rows("select count(*) from dragoman_schema") == [(len(sql.MIGRATIONS),)]


def test_a_later_database_is_refused_and_left_alone(database: Database):
    at_version(database, len(sql.MIGRATIONS))
    database.rows("insert into dragoman_schema (version) values (99)")

    async def run() -> None:
        store: LazyStore = open_store(database.url)
        try:
            with pytest.raises(StoreError, match="newer dragoman"):
                await store.put(StoredTurn("a", "me", "p", None, b"[]", b"{}"))
        finally:
            await store.close()

    asyncio.run(run())
    assert database.rows("select count(*) from dragoman_turns") == [(0,)]
