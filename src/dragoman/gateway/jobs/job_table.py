"""Jobs in the store: a client's request that is run later, and the answer to it.

    queued     --claim-------------------------------------> running    (attempt + 1)
    running    --claim, by whoever takes over--------------> running    (attempt + 1)
    running    --finish, by the attempt that claimed last--> completed, failed
    queued, running  --cancel------------------------------> cancelled
    queued     --the batch's deadline----------------------> expired

The last four states are final: `ended` is set. `attempt` is a fencing token: what an earlier attempt writes
after somebody else has claimed the job is refused, so each job has exactly one answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import astuple

from dragoman.core import jsontext
from dragoman.gateway.conversations.store import SqlStore, Statement, StoredTurn, sql
from dragoman.gateway.jobs.space import StoreSpace, no_room

_COLUMNS = (
    "owner, id, batch, line, custom_id, protocol, caller, path, settings, body, reply, status, attempt, "
    "interrupted, created, ended, expires"
)
_ADD = f"""insert into dragoman_jobs ({_COLUMNS}, lease)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 0)"""
_GET = f"select {_COLUMNS} from dragoman_jobs where owner = $1 and id = $2"
_CLAIM = f"""update dragoman_jobs set status = 'running', attempt = attempt + 1, lease = $3,
    interrupted = interrupted + case when status = 'running' then 1 else 0 end
    where owner = $1 and id = $2 and ended is null and lease < $4 returning {_COLUMNS}"""
_EXTEND = """update dragoman_jobs set lease = $4
    where owner = $1 and id = $2 and attempt = $3 and ended is null returning id"""
_RELEASE = """update dragoman_jobs set lease = $4, status = 'queued'
    where owner = $1 and id = $2 and attempt = $3 and ended is null"""
_HELD = "select id from dragoman_jobs where owner = $1 and id = $2 and attempt = $3 and ended is null"
# The body of a job that has ended is deleted: nobody needs it, and it may hold secrets of the client's tools
_FINISH = """update dragoman_jobs set status = $4, reply = $5, ended = $6, expires = $7, body = $8
    where owner = $1 and id = $2 and attempt = $3 and ended is null returning id"""
_CANCEL = """update dragoman_jobs set status = 'cancelled', reply = $3, ended = $4, body = $5
    where owner = $1 and id = $2 and ended is null returning id"""
_ENDED = "select ended from dragoman_jobs where owner = $1 and id = $2"
_IS_LAST = """select 1 where not exists (
    select 1 from dragoman_job_events where owner = $1 and job = $2 and number >= $3)"""
_DELETE = "delete from dragoman_jobs where owner = $1 and id = $2 and batch = '' returning id"
# Two statements, because each has an index of its own
_UNCLAIMED = {
    of_batches: f"""select owner, id, batch from dragoman_jobs
    where ended is null and batch {sign} '' and lease < $1 order by {order} limit $2"""
    for of_batches, sign, order in ((False, "=", "created"), (True, "<>", "created, line"))
}
_EXPIRED = "delete from dragoman_jobs where expires < $1 and batch = ''"

_ADD_EVENTS = """insert into dragoman_job_events (owner, job, number, data) values ($1, $2, $3, $4)
    on conflict (owner, job, number) do nothing"""
_EVENTS = """select number, data from dragoman_job_events
    where owner = $1 and job = $2 and number >= (
        select coalesce(max(number), 0) from dragoman_job_events
        where owner = $1 and job = $2 and number <= $3)
    order by number"""
_FORGET_EVENTS = "delete from dragoman_job_events where owner = $1 and job = $2 and number >= $3"
PAGE = 1000  # rows of one statement that writes many


class JobRef(Struct, frozen=True):
    """What travels through the queue."""

    owner: str
    id: str
    batch: str = ""


class JobSettings(Struct, frozen=True, omit_defaults=True):
    """Beside the body: `headers` go on to an upstream of the client's protocol. `store`: the answer may be
    continued by its id; otherwise it is deleted soon."""

    headers: dict[str, str] = {}
    stream: bool = False
    store: bool = True


class Job(Struct, frozen=True):
    """`reply` is the state of a background response as its client sees it, or the result of a line."""

    owner: str
    id: str
    batch: str
    line: int
    custom_id: str
    protocol: str
    caller: str  # the id of the key, which is not stored itself
    path: str
    settings: bytes
    body: bytes
    reply: bytes
    status: str
    attempt: int
    interrupted: int  # how often the process that ran it ended
    created: float
    ended: float | None
    expires: float

    @property
    def ref(self) -> JobRef:
        return JobRef(self.owner, self.id, self.batch)

    def read_settings(self) -> JobSettings:
        return convert(jsontext.decode(self.settings), JobSettings)


class JobEvents(Struct, frozen=True):
    """Consecutive events of a streamed answer: JSON texts, the first of which has the `number`."""

    number: int
    texts: list[bytes]


class JobEnd(Struct, frozen=True):
    """How a job ended: its last reply, and with it the turn that a client may continue."""

    status: str
    reply: bytes
    expires: float
    turn: StoredTurn | None = None
    events: JobEvents | None = None


class JobTable:
    def __init__(self, database: SqlStore) -> None:
        self._database = database

    async def add(self, job: Job, events: JobEvents | None = None, space: StoreSpace | None = None) -> None:
        """ConversationError: the store has no room for it."""
        size = len(job.body) + len(job.reply)
        claim = [space.claim(job.owner, size)] if space else []
        added = [Statement(_ADD, astuple(job)), *_write_events(job, events)]
        if await self._database.transaction(*claim, *added) is None:
            raise no_room(size)

    async def add_lines(self, jobs: Sequence[Job], space: StoreSpace | None = None) -> None:
        """ConversationError: the store has no room for all of them. Then some may have been added."""
        for start in range(0, len(jobs), PAGE):
            page = jobs[start : start + PAGE]
            size = sum(len(job.body) + len(job.reply) for job in page)
            claim = space.claim(page[0].owner, size) if space else None
            if not await self._database.write_many(_ADD, [astuple(job) for job in page], claim):
                raise no_room(sum(len(job.body) for job in jobs))

    async def get(self, owner: str, id: str) -> Job | None:
        return _first(await self._run(Statement(_GET, (owner, id))))

    async def claim(self, ref: JobRef, until: float, unclaimed_since: float) -> Job | None:
        """None where it has ended, or its lease is held. `until`: the end of the new lease."""
        return _first(await self._run(Statement(_CLAIM, (ref.owner, ref.id, until, unclaimed_since))))

    async def extend(self, job: Job, until: float) -> bool:
        """False where this attempt does not hold the job any more."""
        return bool(await self._run(Statement(_EXTEND, (*_key(job), until))))

    async def release(self, job: Job, at: float) -> None:
        """From then on it can be claimed again."""
        await self._run(Statement(_RELEASE, (*_key(job), at)))

    async def finish(self, job: Job, end: JobEnd) -> bool:
        """All of it or nothing: False where another attempt has the job, or it has ended."""
        values = *_key(job), end.status, end.reply, time.time(), end.expires, b""
        finished = Statement(_FINISH, values, required=True)
        stored: list[Statement] = []
        if turn := end.turn:
            found = await self._run(Statement(sql.ROOT, (turn.owner, turn.previous))) if turn.previous else []
            root = found[0][0] if found else turn.id
            stored = [Statement(text, values) for text, values in sql.writes(turn, root)]
        done = await self._database.transaction(finished, *stored, *_write_events(job, end.events))
        return done is not None

    async def cancel(self, job: Job, reply: bytes, events: JobEvents | None = None) -> bool:
        """False where it has ended before, or where other events came before `events`."""
        cancelled = Statement(_CANCEL, (job.owner, job.id, reply, time.time(), b""), required=True)
        last = Statement(_IS_LAST, (job.owner, job.id, events.number if events else 0), required=True)
        written = [last, *_write_events(job, events)] if events else []
        return await self._database.transaction(cancelled, *written) is not None

    async def has_ended(self, owner: str, id: str) -> bool:
        """True also where it was deleted."""
        rows = await self._run(Statement(_ENDED, (owner, id)))
        return not rows or rows[0][0] is not None

    async def delete(self, owner: str, id: str) -> bool:
        return bool(await self._run(Statement(_DELETE, (owner, id))))

    async def list_unclaimed(self, of_batches: bool, limit: int) -> list[JobRef]:
        """Jobs that nobody runs, oldest first."""
        found = await self._run(Statement(_UNCLAIMED[of_batches], (time.time(), limit)))
        return [JobRef(*row) for row in found]

    async def sweep(self) -> None:
        await self._run(Statement(_EXPIRED, (time.time(),)))

    # The events of a streamed answer

    async def add_events(self, job: Job, events: JobEvents) -> bool:
        """False where this attempt does not hold the job any more."""
        held = Statement(_HELD, _key(job), required=True)
        return await self._database.transaction(held, *_write_events(job, events)) is not None

    async def events(self, owner: str, id: str, after: int) -> list[tuple[int, bytes]]:
        """Those with a number greater than `after`, each with its number."""
        found = await self._run(Statement(_EVENTS, (owner, id, after + 1)))
        numbered = [
            (number + place, text)
            for number, data in found
            for place, text in enumerate(bytes(data).split(b"\n"))
        ]
        return [(number, text) for number, text in numbered if number > after]

    async def forget_events(self, job: Job, first: int) -> None:
        await self._run(Statement(_FORGET_EVENTS, (job.owner, job.id, first)))

    async def _run(self, first: Statement, *more: Statement) -> list[Any]:
        """The rows of the first statement."""
        results = await self._database.transaction(first, *more)
        return results[0] if results else []


def _key(job: Job) -> tuple[str, str, int]:
    return job.owner, job.id, job.attempt


def _write_events(job: Job, events: JobEvents | None) -> list[Statement]:
    if not events or not events.texts:
        return []
    return [Statement(_ADD_EVENTS, (job.owner, job.id, events.number, b"\n".join(events.texts)))]


def _first(rows: Sequence[Any]) -> Job | None:
    return Job(*rows[0]) if rows else None
