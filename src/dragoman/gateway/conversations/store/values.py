"""What a store keeps, and what it can do."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.core.errors import DragomanError


class StoreError(DragomanError):
    """The store cannot be read or written now; the reason names no secret."""


class StoredTurn(Struct, frozen=True):
    """One stored exchange of a conversation.

    `items` is a JSON array: what the client newly said in this turn, in its protocol. `reply` is a JSON
    object: the whole reply, as the client got it. `settings` is a JSON object: what later turns inherit.
    `names` are the ids of single items in it, by which a later request may refer to them.
    """

    id: str
    owner: str
    protocol: str
    previous: str | None
    items: bytes
    reply: bytes
    settings: bytes = b"{}"
    names: tuple[str, ...] = ()


class Store(Protocol):
    """`owner` is a hash of the client's key: nobody reads what another key stored."""

    async def put(self, turn: StoredTurn) -> None:
        """Durable when it returns."""
        ...

    async def get(self, owner: str, id: str) -> StoredTurn | None: ...

    async def chain(self, owner: str, id: str) -> list[StoredTurn]:
        """Oldest first, ending with `id`; empty where it is unknown, or something before it is gone."""
        ...

    async def find(self, owner: str, name: str) -> StoredTurn | None:
        """The turn that holds the item `name`."""
        ...

    async def delete(self, owner: str, id: str) -> bool: ...

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        """A handle of a conversation that somebody else keeps, found again by a hash."""
        ...

    async def recall(self, owner: str, digest: str) -> bytes | None: ...

    async def close(self) -> None: ...


class Retention(Struct, frozen=True):
    """What is not used for `seconds` goes; then what was used least recently, until `bytes` are left."""

    seconds: float = 30 * 24 * 3600.0
    bytes: int = 1024 * 1024 * 1024


class Backend(Store, Protocol):
    """A store that is open: what a database must do beside keeping."""

    async def sweep(self, retention: Retention) -> None:
        """Drop what is kept no longer."""
        ...
