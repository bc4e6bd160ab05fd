"""Results of hosted tools in the store, for clients that do not bring them back, and for other workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from dragoman.gateway.conversations.store import LazyStore, Statement, StoreError, within
from dragoman.gateway.conversations.store.sql import CLAIM
from dragoman.hosted.result_store import StoreUnusable

T = TypeVar("T")

_TIMEOUT = 2.0  # seconds; the request goes on without


class StoredResults:
    """`report` is called when the store fails."""

    def __init__(self, store: LazyStore, report: Callable[[StoreError], object]) -> None:
        self._store, self._report = store, report

    async def claim(self, owner: str, digest: str) -> bool:
        statement = Statement(CLAIM, (_name(owner), digest, b"", time.time()))
        rows = await self._limit(self._store.transaction(statement))
        return bool(rows and rows[0])

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await self._limit(self._store.remember(_name(owner), digest, handle))

    async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]:
        return await self._limit(self._store.recall_many(_name(owner), digests))

    async def _limit(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await within(_TIMEOUT, work)
        except StoreError as error:
            self._report(error)
            raise StoreUnusable(str(error)) from None


def _name(owner: str) -> str:
    return f"hosted {owner}"
