"""The SQL of both databases: tables as numbered migrations, and every statement. `$1` is the first value.

Opening a database takes the migrations that it has not taken yet. A released one is never changed; a change
is the next one. Only the names of types differ between SQLite and PostgreSQL.
"""

from __future__ import annotations

import time

from msgspec import Struct

from dragoman.gateway.conversations.store.values import Retention, StoredTurn, StoreError

SQLITE = {"bytes": "blob", "seconds": "real", "count": "integer"}
POSTGRES = {"bytes": "bytea", "seconds": "double precision", "count": "bigint"}

# Retention is by conversation: its last use counts for all its turns, so none is deleted in part.
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
# Tokens of each key and day (gateway/admission/token_budget.py)
_TOKENS = (
    """create table dragoman_tokens (
        caller text not null, day {count} not null, tokens {count} not null, primary key (caller, day))""",
)
# Background responses, batches and files (gateway/jobs/job_table.py). The lines of a batch are jobs.
# `attempt` is a fencing token: only the attempt that claimed a job last may write to it.
_JOBS = (
    """create table dragoman_jobs (
        owner text not null, id text not null, batch text not null, line {count} not null,
        custom_id text not null, protocol text not null, caller text not null, path text not null,
        settings {bytes} not null, body {bytes} not null, reply {bytes} not null, status text not null,
        attempt {count} not null, interrupted {count} not null, lease {seconds} not null,
        created {seconds} not null, ended {seconds}, expires {seconds} not null, primary key (owner, id))""",
    "create index dragoman_jobs_of_batch on dragoman_jobs (owner, batch, line)",
    "create index dragoman_jobs_alone on dragoman_jobs (created) where ended is null and batch = ''",
    "create index dragoman_jobs_lines on dragoman_jobs (created, line) where ended is null and batch <> ''",
    "create index dragoman_jobs_left on dragoman_jobs (owner, batch) where ended is null",
    "create index dragoman_jobs_expire on dragoman_jobs (expires)",
    """create table dragoman_job_events (
        owner text not null, job text not null, number {count} not null, data {bytes} not null,
        primary key (owner, job, number),
        foreign key (owner, job) references dragoman_jobs (owner, id) on delete cascade)""",
    """create table dragoman_batches (
        owner text not null, id text not null, protocol text not null, settings {bytes} not null,
        total {count} not null, created {seconds} not null, deadline {seconds} not null,
        cancelled {seconds}, ended {seconds}, expires {seconds} not null, primary key (owner, id))""",
    """create table dragoman_files (
        owner text not null, id text not null, name text not null, purpose text not null,
        batch text not null, size {count} not null, content {bytes} not null, created {seconds} not null,
        expires {seconds} not null, primary key (owner, id))""",
)
# Conversations that clients name (gateway/conversations/conversations.py): a list of items each. One request
# at a time adds to it: `holder`, until `held_until`.
_THREADS = (
    """create table dragoman_threads (
        owner text not null, id text not null, made {seconds} not null, used {seconds} not null,
        size {count} not null, metadata {bytes} not null, holder text not null,
        held_until {seconds} not null, primary key (owner, id))""",
    """create table dragoman_thread_items (
        owner text not null, thread text not null, place {count} not null, id text not null,
        item {bytes} not null, primary key (owner, thread, place),
        foreign key (owner, thread) references dragoman_threads (owner, id) on delete cascade)""",
    "create index dragoman_thread_items_by_id on dragoman_thread_items (owner, thread, id)",
)
# Files of several protocols (gateway/jobs/batch_table.py)
_FILES = tuple(
    [
        f"alter table dragoman_files add column {name} text not null default ''"
        for name in ("protocol", "media_type")
    ]
)
MIGRATIONS = (_TURNS, _HANDLES, _LIMITS, _TOKENS, _JOBS, _THREADS, _FILES)
_POSTGRES_ONLY = (_LIMITS,)  # gateways share limits by a database server only

VERSIONS = "create table if not exists dragoman_schema (version {count} primary key)"
VERSION = "select coalesce(max(version), 0) from dragoman_schema"
TAKEN = "insert into dragoman_schema (version) values ($1)"


def migrations(version: int, types: dict[str, str]) -> list[tuple[int, list[str]]]:
    """The migrations that a database at `version` has not taken, with their numbers."""
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store was made by a newer dragoman (version {version}; this one knows {len(MIGRATIONS)}): "
            "upgrade it, or name another store"
        )
    return list(enumerate((statements(migration, types) for migration in MIGRATIONS), 1))[version:]


def statements(migration: tuple[str, ...], types: dict[str, str]) -> list[str]:
    """A migration in the types of one of the databases."""
    if types is SQLITE and migration in _POSTGRES_ONLY:
        return []
    return [statement.format(**types) for statement in migration]


