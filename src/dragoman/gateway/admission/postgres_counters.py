"""Counters of keys shared by all gateways on one PostgreSQL database.

One round trip decides a request (the function `dragoman_enter`, see store/sql.py). An exchange holds a lease
that is renewed while it runs and expires when its gateway dies. While the database cannot be reached, every
process counts for itself and logs that.

    SHARED   a statement fails twice    -> LOCAL   (for `_RETRY_AFTER` seconds no statement is sent)
    LOCAL    a statement succeeds       -> SHARED
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.counters import Decision, ProcessCounters, RateLimitState, rate_of
from dragoman.gateway.conversations.store.addresses import without_password
from dragoman.gateway.conversations.store.postgres import migrate
from dragoman.gateway.conversations.store.values import StoreError

LEASE = 30.0  # seconds for which a dead gateway still counts
_RENEWALS = 3  # of a lease in that time
_RETRY_AFTER = 5.0  # seconds until a database that failed is tried again
_TIMEOUT = 2.0  # seconds for one statement
_CONNECTIONS = 4
_RECHECK = 0.03  # seconds: a lease that another gateway released may not have arrived yet

_ENTER = "select refused, wait, reset from dragoman_enter($1, $2, $3, $4, $5, $6)"
# a locked lease is being deleted by somebody else, so it is skipped instead of waited for
_FREE = """delete from dragoman_leases where lease in (
    select lease from dragoman_leases where lease = any($1::text[]) for update skip locked)"""
_RENEW = """insert into dragoman_leases (lease, caller, expires)
    select lease, caller, extract(epoch from clock_timestamp()) + $3
    from unnest($1::text[], $2::text[]) as held (lease, caller)
    on conflict (lease) do update set expires = excluded.expires"""
_FAILURES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # a timeout is one, too
    StoreError,
)


class PostgresCounters:
    """`report` is called when the database fails and when it is back."""

    def __init__(self, url: str, report: Callable[[str], object], lease: float = LEASE) -> None:
        self._url, self._report, self._lease = url, report, lease
        self._process = ProcessCounters()
        self._pool: Any = None
        self._opening, self._writing = asyncio.Lock(), asyncio.Lock()
        self._retry_at = 0.0
        self._local = False
        self._held: dict[str, str] = {}  # lease -> caller id, of exchanges under way
        self._freed: dict[str, str] = {}  # released here, not yet in the database
        self._renewing: asyncio.Task[None] | None = None
        self._freeing: asyncio.Task[None] | None = None

    async def enter(self, caller: Caller, lease: str, rated: bool) -> Decision:
        allowance = caller.allowance
        if 0 < allowance.concurrency <= caller.inside:  # this process alone reaches the limit
            return Decision("concurrency")
        per_minute = allowance.requests_per_minute if rated else 0
        if not per_minute and not allowance.concurrency:
            return await self._process.enter(caller, lease, rated)
        decision = await self._decide(caller, lease, per_minute)
        if decision and decision.refused == "concurrency":
            await asyncio.sleep(_RECHECK)
            decision = await self._decide(caller, lease, per_minute)
        if decision is None:
            decision = await self._process.enter(caller, lease, rated)
        elif not decision.refused:
            caller.inside += 1
        if allowance.concurrency and not decision.refused:
            self._held[lease] = caller.id
        return decision

    def leave(self, caller: Caller, lease: str) -> None:
        self._process.leave(caller, lease)
        if lease in self._held:
            self._free(lease, self._held.pop(lease))

    async def close(self) -> None:
        for task in (self._renewing, self._freeing):
            if task:
                task.cancel()
        self._retry_at = math.inf  # exchanges that still leave send nothing
        self._drop(self._pool)

    async def _decide(self, caller: Caller, lease: str, per_minute: int) -> Decision | None:
        """None where the database cannot be reached."""
        most = caller.allowance.concurrency
        freed = [each for each, holder in self._freed.items() if holder == caller.id]
        try:
            rows = await self._do("fetch", _ENTER, caller.id, lease, per_minute, most, self._lease, freed)
        except BaseException:  # cancelled: the lease may have been taken
            if most:
                self._free(lease, caller.id)
            raise
        if rows is None:
            return None
        refused, wait, reset = rows[0]
        if not per_minute:
            return Decision(refused)
        rate = RateLimitState(wait, 0, reset) if refused == "rate" else rate_of(reset, per_minute)
        return Decision(refused, rate if refused != "concurrency" else None)

    def _free(self, lease: str, caller_id: str) -> None:
        self._freed[lease] = caller_id
        if self._freeing is None or self._freeing.done():
            self._freeing = asyncio.get_running_loop().create_task(self._write_freed())

    async def _write_freed(self) -> None:
        """A lease that cannot be deleted expires."""
        while self._freed:
            async with self._writing:
                freed = list(self._freed)
                await self._do("execute", _FREE, freed)
                for lease in freed:
                    del self._freed[lease]

    async def _renew(self) -> None:
        """Inserts leases that were taken while the database was away."""
        while True:
            await asyncio.sleep(self._lease / _RENEWALS)
            async with self._writing:  # a lease that is being released is not renewed
                if self._held:
                    await self._do("execute", _RENEW, [*self._held], [*self._held.values()], self._lease)

    async def _do(self, method: str, *statement: Any) -> Any:
        """None where the database cannot be reached. An idle connection may be broken: try twice."""
        if self._retry_at > time.monotonic():
            return None
        for fresh in (self._pool is None, True):
            pool = self._pool
            try:
                pool = pool or await self._open()
                done = await getattr(pool, method)(*statement, timeout=_TIMEOUT)
            except _FAILURES as error:
                self._drop(pool)
                if fresh:
                    self._enter_local(error)
                    return None
            else:
                self._enter_shared()
                return done
        raise AssertionError("the second attempt returned")

    async def _open(self) -> Any:
        async with self._opening:  # concurrent callers wait for the same pool
            if not self._pool:
                self._pool = await _pool(self._url)
                self._renewing = self._renewing or asyncio.create_task(self._renew())
            return self._pool

    def _drop(self, pool: Any) -> None:
        if pool and self._pool is pool:  # else it was replaced already
            self._pool = None
            pool.terminate()

    def _enter_local(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + _RETRY_AFTER
        if not self._local:
            self._local = True
            problem = without_password(str(error) or type(error).__name__, self._url)
            self._report(f"not shared, each process counts for itself: {problem}")

    def _enter_shared(self) -> None:
        if self._local:
            self._local = False
            self._report("shared again")


async def _pool(url: str) -> Any:
    pool: Any = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no stubs
        url, min_size=0, max_size=_CONNECTIONS, timeout=_TIMEOUT, reset=_no_reset
    )
    try:
        async with pool.acquire() as connection, connection.transaction():
            await migrate(connection)
    except BaseException:
        pool.terminate()
        raise
    return pool


async def _no_reset(connection: object) -> None:
    """Our statements leave no session state, so the round trip of a reset is saved."""
