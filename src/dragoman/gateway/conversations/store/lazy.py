"""A store that is opened on first use and swept from time to time."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from dragoman.core.optional import require
from dragoman.gateway.conversations.store import sql
from dragoman.gateway.conversations.store.addresses import StoreAddress, default_url, read_address
from dragoman.gateway.conversations.store.values import (
    Backend,
    Reserve,
    Retention,
    Statement,
    StoreAway,
    StoredTurn,
    StoreError,
)

T = TypeVar("T")

_SLACK = 0.05  # of the size limit may be written before a sweep is due
_TOUCH_EVERY = 60.0  # seconds between two writes of what was read
_EVERY = 3600.0  # seconds between sweeps, on average
_QUICK = 1.5  # seconds
_AT_A_TIME = 500  # handles that one statement asks for
_ID = re.compile(r"[!-~]{1,256}")  # other ids were never stored


class LazyStore:
    """Creates no file and no connection before its first use. `on_error` is called when a sweep fails."""

    def __init__(self, address: StoreAddress, retention: Retention, every: float = _EVERY) -> None:
        self._address, self._retention, self._every = address, retention, every
        self._opening: asyncio.Task[Backend] | None = None
        self._backend: Backend | None = None
        self._unopened: StoreError | None = None  # why it could not be opened the last time
        self._used_once = False
        self._sweeping: asyncio.Task[None] | None = None
        self._used: dict[tuple[str, str], None] = {}  # turns that were read since the last touch
        self._written = 0  # bytes since the last sweep
        self._full = asyncio.Event()  # so many that a sweep is due
        self.on_error: Callable[[StoreError], object] = lambda error: None

    @property
    def opened(self) -> bool:
        """Whether it should work: it was used, or is a database that others share."""
        return self._used_once or not self._address.path

    @property
    def is_shared(self) -> bool:
        """Whether it is a database server, which other gateways use too."""
        return not self._address.path

    @property
    def is_away(self) -> bool:
        """Whether its server could not be reached the last time."""
        return self._backend.is_away if self._backend else self.is_shared and self._unopened is not None

    async def check(self) -> None:
        """Raises StoreError where it cannot be read."""
        await self.get("", "readyz")

    @property
    def exists(self) -> bool:
        """Whether an earlier process may have left something in it."""
        return not self._address.path or Path(self._address.path).exists()

    async def put(self, turn: StoredTurn) -> None:
        if turn.size > self._retention.bytes:
            raise StoreError(f"a turn of {turn.size} bytes is larger than the whole store may be")
        await (await self._wait_open()).put(turn)
        self._written += turn.size
        if self._written > self._retention.bytes * _SLACK:
            self._full.set()

    async def get(self, owner: str, id: str) -> StoredTurn | None:
        turn = await (await self._wait_open()).get(owner, id) if _ID.fullmatch(id) else None
        return self._note_use(turn)

    async def chain(
        self, owner: str, id: str, limit: int = sys.maxsize, reserve: Reserve = bool
    ) -> list[StoredTurn]:
        turns = await (await self._wait_open()).chain(owner, id, limit, reserve) if _ID.fullmatch(id) else []
        self._note_use(turns[-1] if turns else None)
        return turns

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        turn = await (await self._wait_open()).find(owner, name) if _ID.fullmatch(name) else None
        return self._note_use(turn)

    def _note_use(self, turn: StoredTurn | None) -> StoredTurn | None:
        """Retention counts from the last use; it is written later, together with others."""
        if turn:
            self._used[turn.owner, turn.id] = None
        return turn

    async def delete(self, owner: str, id: str) -> bool:
        return await (await self._wait_open()).delete(owner, id) if _ID.fullmatch(id) else False

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await (await self._wait_open()).remember(owner, digest, handle)

    async def recall(self, owner: str, digest: str) -> bytes | None:
        return await self._quickly(lambda store: store.recall(owner, digest))

    async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]:
        """Those that are stored, by their digests."""
        found: dict[str, bytes] = {}
        for start in range(0, len(digests), _AT_A_TIME):
            asked = digests[start : start + _AT_A_TIME]
            rows = await self.transaction(
                Statement(sql.recall_many(len(asked)), (owner, time.time(), *asked))
            )
            found |= {digest: bytes(handle) for digest, handle in (rows or [[]])[0]}
        return found

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
        await (await self._wait_open()).add_tokens(caller, day, tokens)

    async def tokens(self, caller: str, day: int) -> int:
        return await self._quickly(lambda store: store.tokens(caller, day))

    async def _quickly(self, read: Callable[[Backend], Awaitable[T]]) -> T:
        """For what each request asks before it goes on. A server that is slower than that is taken for one
        that is away, until it answers again."""
        try:
            async with asyncio.timeout(_QUICK):
                return await read(await self._wait_open())
        except TimeoutError:
            if self._backend:
                self._backend.suspect()
            raise StoreAway("the store took too long") from None

    async def transaction(self, *statements: Statement) -> list[list[Any]] | None:
        return await (await self._wait_open()).transaction(*statements)

    async def write_many(
        self, sql: str, rows: Sequence[tuple[object, ...]], first: Statement | None = None
    ) -> bool:
        return await (await self._wait_open()).write_many(sql, rows, first)

    async def close(self) -> None:
        for task in (self._opening, self._sweeping):
            if task:
                task.cancel()
        if self._backend:
            await self._touch(self._backend)
            await self._backend.close()
        self._backend = self._sweeping = None

    async def _wait_open(self) -> Backend:
        if self._backend:
            return self._backend
        self._used_once = True
        if self._opening and self._unopened:
            raise type(self._unopened)(str(self._unopened))  # who comes during the next attempt need not wait
        if not self._opening:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._end_opening)
        # Concurrent callers wait for the same task, and it goes on when they give up: else a database
        # that takes longer to open than each of them waits would never be open.
        return await asyncio.shield(self._opening)

    async def _open(self) -> Backend:
        try:
            self._backend = await _backend(self._address)
        except StoreError as error:
            self._unopened = error
            raise
        self._sweeping = asyncio.create_task(self._sweep(self._backend))
        return self._backend

    def _end_opening(self, opening: asyncio.Task[Backend]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieved, as nobody may wait for it any more

    async def _sweep(self, store: Backend) -> None:
        """Soon after the first use, then at random intervals, since gateways may start together."""
        due = time.monotonic() + self._every * random.uniform(0.01, 0.02)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(due - time.monotonic(), 0.001), _TOUCH_EVERY)):
                    await self._full.wait()
            await self._touch(store)
            if self._full.is_set() or time.monotonic() >= due:
                due = time.monotonic() + self._every * random.uniform(0.5, 1.5)
                self._written = 0
                self._full.clear()
                try:
                    await store.sweep(self._retention)
                except StoreError as error:
                    self.on_error(error)

    async def _touch(self, store: Backend) -> None:
        if self._used:
            used, self._used = list(self._used), {}
            try:
                await store.touch(used)
            except StoreError as error:
                self.on_error(error)


def open_store(url: str = "", retention: Retention | None = None) -> LazyStore:
    """The store at `url`, or at the default one; nothing is opened yet. ConfigError: a wrong URL."""
    address = read_address(url or default_url(os.environ))
    if not address.path:
        require("postgres")
    return LazyStore(address, retention or Retention())


async def _backend(address: StoreAddress) -> Backend:
    if address.path:
        from dragoman.gateway.conversations.store.sqlite import SqliteStore

        if address.url == default_url(os.environ):
            _make_folder(Path(address.path).parent)
        return await asyncio.to_thread(SqliteStore, address.path)
    from dragoman.gateway.conversations.store.postgres import PostgresStore

    return await PostgresStore.open(address.url)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from None
