"""What a store keeps, on each database: turns, chains, items, handles, and what retention takes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.core.errors import ConfigError
from dragoman.core.optional import MissingExtraError
from dragoman.gateway.conversations.store import (
    ChainTooLarge,
    LazyStore,
    Retention,
    StoredTurn,
    StoreError,
    lazy,
    open_store,
    sql,
)
from dragoman.gateway.conversations.store.addresses import StoreAddress
from dragoman.gateway.conversations.store.lazy import _backend
from dragoman.gateway.conversations.store.sqlite import SqliteStore
from dragoman.gateway.conversations.store.values import Backend
from gateway.conversations.databases import Database, PostgresDatabase, SqliteDatabase
from waiting import LONG

NUL_AND_MORE = ("", "a\0b", "a b", "é", "\ud800", "x" * 300)


def turn(id: str, previous: str | None = None, owner: str = "me", size: int = 10, **more: Any) -> StoredTurn:
    return StoredTurn(
        id, owner, "p", previous, b"[%d]" % size + b" " * size, b'{"said":"\xc3\xa9\\u0000"}', **more
    )


def doing(
    url: str, act: Callable[[LazyStore], Awaitable[object]], retention: Retention | None = None
) -> object:
    """`act` with a store that is closed again."""

    async def run() -> object:
        store = open_store(url, retention)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


def test_a_turn_comes_back_as_it_went_in_and_only_to_its_owner(database: Database):
    kept = turn("a", settings=b'{"tools":[]}')

    async def act(store: LazyStore) -> None:
        assert await store.get("me", "a") is None
        await store.put(kept)
        assert await store.get("me", "a") == kept
        assert await store.get("you", "a") is None
        assert await store.chain("you", "a") == []
        assert not await store.delete("you", "a")
        await store.put(turn("a", owner="you", size=99))  # their ids may be the same
        assert await store.get("me", "a") == kept

    doing(database.url, act)
    assert doing(database.url, lambda store: store.get("me", "a")) == kept  # opened again


def test_a_chain_is_oldest_first_and_may_fork(database: Database):
    async def act(store: LazyStore) -> None:
        for each in (turn("a"), turn("b", "a"), turn("c", "b"), turn("fork", "a"), turn("end", "fork")):
            await store.put(each)
        assert [each.id for each in await store.chain("me", "c")] == ["a", "b", "c"]
        assert [each.id for each in await store.chain("me", "end")] == ["a", "fork", "end"]
        assert await store.chain("me", "nobody") == []

    doing(database.url, act)


def test_a_chain_with_a_hole_is_none(database: Database):
    async def act(store: LazyStore) -> None:
        for each in (turn("a"), turn("b", "a"), turn("c", "b")):
            await store.put(each)
        assert await store.delete("me", "b")
        assert not await store.delete("me", "b")
        assert await store.chain("me", "c") == []
        assert [each.id for each in await store.chain("me", "a")] == ["a"]

    doing(database.url, act)


def test_deleting_the_last_turn_leaves_nothing(database: Database):
    async def act(store: LazyStore) -> None:
        await store.put(turn("a", names=("i", "j")))
        await store.delete("me", "a")

    doing(database.url, act)
    for table in ("conversations", "turns", "items"):
        assert database.rows(f"select count(*) from dragoman_{table}") == [(0,)]


def test_items_are_found_by_name(database: Database):
    async def act(store: LazyStore) -> None:
        await store.put(turn("a", names=("rs_1", "msg_1")))
        await store.put(turn("b", "a", names=("msg_2",)))
        found = [await store.find("me", name) for name in ("rs_1", "msg_2", "msg_3")]
        assert [each and each.id for each in found] == ["a", "b", None]
        assert await store.find("you", "rs_1") is None

    doing(database.url, act)


def test_handles_are_found_by_their_digest(database: Database):
    async def act(store: LazyStore) -> None:
        await store.remember("me", "d", b"1")
        await store.remember("me", "d", b"2")
        assert await store.recall("me", "d") == b"2"
        assert await store.recall("you", "d") is None

    doing(database.url, act)


@pytest.mark.parametrize("id", NUL_AND_MORE)
def test_what_is_no_id_was_never_stored(database: Database, id: str):
    async def act(store: LazyStore) -> None:
        assert await store.get("me", id) is None
        assert await store.chain("me", id) == []
        assert not await store.delete("me", id)

    doing(database.url, act)


def test_what_is_used_stays_whole_and_what_is_idle_goes(database: Database):
    """The first turn of the living conversation is older than all of the idle one."""

    async def act(store: LazyStore) -> None:
        await store.put(turn("living"))
        await store.put(turn("goes-on", "living"))
        await store.put(turn("idle"))
        await store.put(turn("idle-too", "idle", names=("item",)))
        await store.remember("me", "old", b"1")
        await store.remember("me", "used", b"1")
        database.rows("update dragoman_conversations set used = used - 1000")
        database.rows("update dragoman_handles set used = used - 1000")
        assert len(await store.chain("me", "goes-on")) == 2
        assert await store.recall("me", "used")
        backend = await store._wait_open()  # nothing outside the store asks for a sweep
        await store._touch(backend)
        await backend.sweep(Retention(seconds=500))
        assert [each.id for each in await store.chain("me", "goes-on")] == ["living", "goes-on"]
        assert await store.get("me", "idle") is None
        assert await store.find("me", "item") is None
        assert (await store.recall("me", "old"), await store.recall("me", "used")) == (None, b"1")

    doing(database.url, act)


def test_over_the_size_the_least_recently_used_go_first(database: Database):
    async def act(store: LazyStore) -> None:
        for name in "abcd":
            await store.put(turn(name, size=1000))
            await store.put(turn(f"{name}2", name, size=1000))
        await store.chain("me", "a2")
        backend = await store._wait_open()
        await store._touch(backend)
        await backend.sweep(Retention(bytes=5000))
        assert [len(await store.chain("me", f"{name}2")) for name in "abcd"] == [2, 0, 0, 2]

    doing(database.url, act)


def test_a_store_that_opens_slowly_is_opened_though_nobody_waits(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    opened, may_open = list[str](), asyncio.Event()

    async def slowly(address: StoreAddress) -> Backend:
        opened.append(address.url)
        await may_open.wait()
        return await _backend(address)

    async def act(store: LazyStore) -> None:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await store.get("me", "a")
        may_open.set()
        assert await asyncio.gather(store.get("me", "a"), store.get("me", "b")) == [None, None]
        assert len(opened) == 1

    monkeypatch.setattr(lazy, "_backend", slowly)
    doing(database.url, act)


def test_a_store_that_failed_to_open_is_opened_anew(database: Database, monkeypatch: pytest.MonkeyPatch):
    async def failing(address: StoreAddress) -> Backend:
        raise StoreError("it is down")

    async def act(store: LazyStore) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(lazy, "_backend", failing)
            for _ in range(2):
                with pytest.raises(StoreError, match="it is down"):
                    await store.get("me", "a")
        assert await store.get("me", "a") is None

    doing(database.url, act)


def test_a_store_sweeps_by_itself(database: Database):
    async def act(store: LazyStore) -> None:
        store._every = 0.1
        await store.put(turn("a", size=5000))
        for _ in range(int(LONG / 0.02)):
            await asyncio.sleep(0.02)
            if not database.rows("select 1 from dragoman_turns"):
                return
        raise AssertionError("it is still there")

    doing(database.url, act, Retention(seconds=0.01))


def test_the_size_is_enforced_soon_after_it_is_exceeded(database: Database):
    async def act(store: LazyStore) -> None:
        for number in range(30):
            await store.put(turn(f"{number}", size=5000))
        for _ in range(int(LONG / 0.02)):
            await asyncio.sleep(0.02)
            if database.rows("select count(*) from dragoman_turns")[0][0] <= 4:
                return
        raise AssertionError("it is larger than it may be")

    doing(database.url, act, Retention(bytes=22_000))


def test_a_turn_larger_than_the_store_is_refused(database: Database):
    async def act(store: LazyStore) -> None:
        with pytest.raises(StoreError, match="larger than the whole store"):
            await store.put(turn("a", size=5000))

    doing(database.url, act, Retention(bytes=1000))


def test_a_chain_beyond_the_limit_is_not_read(database: Database):
    async def act(store: LazyStore) -> None:
        for number in range(4):
            await store.put(turn(f"{number}", f"{number - 1}" if number else None, size=1000))
        assert len(await store.chain("me", "3", 5000)) == 4
        assert await store.chain("me", "none", 10) == []
        with pytest.raises(ChainTooLarge, match="more than the 3000"):
            await store.chain("me", "3", 3000)

    doing(database.url, act)


def test_a_full_disk_can_be_read_and_emptied(tmp_path: Path):
    async def act(store: LazyStore) -> None:
        await store.put(turn("a", size=200_000))
        backend = await store._wait_open()
        assert isinstance(backend, SqliteStore)
        await backend._do(lambda file: file.execute("pragma max_page_count = 1"))  # so many as there are
        with pytest.raises(StoreError, match="full"):
            await store.put(turn("b", size=200_000))
        assert await store.get("me", "a")
        assert len(await store.chain("me", "a")) == 1
        assert await store.delete("me", "a")
        await store.put(turn("b", size=100_000))

    doing(f"sqlite:///{tmp_path}/store.db", act)


def test_a_sweep_lets_others_write_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    transactions = 0
    run_batch = SqliteStore._run_batch

    def counted(self: SqliteStore, batch: list[Any]) -> None:
        nonlocal transactions
        transactions += 1
        run_batch(self, batch)

    monkeypatch.setattr(SqliteStore, "_run_batch", counted)

    async def act(store: LazyStore) -> None:
        for number in range(40):
            await store.put(turn(f"{number}", size=100_000))
        before = transactions
        await (await store._wait_open()).sweep(Retention(bytes=0))
        assert transactions > before + 40

    doing(f"sqlite:///{tmp_path}/store.db", act)


def test_many_write_at_once(database: Database):
    async def act(store: LazyStore) -> None:
        async def converse(name: str) -> None:
            for number in range(5):
                await store.put(turn(f"{name}.{number}", f"{name}.{number - 1}" if number else None))

        await asyncio.gather(*(converse(f"c{number}") for number in range(40)))
        chains = await asyncio.gather(*(store.chain("me", f"c{number}.4") for number in range(40)))
        assert {len(chain) for chain in chains} == {5}

    doing(database.url, act)


_WRITER = """
import asyncio, sys
from dragoman.gateway.conversations.store import StoredTurn, open_store
async def main(url, name):
    store = open_store(url)
    await store.put(StoredTurn(f"{name}.0", "me", "p", None, b"[]", b"{}"))
    async def one(number):
        await store.put(StoredTurn(f"{name}.{number}", "me", "p", f"{name}.0", b"[]", b"{}"))
        assert len(await store.chain("me", f"{name}.{number}")) == 2
    await asyncio.gather(*(one(number) for number in range(1, 101)))
    await store.close()
asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_write_at_once_and_make_the_tables_at_once(database: Database):
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, database.url, name], stderr=subprocess.PIPE)
        for name in ("one", "two", "three")
    ]
    for writer in writers:
        _, problem = writer.communicate(timeout=60)
        assert writer.returncode == 0, problem.decode()
    assert database.rows("select count(*) from dragoman_turns") == [(303,)]
    assert database.rows("select count(*) from dragoman_schema") == [(len(sql.MIGRATIONS),)]


def test_nothing_is_made_before_the_first_use(tmp_path: Path):
    async def act(store: LazyStore) -> None:
        assert await store.get("me", "no id at all") is None

    doing(f"sqlite:///{tmp_path}/store.db", act)
    assert list(tmp_path.iterdir()) == []


def test_memory_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    async def act(store: LazyStore) -> None:
        await store.put(turn("a"))
        assert [each.id for each in await store.chain("me", "a")] == ["a"]

    doing("memory:", act)
    doing("sqlite:///:memory:", act)
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_of_the_process_reads_the_file(tmp_path: Path):
    doing(f"sqlite:///{tmp_path}/store.db", lambda store: store.put(turn("a")))
    assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


def test_space_is_given_back(tmp_path: Path):
    path = tmp_path / "store.db"

    async def act(store: LazyStore) -> None:
        for number in range(50):
            await store.put(turn(f"{number}", size=20_000))
        await (await store._wait_open()).sweep(Retention(bytes=50_000))

    doing(f"sqlite:///{path}", act)
    assert path.stat().st_size < 300_000


