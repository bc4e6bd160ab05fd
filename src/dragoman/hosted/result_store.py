"""Where results wait for a later request: in a store that workers share, or in this process.

Its functions raise StoreUnusable, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from dragoman.core.errors import DragomanError

_MOST_BYTES = 4 * 1024 * 1024
_MOST_CLAIMS = 65536


class StoreUnusable(DragomanError):
    """The store cannot be reached, or is full."""


class ResultStore(Protocol):
    async def claim(self, owner: str, digest: str) -> bool:
        """Whether nobody has claimed or remembered it before."""
        ...

    async def remember(self, owner: str, digest: str, handle: bytes) -> None: ...

    async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]: ...


def digest_of(kind: str, id: str) -> str:
    return hashlib.sha256(f"hosted {kind}\n{id}".encode("utf-8", "surrogatepass")).hexdigest()


class ResultsInMemory:
    """Of one process. The oldest are forgotten, claims last: results of others must not make a call run
    again."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], None] = {}
        self._kept: dict[tuple[str, str], bytes] = {}
        self._size = 0

    async def claim(self, owner: str, digest: str) -> bool:
        if (owner, digest) in self._claims:
            return False
        self._claims[owner, digest] = None
        if len(self._claims) > _MOST_CLAIMS:
            del self._claims[next(iter(self._claims))]
        return True

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        self._size += len(handle) - len(self._kept.pop((owner, digest), b""))
        self._kept[owner, digest] = handle
        while self._size > _MOST_BYTES and len(self._kept) > 1:
            self._size -= len(self._kept.pop(next(iter(self._kept))))

    async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]:
        return {digest: kept for digest in digests if (kept := self._kept.get((owner, digest)))}
