"""A gateway over a model that tests can hold, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.canned import provider
from gateway.conversations.conftest import BACKENDS, fresh
from gateway.conversations.databases import Database, PostgresDatabase, SqliteDatabase
from gateway.conversations.stands import OTHER_KEY, stored_at
from gateway.jobs.upstreams import HeldModel
from gateway.running import running
from gateway.stands import CLIENT_KEY, Stand, gateway


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield SqliteDatabase(tmp_path / "store.db")
    else:
        yield from fresh(request.getfixturevalue("postgres"))


@pytest.fixture
def postgresql(postgres: str) -> Iterator[PostgresDatabase]:
    yield from fresh(postgres)


@pytest.fixture
def held() -> Iterator[tuple[HeldModel, str]]:
    model = HeldModel()
    with running(model) as url:
        yield model, url


@pytest.fixture
def model(held: tuple[HeldModel, str]) -> HeldModel:
    return held[0]


def configured(upstream: str, store: str, more: str = "") -> str:
    """`up` is the held model; takeovers are quick."""
    return (
        f'[server]\nkeys = ["{CLIENT_KEY}", "{OTHER_KEY}"]\n[jobs]\ntakeover_seconds = 2\n{more}\n'
        + provider("up", upstream, "openai-chat")
        + stored_at(store)
    )


@pytest.fixture
def text(held: tuple[HeldModel, str], database: Database) -> str:
    return configured(held[1], database.url)


@pytest.fixture
def stand(text: str) -> Iterator[Stand]:
    with gateway(text) as stand:
        yield stand