@contextmanager
def full(path: Path) -> Iterator[None]:
    """No page more for this file: whoever opens it now finds the disk full."""
    real = sqlite3.connect

    def connect(*arguments: object, **more: object) -> sqlite3.Connection:
        connection = real(*arguments, **more)  # type: ignore[arg-type] - as they came
        pages = connection.execute("pragma page_count").fetchone()[0]
        connection.execute(f"pragma max_page_count = {max(pages, 1) + 4}")
        return connection

    sqlite3.connect = connect  # type: ignore[assignment] - of the same shape
    try:
        yield
    finally:
        sqlite3.connect = real


def test_a_full_disk_fails_whom_it_concerns_and_nobody_else(tmp_path: Path):
    """Together in one batch: the large turn fails, the small ones are written, nothing is written by half."""
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"
    doing(url, lambda store: store.put(turn("before")))

    async def act(store: LazyStore) -> None:
        await store.get("me", "before")
        large = turn("large", "before", size=1_000_000, names=("of-large",))
        results = await asyncio.gather(
            store.put(large), store.put(turn("small")), store.chain("me", "before"), return_exceptions=True
        )
        assert isinstance(results[0], StoreError)
        assert "full" in str(results[0])
        assert results[1] is None
        assert [each.id for each in results[2]] == ["before"]  # type: ignore[union-attr] - a list
        assert await store.get("me", "large") is None
        assert await store.find("me", "of-large") is None

    with full(path):
        doing(url, act)
    assert [row[0] for row in SqliteDatabase(path).rows("select id from dragoman_turns order by id")] == [
        "before",
        "small",
    ]
    doing(url, lambda store: store.put(turn("large", size=1_000_000)))  # there is room again


