"""The store of conversations: SQLite by default, PostgreSQL where several gateways share it."""

from __future__ import annotations

from dragoman.gateway.conversations.store.lazy import LazyStore, open_store
from dragoman.gateway.conversations.store.values import (
    ChainTooLarge,
    Reserve,
    Retention,
    SqlStore,
    Statement,
    Store,
    StoreAway,
    StoredTurn,
    StoreError,
    within,
)

__all__ = [
    "ChainTooLarge",
    "LazyStore",
    "Reserve",
    "Retention",
    "SqlStore",
    "Statement",
    "Store",
    "StoreAway",
    "StoreError",
    "StoredTurn",
    "open_store",
    "within",
]
