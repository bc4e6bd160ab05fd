"""Conversations as lists of items in the store, and the lock that a request holds on one.

    unlocked  --`lock`----------------------->  locked by one request, for `_LEASE` seconds
    locked    --`lock` of another request---->  refused
    locked    --renewed while it runs-------->  locked
    locked    --`unlock`, or the lease ends-->  unlocked

The lease ends by itself, so that a gateway that was killed locks nothing for long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.gateway.conversations.store import ChainTooLarge, Reserve, SqlStore, Statement, StoreError
from dragoman.gateway.large_bodies import run_for
from dragoman.serving.conversations import ConversationCodec

_LEASE = 60.0  # seconds
_CREATE = """insert into dragoman_threads (owner, id, made, used, size, metadata, holder, held_until)
    values ($1, $2, $3, $3, $4, $5, '', 0) returning id"""
_GET = "select made, metadata, size from dragoman_threads where owner = $1 and id = $2"
_USE = "update dragoman_threads set used = $3, size = size + $4 where owner = $1 and id = $2 returning id"
_SET = "update dragoman_threads set used = $3, metadata = $4 where owner = $1 and id = $2 returning made"
_DELETE = "delete from dragoman_threads where owner = $1 and id = $2 returning id"
_ITEMS = "select item from dragoman_thread_items where owner = $1 and thread = $2 order by place"
_ITEM = "select item from dragoman_thread_items where owner = $1 and thread = $2 and id = $3"
_ADD = """insert into dragoman_thread_items (owner, thread, place, id, item) values ($1, $2, 1 + (
    select coalesce(max(place), 0) from dragoman_thread_items where owner = $1 and thread = $2), $3, $4)"""
_REMOVE = """delete from dragoman_thread_items where owner = $1 and thread = $2 and id = $3
    returning length(item)"""
_LOCK = """update dragoman_threads set holder = $3, held_until = $4
    where owner = $1 and id = $2 and (holder = $3 or held_until < $5) returning id"""
_UNLOCK = """update dragoman_threads set held_until = 0, holder = ''
    where owner = $1 and id = $2 and holder = $3"""


class StoredConversation(Struct, frozen=True):
    id: str
    made: int
    metadata: Wire


class ConversationTable:
    """`limit`: most bytes of the items of one conversation."""

    def __init__(self, store: SqlStore, limit: int) -> None:
        self._store, self._limit = store, limit

    async def create(self, owner: str, id: str, metadata: Wire, items: Sequence[Wire]) -> StoredConversation:
        now, rows = time.time(), _encode(items)
        size = sum(len(data) for _, data in rows)
        create = Statement(_CREATE, (owner, id, now, size, jsontext.encode(metadata)))
        await self._store.transaction(create, *_adding(owner, id, rows))
        return StoredConversation(id, int(now), metadata)

    async def get(self, owner: str, id: str) -> StoredConversation | None:
        found = await self._rows(_GET, owner, id)
        return StoredConversation(id, int(found[0][0]), jsontext.decode(found[0][1])) if found else None

    async def update(self, owner: str, id: str, metadata: Wire) -> StoredConversation | None:
        found = await self._rows(_SET, owner, id, time.time(), jsontext.encode(metadata))
        return StoredConversation(id, int(found[0][0]), metadata) if found else None

    async def delete(self, owner: str, id: str) -> bool:
        return bool(await self._rows(_DELETE, owner, id))

    async def items(self, owner: str, id: str, reserve: Reserve) -> list[Wire] | None:
        """Oldest first; None where there is no such conversation. Raises ChainTooLarge. Before
        they are read, `reserve` gets their size in bytes."""
        found = await self._rows(_GET, owner, id)
        if not found:
            return None
        if found[0][2] > self._limit:
            raise ChainTooLarge(found[0][2], self._limit)
        reserve(found[0][2])
        rows = await self._rows(_ITEMS, owner, id)
        return await run_for(found[0][2], lambda: [jsontext.decode(row[0]) for row in rows])

    async def item(self, owner: str, id: str, name: str) -> Wire | None:
        found = await self._rows(_ITEM, owner, id, name)
        return jsontext.decode(found[0][0]) if found else None

    async def add(self, owner: str, id: str, items: Sequence[Wire]) -> bool:
        """At the end; False where there is no such conversation."""
        rows = _encode(items)
        use = Statement(_USE, (owner, id, time.time(), sum(len(data) for _, data in rows)), required=True)
        return await self._store.transaction(use, *_adding(owner, id, rows)) is not None

    async def remove(self, owner: str, id: str, name: str) -> bool:
        found = await self._rows(_REMOVE, owner, id, name)
        for (size,) in found:
            await self._rows(_USE, owner, id, time.time(), -size)
        return bool(found)

    async def lock(self, owner: str, id: str, holder: str) -> bool:
        now = time.time()
        return bool(await self._rows(_LOCK, owner, id, holder, now + _LEASE, now))

    async def unlock(self, owner: str, id: str, holder: str) -> None:
        await self._store.transaction(Statement(_UNLOCK, (owner, id, holder)))

    async def _rows(self, sql: str, *values: object) -> list[Any]:
        results = await self._store.transaction(Statement(sql, values))
        return results[0] if results else []


class LockedConversation:
    """A conversation as one request has it: its items, and where the new ones go.

    `holder` is the request that has locked it; empty: it only reads. `report` is called when the store fails.
    """

    def __init__(
        self,
        table: ConversationTable,
        codec: ConversationCodec,
        owner: str,
        id: str,
        holder: str,
        report: Callable[[StoreError], object],
    ) -> None:
        self._table, self._codec, self._owner, self._holder = table, codec, owner, holder
        self._report = report
        self.id, self.items = id, list[Wire]()
        self._renewing = asyncio.create_task(self._renew()) if holder else None

    @property
    def is_locked(self) -> bool:
        return bool(self._holder)

    def label(self, reply: Wire) -> Wire:
        return self._codec.label(reply, self.id)

    async def add(self, items: Sequence[Wire], reply: Wire) -> None:
        """What was new in the request, and its reply. Raises StoreError where it was deleted meanwhile."""
        new = self._codec.with_ids([*items, *self._codec.items_of_reply(reply)])
        if not await self._table.add(self._owner, self.id, new):
            raise StoreError("the conversation was deleted while a response was added to it")
        await self.unlock()

    async def unlock(self) -> None:
        if self._renewing and self._renewing.cancel():
            self._renewing = None
            await self._table.unlock(self._owner, self.id, self._holder)

    async def release(self) -> None:
        """The request was answered, well or not."""
        try:
            await self.unlock()
        except StoreError as error:  # its lease ends soon
            self._report(error)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_LEASE / 3)
            try:
                await self._table.lock(self._owner, self.id, self._holder)
            except StoreError as error:  # the next renewal may come in time
                self._report(error)


def _encode(items: Sequence[Wire]) -> list[tuple[str, bytes]]:
    return [(item["id"], jsontext.encode(item)) for item in items]


def _adding(owner: str, id: str, rows: Sequence[tuple[str, bytes]]) -> list[Statement]:
    return [Statement(_ADD, (owner, id, name, data)) for name, data in rows]
