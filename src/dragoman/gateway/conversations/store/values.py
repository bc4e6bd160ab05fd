"""What a store holds, and the interface of both databases."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from dragoman.core.errors import DragomanError

T = TypeVar("T")


class StoreError(DragomanError):
    """The store cannot be read or written now; the message holds no secret."""


class StoreAway(StoreError):
    """The database of the store cannot be reached now. A retry may help."""


async def within(seconds: float, work: Awaitable[T]) -> T:
    """For what a request can do without: StoreError where the store takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise StoreError("the store took too long") from None


class ChainTooLarge(DragomanError):
    """A conversation that is too large to be sent to an upstream."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the stored conversation has {size} bytes, more than the {limit} that are allowed")


Reserve = Callable[[int], object]


class StoredTurn(Struct, frozen=True):
    """One stored exchange of a conversation.

    `items` is a JSON array: what was new in the request, in the client's protocol. `reply` is a JSON object:
    the whole reply as the client got it. `settings` is a JSON object that later turns inherit. `names` are
    the ids of its items, by which later requests may refer to them.
    """

    id: str
    owner: str
    protocol: str
    previous: str | None
    items: bytes
    reply: bytes
    settings: bytes = b"{}"
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return len(self.items) + len(self.reply) + len(self.settings)


class Statement(Struct, frozen=True):
    """One of a transaction, with its values for `$1`, `$2`, … `required`: where it gives no row, the whole
    transaction is rolled back. `alone`: no other transaction with such a statement runs meanwhile."""

    sql: str
    values: tuple[object, ...] = ()
    required: bool = False
    alone: bool = False


class SqlStore(Protocol):
    """The part of a store that runs statements of other modules. `$1` is the first value."""

    async def transaction(self, *statements: Statement) -> list[list[Any]] | None:
        """The rows of each; None where a required one gave none, and nothing was written."""
        ...

    async def write_many(
        self, sql: str, rows: Sequence[tuple[object, ...]], first: Statement | None = None
    ) -> bool:
        """One statement for each of `rows`, in one transaction. False where `first` gave no row, and nothing
        was written."""
        ...


class Store(Protocol):
    """`owner` is a hash of the client's key: a key reads only what it stored."""

    async def put(self, turn: StoredTurn) -> None:
        """Durable when it returns."""
        ...

    async def get(self, owner: str, id: str) -> StoredTurn | None: ...

    async def chain(
        self, owner: str, id: str, limit: int = sys.maxsize, reserve: Reserve = bool
    ) -> list[StoredTurn]:
        """Oldest first, ending with `id`; empty where it, or a turn before it, is not stored.

        Before it is read, `reserve` gets its size in bytes. Raises ChainTooLarge where that is more than
        `limit`.
        """
        ...

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        """The turn that holds the item `name`."""
        ...

    async def delete(self, owner: str, id: str) -> bool: ...

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        """Store the handle of a conversation that an upstream keeps, under a hash."""
        ...

    async def recall(self, owner: str, digest: str) -> bytes | None: ...

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
        """Count what a key used; `day` is in days since the epoch."""
        ...

    async def tokens(self, caller: str, day: int) -> int: ...

    async def close(self) -> None: ...


class Retention(Struct, frozen=True):
    """Conversations unused for `seconds` are deleted, then the least recently used ones down to `bytes`."""

    seconds: float = 30 * 24 * 3600.0
    bytes: int = 1024 * 1024 * 1024


class Backend(Store, SqlStore, Protocol):
    """An open store. Reading writes nothing, so that it works on a full disk; `touch` records the use."""

    async def touch(self, used: Sequence[tuple[str, str]]) -> None:
        """The conversations of these turns, as (owner, id), were used now."""
        ...

    async def sweep(self, retention: Retention) -> None:
        """Delete what `retention` does not keep."""
        ...

    @property
    def is_away(self) -> bool:
        """Whether it could not be reached the last time."""
        ...

    def suspect(self) -> None:
        """A caller waited for it too long."""
        ...