Row = tuple[str, str, str, "str | None", bytes, bytes, bytes]
_COLUMNS = "turns.id, turns.owner, turns.protocol, turns.previous, turns.items, turns.reply, turns.settings"

ROOT = "select root from dragoman_turns where owner = $1 and id = $2"
CONVERSATION = """insert into dragoman_conversations (owner, root, used, size) values ($1, $2, $3, $4)
    on conflict (owner, root) do update
    set used = excluded.used, size = dragoman_conversations.size + excluded.size"""
# Ids are random. A duplicate is a second try whose first one was written without our knowing.
TURN = """insert into dragoman_turns (owner, id, root, previous, protocol, made, items, reply, settings)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (owner, id) do nothing"""
ITEM = """insert into dragoman_items (owner, name, turn) values ($1, $2, $3)
    on conflict (owner, name) do update set turn = excluded.turn"""

GET = f"select {_COLUMNS} from dragoman_turns turns where owner = $1 and id = $2"
_CHAIN = """with recursive chain (id, previous, depth) as (
        select id, previous, 0 from dragoman_turns where owner = $1 and id = $2
        union all
        select before.id, before.previous, chain.depth + 1
        from dragoman_turns before join chain on before.id = chain.previous where before.owner = $1)"""
CHAIN_SIZE = f"""{_CHAIN} select coalesce(sum(length(items) + length(reply) + length(settings)), 0)
    from chain join dragoman_turns turns on turns.owner = $1 and turns.id = chain.id"""
CHAIN = f"""{_CHAIN} select {_COLUMNS}
    from chain join dragoman_turns turns on turns.owner = $1 and turns.id = chain.id
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

ADD_TOKENS = """insert into dragoman_tokens (caller, day, tokens) values ($1, $2, $3)
    on conflict (caller, day) do update set tokens = dragoman_tokens.tokens + excluded.tokens"""
TOKENS = "select tokens from dragoman_tokens where caller = $1 and day = $2"
FORGET_TOKENS = "delete from dragoman_tokens where caller = $1 and day < $2"

REMEMBER = """insert into dragoman_handles (owner, digest, handle, used) values ($1, $2, $3, $4)
    on conflict (owner, digest) do update set handle = excluded.handle, used = excluded.used"""
CLAIM = """insert into dragoman_handles (owner, digest, handle, used) values ($1, $2, $3, $4)
    on conflict (owner, digest) do nothing returning digest"""
RECALL = "update dragoman_handles set used = $3 where owner = $1 and digest = $2 returning handle"
_RECALL_MANY = """update dragoman_handles set used = $2 where owner = $1 and digest in ({digests})
    returning digest, handle"""


def recall_many(count: int) -> str:
    return _RECALL_MANY.format(digests=", ".join(f"${number}" for number in range(3, count + 3)))


_OLD = "select owner, {key} from {table} where used < $1"
# What was used most recently is kept, up to the size limit.
_EXCESS = """select owner, {key} from (
        select owner, {key}, sum({size}) over (order by used desc, owner, {key}) as total from {table}) ranked
    where total > $1"""
_DELETE = "delete from {table} where owner = $1 and {key} = $2"
_DELETE_ALL = "delete from {table} where (owner, {key}) in ({rows})"
_TABLES = (
    {"table": "dragoman_conversations", "key": "root", "size": "size"},
    {"table": "dragoman_threads", "key": "id", "size": "size"},
    {"table": "dragoman_handles", "key": "digest", "size": "length(digest) + length(handle)"},
)


class Expired(Struct, frozen=True):
    """Rows that a sweep deletes: how they are found, and deleted one by one or all at once."""

    select: str
    value: float
    delete: str
    delete_all: str


def list_expired(retention: Retention) -> list[Expired]:
    found = [(_OLD, table, time.time() - retention.seconds) for table in _TABLES]
    found += [(_EXCESS, table, retention.bytes) for table in _TABLES]
    return [
        Expired(
            rows.format(**table),
            value,
            _DELETE.format(**table),
            _DELETE_ALL.format(rows=rows.format(**table), **table),
        )
        for rows, table, value in found
    ]


def writes(turn: StoredTurn, root: str) -> list[tuple[str, tuple[object, ...]]]:
    """The statements that write `turn` into the conversation whose first turn is `root`."""
    now, size = time.time(), turn.size
    row = (
        turn.owner, turn.id, root, turn.previous, turn.protocol, now, turn.items, turn.reply, turn.settings
    )  # fmt: skip
    items = [(ITEM, (turn.owner, name, turn.id)) for name in turn.names]
    return [(CONVERSATION, (turn.owner, root, now, size)), (TURN, row), *items]


def read_turn(row: Row) -> StoredTurn:
    """`names` are not read back: they only serve `find`."""
    return StoredTurn(*row)


def unbroken(turns: list[StoredTurn]) -> list[StoredTurn]:
    """Empty where a turn in the middle was deleted."""
    return turns if turns and turns[0].previous is None else []
