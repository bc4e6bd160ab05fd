"""The tables, as numbered steps: opening a database takes those that it has not taken yet.

A step that was released is never changed; what is new becomes the next one. The same steps serve both
databases, whose types alone have different names.
"""

from __future__ import annotations

from dragoman.gateway.conversations.store.values import StoreError

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
# Counters and rates of keys (gateway/admission/postgres_counters.py). Unlogged: a crash may lose them.
_LIMITS = (
    "create unlogged table dragoman_rates (caller text primary key, full_at double precision not null)",
    """create unlogged table dragoman_leases (
        lease text primary key, caller text not null, expires double precision not null)""",
    "create index dragoman_leases_of_caller on dragoman_leases (caller)",
    """create function dragoman_enter(
        who text, lease_ text, per_minute bigint, most bigint, seconds double precision, freed text[],
        out refused text, out wait double precision, out reset double precision)
    language plpgsql as $$
    declare
        now_ double precision;
        before double precision;
        after double precision;
    begin
        insert into dragoman_rates values (who, 0) on conflict (caller) do nothing;
        select full_at into before from dragoman_rates where caller = who for update;  -- one at a time
        now_ := extract(epoch from clock_timestamp());
        refused := ''; wait := 0; reset := 0;
        if most > 0 then
            delete from dragoman_leases where lease = any(freed) or (caller = who and expires < now_);
            if (select count(*) from dragoman_leases where caller = who and lease <> lease_) >= most then
                refused := 'concurrency';
                return;
            end if;
        end if;
        if per_minute > 0 then
            after := greatest(before, now_) + 60.0 / per_minute;
            wait := after - now_ - 60.0;
            if wait > 0.000001 then
                refused := 'rate'; reset := before - now_;
                return;
            end if;
            wait := 0; reset := after - now_;
            update dragoman_rates set full_at = after where caller = who;
        end if;
        if most > 0 then
            insert into dragoman_leases values (lease_, who, now_ + seconds) on conflict (lease) do nothing;
        end if;
    end $$""",
)
STEPS = (_TURNS, _HANDLES, _LIMITS)
_SHARED = (_LIMITS,)  # between processes by a server; a file has nobody to share them with

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
    return list(enumerate((statements(step, types) for step in STEPS), 1))[version:]


def statements(step: tuple[str, ...], types: dict[str, str]) -> list[str]:
    """What a step is in one of the databases."""
    if types is SQLITE and step in _SHARED:
        return []
    return [statement.format(**types) for statement in step]
