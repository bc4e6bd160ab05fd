"""Each test of the store runs on SQLite and on a real PostgreSQL, in a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.conversations.databases import Database, PostgresDatabase, SqliteDatabase
from gateway.conversations.stands import over_demo
from gateway.stands import Stand, demo

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


@pytest.fixture(scope="module")
def behind() -> Iterator[str]:
    """The scripted model, over every protocol."""
    with demo() as (_, url):
        yield url


@pytest.fixture
def stand(behind: str, database: Database) -> Iterator[Stand]:
    """A gateway before it that keeps conversations in `database`."""
    with over_demo(behind, database.url) as stand:
        yield stand


def fresh(server: str) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase.made(server)
    yield database
    database.drop()
