"""What is asked of a database, once for both: `$1` is the first value."""

from __future__ import annotations

import time

from dragoman.gateway.conversations.store.values import Retention, StoredTurn

Row = tuple[str, str, str, "str | None", bytes, bytes, bytes]
_COLUMNS = "turns.id, turns.owner, turns.protocol, turns.previous, turns.items, turns.reply, turns.settings"

ROOT = "select root from dragoman_turns where owner = $1 and id = $2"
CONVERSATION = """insert into dragoman_conversations (owner, root, used, size) values ($1, $2, $3, $4)
    on conflict (owner, root) do update
    set used = excluded.used, size = dragoman_conversations.size + excluded.size"""
# An id is made once: where it is there already, an earlier try was written and its answer got lost.
TURN = """insert into dragoman_turns (owner, id, root, previous, protocol, made, items, reply, settings)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (owner, id) do nothing"""
ITEM = """insert into dragoman_items (owner, name, turn) values ($1, $2, $3)
    on conflict (owner, name) do update set turn = excluded.turn"""

GET = f"select {_COLUMNS} from dragoman_turns turns where owner = $1 and id = $2"
CHAIN = f"""with recursive chain (id, previous, depth) as (
        select id, previous, 0 from dragoman_turns where owner = $1 and id = $2
        union all
        select before.id, before.previous, chain.depth + 1
        from dragoman_turns before join chain on before.id = chain.previous where before.owner = $1)
    select {_COLUMNS} from chain join dragoman_turns turns on turns.owner = $1 and turns.id = chain.id
    order by chain.depth desc"""
FIND = f"""select {_COLUMNS} from dragoman_items items
    join dragoman_turns turns on turns.owner = items.owner and turns.id = items.turn
    where items.owner = $1 and items.name = $2"""
TOUCH = f"update dragoman_conversations set used = $3 where owner = $1 and root = ({ROOT})"

DELETE = """delete from dragoman_turns where owner = $1 and id = $2
    returning root, length(items) + length(reply) + length(settings)"""
SHRINK = "update dragoman_conversations set size = size - $3 where owner = $1 and root = $2"
FORGET = """delete from dragoman_conversations where owner = $1 and root = $2
    and not exists (select 1 from dragoman_turns where owner = $1 and root = $2)"""

REMEMBER = """insert into dragoman_handles (owner, digest, handle, used) values ($1, $2, $3, $4)
    on conflict (owner, digest) do update set handle = excluded.handle, used = excluded.used"""
RECALL = "update dragoman_handles set used = $3 where owner = $1 and digest = $2 returning handle"

_OLD = "delete from {table} where used < $1"
# Counted from what was used last: whatever does not fit behind it goes.
_TOO_MUCH = """delete from {table} where (owner, {key}) in (select owner, {key} from (
        select owner, {key}, sum({size}) over (order by used desc, owner, {key}) as total from {table}) ranked
    where total > $1)"""
_KEPT = (
    {"table": "dragoman_conversations", "key": "root", "size": "size"},
    {"table": "dragoman_handles", "key": "digest", "size": "length(digest) + length(handle)"},
)


def sweeps(retention: Retention) -> list[tuple[str, float | int]]:
    """The statements of a sweep, each with its value."""
    old = [(_OLD.format(**kept), time.time() - retention.seconds) for kept in _KEPT]
    return [*old, *((_TOO_MUCH.format(**kept), retention.bytes) for kept in _KEPT)]


def writes(turn: StoredTurn, root: str) -> list[tuple[str, tuple[object, ...]]]:
    """The statements that write `turn` into the conversation that `root` began."""
    now, size = time.time(), len(turn.items) + len(turn.reply) + len(turn.settings)
    row = (
        turn.owner, turn.id, root, turn.previous, turn.protocol, now, turn.items, turn.reply, turn.settings
    )  # fmt: skip
    items = [(ITEM, (turn.owner, name, turn.id)) for name in turn.names]
    return [(CONVERSATION, (turn.owner, root, now, size)), (TURN, row), *items]


def read_turn(row: Row) -> StoredTurn:
    """`names` only serve finding it; nobody reads them back."""
    return StoredTurn(*row)


def unbroken(turns: list[StoredTurn]) -> list[StoredTurn]:
    """A chain that does not reach its beginning is none."""
    return turns if turns and turns[0].previous is None else []