def test_a_database_that_comes_back_is_used_again(postgresql: PostgresDatabase):
    async def act(store: LazyStore) -> None:
        await store.put(turn("a"))
        await asyncio.to_thread(
            postgresql.rows,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            f" where datname = '{postgresql.name}' and pid <> pg_backend_pid()",
        )
        await store.put(turn("b", "a"))
        assert len(await store.chain("me", "b")) == 2

    doing(postgresql.url, act)


def test_a_database_that_is_gone_is_an_error_without_its_password():
    with pytest.raises(StoreError) as caught:
        doing("postgresql://me:p%40ss-word@127.0.0.1:1/none", lambda store: store.get("me", "a"))
    assert "127.0.0.1" in str(caught.value)
    assert "p%40ss-word" not in str(caught.value)
    assert "p@ss-word" not in str(caught.value)


@pytest.mark.parametrize("url", ("mysql://me:pw-77@host/x", "sqlite://", "sqlite:x.db", "x.db", "memory"))
def test_a_url_that_names_no_store_is_refused(url: str):
    with pytest.raises(ConfigError, match="expected sqlite:///FILE") as caught:
        open_store(url)
    assert "pw-77" not in str(caught.value)


def test_without_asyncpg_its_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)  # its import fails
    with pytest.raises(MissingExtraError, match=r"pip install .*\[postgres\]"):
        open_store("postgresql://host/x")
