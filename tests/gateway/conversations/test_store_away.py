"""A database that does not answer: one caller waits for it, the others are told at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.gateway.conversations.store import LazyStore, Retention, StoreAway, StoreError
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.conversations.store.postgres import PostgresStore
from waiting import NEVER

URL = "postgresql://dragoman:secret-pw@db/dragoman"


class Connection:
    async def fetchval(self, *_: Any, **__: Any) -> int:
        return 7

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield


class Pool:
    """Gives no connection until `answers` is set; `asked` counts who wanted one."""

    def __init__(self) -> None:
        self.answers, self.asked = asyncio.Event(), 0
        self.answers.set()

    @asynccontextmanager
    async def acquire(self, timeout: float) -> AsyncIterator[Connection]:
        self.asked += 1
        await self.answers.wait()
        yield Connection()

    async def close(self) -> None:
        pass


def test_one_caller_waits_and_the_others_are_told_at_once() -> None:
    async def run() -> None:
        pool = Pool()
        store = PostgresStore(URL, pool)
        assert await store.tokens("a", 1) == 7
        pool.answers.clear()
        store.suspect()
        assert store.is_away
        first = asyncio.create_task(store.tokens("a", 1))
        await asyncio.sleep(0)
        for _ in range(3):
            with pytest.raises(StoreAway, match="took too long") as told:
                await store.tokens("a", 1)
            assert "secret-pw" not in str(told.value)
        first.cancel()  # its client left; the probe goes on
        await asyncio.gather(first, return_exceptions=True)
        assert (pool.asked, store.is_away) == (2, True)
        pool.answers.set()
        while store.is_away:
            await asyncio.sleep(0)
        assert await store.tokens("a", 1) == 7
        await store.close()

    asyncio.run(run())


def test_a_request_that_waited_too_long_spares_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.conversations.store.lazy._QUICK", 0.01)

    async def run() -> None:
        pool = Pool()
        store = LazyStore(read_address(URL), Retention(), NEVER)
        monkeypatch.setattr(store, "_backend", PostgresStore(URL, pool))
        pool.answers.clear()
        for _ in range(2):  # the statement, then the probe
            with pytest.raises(StoreAway):
                await store.tokens("a", 1)
        assert store.is_away
        monkeypatch.setattr("dragoman.gateway.conversations.store.lazy._QUICK", NEVER)
        with pytest.raises(StoreAway):  # at once: the probe is still under way
            await store.recall("a", "b")
        pool.answers.set()
        while store.is_away:
            await asyncio.sleep(0)
        assert await store.tokens("a", 1) == 7

    asyncio.run(run())


def test_who_comes_while_it_is_opened_again_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = asyncio.Event()

    async def backend(address: object) -> Any:
        if opening.is_set():
            await asyncio.sleep(NEVER)
        raise StoreAway("nobody is there")

    monkeypatch.setattr("dragoman.gateway.conversations.store.lazy._backend", backend)

    async def run() -> None:
        store = LazyStore(read_address(URL), Retention(), NEVER)
        with pytest.raises(StoreError, match="nobody"):
            await store.check()
        assert store.is_away
        opening.set()
        waits = asyncio.create_task(store.check())
        await asyncio.sleep(0)
        with pytest.raises(StoreAway, match="nobody"):
            await store.check()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        await store.close()

    asyncio.run(run())
