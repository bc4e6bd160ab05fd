"""A database of its own for each test that shares limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.conversations.databases import PostgresDatabase


@pytest.fixture
def database(postgres: str) -> Iterator[PostgresDatabase]:
    made = PostgresDatabase.made(postgres)
    yield made
    made.drop()
