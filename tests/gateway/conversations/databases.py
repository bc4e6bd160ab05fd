"""A database of one test: its URL, and its insides as SQL sees them."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from dragoman.gateway.conversations.store import sql


class Database(Protocol):
    url: str
    types: dict[str, str]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement gives, from outside of the store."""
        ...


class SqliteDatabase:
    types = sql.SQLITE

    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            found = connection.execute(statement).fetchall()
            connection.commit()
            return found
        finally:
            connection.close()


class PostgresDatabase:
    types = sql.POSTGRES

    def __init__(self, server: str, name: str) -> None:
        self.server, self.name, self.url = server, name, server + name

    @classmethod
    def made(cls, server: str) -> PostgresDatabase:
        database = cls(server, f"test_{secrets.token_hex(6)}")
        _rows(f"{server}postgres", f"create database {database.name}")
        return database

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return _rows(self.url, statement)

    def drop(self) -> None:
        _rows(f"{self.server}postgres", f"drop database {self.name} with (force)")


def _rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as pool:  # a test may have a loop of its own
        return pool.submit(asyncio.run, ask()).result()
