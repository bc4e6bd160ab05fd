"""Each test of the store runs on SQLite and on a real PostgreSQL, in a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_store.databases import Database, PostgresDatabase, SqliteDatabase

BACKENDS = ("sqlite", "postgresql")


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield SqliteDatabase(tmp_path / "store.db")
    else:
        yield from fresh(request.getfixturevalue("postgres"))


@pytest.fixture
def postgresql(postgres: str) -> Iterator[PostgresDatabase]:
    yield from fresh(postgres)


def fresh(server: str) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase.made(server)
    yield database
    database.drop()
