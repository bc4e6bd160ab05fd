"""Call ids that carry state, for clients that cut them: Kimi Code keeps 64 characters of an id.

An id that is longer travels whole through every other client, so the gateway needs no memory of it. What a
process has sent lately is remembered all the same, by its first 64 characters, which are unique
(call_ids.wrap). Once a client has sent a cut id, those of its key are stored too, for workers and replicas.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from dragoman.core.seal import MAGIC, unseal
from dragoman.gateway.conversations.store import StoreError, within
from dragoman.gateway.large_bodies import run_for

T = TypeVar("T")

LENGTH = 64  # characters that such a client keeps
_MEMORY = 4 * 1024 * 1024  # bytes
_MOST_CLIENTS = 1000
_MOST_IDS = 2000  # of a request
_TIMEOUT = 2.0  # seconds; the request is worth more than the state
_ID = re.compile(rb'"([\x21\x23-\x5b\x5d-\x7e]{0,16}%bM[A-Za-z0-9_-]+)"' % MAGIC.encode())


class CallIdStore(Protocol):
    """The part of a store that this needs."""

    async def remember(self, owner: str, digest: str, handle: bytes) -> None: ...

    async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]: ...


class CutIds:
    """`report` is called when the store fails."""

    def __init__(self, store: CallIdStore, report: Callable[[StoreError], object]) -> None:
        self._store, self._report = store, report
        self._sent: dict[tuple[str, str], str] = {}  # client and beginning -> the whole id, oldest first
        self._size = 0
        self._cutting: dict[str, None] = {}  # clients that have sent a cut id

    async def remember(self, client: str, ids: Iterable[str]) -> None:
        for id in ids:
            if len(id) <= LENGTH:
                continue
            self._keep(client, id)
            if client in self._cutting:
                await self._limit(self._store.remember(client, _digest(id[:LENGTH]), id.encode()))

    async def restore(self, client: str, body: bytes) -> bytes:
        """`body` with the ids that its client has cut, as far as they are known."""
        found = await run_for(len(body), _cut_ids, body)
        if not found:
            return body
        whole = await self._whole(client, found)
        return await run_for(len(body), _with_ids, body, whole) if whole else body

    async def _whole(self, client: str, cut: list[str]) -> dict[str, str]:
        """The whole ids by the cut ones, those that are stored by few queries."""
        self._cutting.setdefault(client)
        if len(self._cutting) > _MOST_CLIENTS:
            del self._cutting[next(iter(self._cutting))]
        known = {id: whole for id in cut if (whole := self._sent.get((client, id)))}
        if unknown := [_digest(id) for id in cut if id not in known]:
            stored = await self._limit(self._store.recall_many(client, unknown)) or {}
            known |= {id: stored[digest].decode() for id in cut if (digest := _digest(id)) in stored}
        return known

    def _keep(self, client: str, id: str) -> None:
        key = client, id[:LENGTH]
        self._size += len(id) - len(self._sent.pop(key, ""))
        self._sent[key] = id
        while self._size > _MEMORY:
            self._size -= len(self._sent.pop(next(iter(self._sent))))

    async def _limit(self, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await within(_TIMEOUT, work)
        except StoreError as error:
            self._report(error)
            return None


def _cut_ids(body: bytes) -> list[str]:
    """The last `_MOST_IDS` of them: older calls matter less."""
    found = dict.fromkeys(id for id in _ID.findall(body) if len(id) == LENGTH)
    return [id.decode() for id in list(found)[-_MOST_IDS:] if _is_cut(id.decode())]


def _with_ids(body: bytes, whole: dict[str, str]) -> bytes:
    return _ID.sub(lambda found: b'"%b"' % whole.get(found[1].decode(), found[1].decode()).encode(), body)


def _is_cut(id: str) -> bool:
    return unseal(id[id.index(MAGIC) :]) is None


def _digest(beginning: str) -> str:
    return hashlib.sha256(f"call id\n{beginning}".encode()).hexdigest()
