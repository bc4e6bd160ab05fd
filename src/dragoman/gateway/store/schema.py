"""The tables, as numbered steps: opening a database takes those that it has not taken yet.

A step that was released is never changed; what is new becomes the next one. The same steps serve both
databases, whose types alone have different names.
"""

from __future__ import annotations

from dragoman.gateway.store.values import StoreError

SQLITE = {"bytes": "blob", "seconds": "real", "count": "integer"}
POSTGRES = {"bytes": "bytea", "seconds": "double precision", "count": "bigint"}

# Retention goes by conversation, so that none is ever cut in two: what is used last counts for all its turns.
_TURNS = (
    """create table dragoman_conversations (
        owner text not null, root text not null, used {seconds} not null, size {count} not null,
        primary key (owner, root))""",
    """create table dragoman_turns (
        owner text not null, id text not null, root text not null, previous text, protocol text not null,
        made {seconds} not null, items {bytes} not null, reply {bytes} not null, settings {bytes} not null,
        primary key (owner, id),
        foreign key (owner, root) references dragoman_conversations (owner, root) on delete cascade)""",
    "create index dragoman_turns_of_root on dragoman_turns (owner, root)",
    """create table dragoman_items (
        owner text not null, name text not null, turn text not null,
        primary key (owner, name),
        foreign key (owner, turn) references dragoman_turns (owner, id) on delete cascade)""",
    "create index dragoman_items_of_turn on dragoman_items (owner, turn)",
)
_HANDLES = (
    """create table dragoman_handles (
        owner text not null, digest text not null, handle {bytes} not null, used {seconds} not null,
        primary key (owner, digest))""",
)
STEPS = (_TURNS, _HANDLES)

VERSIONS = "create table if not exists dragoman_schema (version {count} primary key)"
VERSION = "select coalesce(max(version), 0) from dragoman_schema"
TAKEN = "insert into dragoman_schema (version) values ($1)"


def due(version: int, types: dict[str, str]) -> list[tuple[int, list[str]]]:
    """The steps that a database at `version` has not taken, with their numbers."""
    if version > len(STEPS):
        raise StoreError(
            f"the store was made by a newer dragoman (version {version}; this one knows {len(STEPS)}): "
            "upgrade it, or name another store"
        )
    steps = [[statement.format(**types) for statement in step] for step in STEPS]
    return list(enumerate(steps, 1))[version:]
