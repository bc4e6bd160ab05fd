"""What keys have under way and how fast they ask, counted in PostgreSQL for all gateways that share it.

One round trip decides a request (the function `dragoman_enter`, see store/schema.py). An exchange holds a
lease that is renewed while it runs and expires when its gateway dies. While the database cannot be reached,
every process counts for itself, and the log says so.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from dragoman.gateway.admission.callers import Caller
from dragoman.gateway.admission.counters import Decision, ProcessCounters
from dragoman.gateway.admission.rate_limit import RateLimitState, rate_of
from dragoman.gateway.conversations.store.addresses import without_password
from dragoman.gateway.conversations.store.postgres import migrate
from dragoman.gateway.conversations.store.values import StoreError

LEASE = 30.0  # seconds; so long does a dead gateway hold what it had
_RENEWALS = 3  # in that time
_RESTS = 5.0  # seconds until a database that was lost is tried again
_PATIENCE = 2.0  # seconds for one answer of it
_CONNECTIONS = 4
_MOMENT = 0.03  # seconds: what another gateway has given back may not have arrived yet

_ENTER = "select refused, wait, reset from dragoman_enter($1, $2, $3, $4, $5, $6)"
# Whoever is at a lease already does the same with it, so nobody waits for anybody here
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
    """`tell` hears when the database is lost and found."""

    def __init__(self, url: str, tell: Callable[[str], object], lease: float = LEASE) -> None:
        self._url, self._tell, self._lease = url, tell, lease
        self._process = ProcessCounters()
        self._pool: Any = None
        self._opening, self._writing = asyncio.Lock(), asyncio.Lock()
        self._rests_until = 0.0
        self._lost = False
        self._held: dict[str, str] = {}  # leases of exchanges under way, and whose they are
        self._freed: dict[str, str] = {}  # given back; the database may not know it yet
        self._renewing: asyncio.Task[None] | None = None
        self._freeing: asyncio.Task[None] | None = None

    async def enter(self, caller: Caller, lease: str, rated: bool) -> Decision:
        allowance = caller.allowance
        if 0 < allowance.concurrency <= caller.inside:  # what others have under way does not matter any more
            return Decision("concurrency")
        per_minute = allowance.requests_per_minute if rated else 0
        if not per_minute and not allowance.concurrency:
            return await self._process.enter(caller, lease, rated)
        verdict = await self._asked(caller, lease, per_minute)
        if verdict and verdict.refused == "concurrency":
            await asyncio.sleep(_MOMENT)
            verdict = await self._asked(caller, lease, per_minute)
        if verdict is None:
            verdict = await self._process.enter(caller, lease, rated)
        elif not verdict.refused:
            caller.inside += 1
        if allowance.concurrency and not verdict.refused:
            self._held[lease] = caller.id
        return verdict

    def leave(self, caller: Caller, lease: str) -> None:
        self._process.leave(caller, lease)
        if lease in self._held:
            self._free(lease, self._held.pop(lease))

    async def close(self) -> None:
        for task in (self._renewing, self._freeing):
            if task:
                task.cancel()
        self._rests_until = math.inf  # somebody may still leave
        self._forget(self._pool)

    async def _asked(self, caller: Caller, lease: str, per_minute: int) -> Decision | None:
        """None where the database cannot tell."""
        most = caller.allowance.concurrency
        freed = [given for given, who in self._freed.items() if who == caller.id]
        try:
            rows = await self._do("fetch", _ENTER, caller.id, lease, per_minute, most, self._lease, freed)
        except BaseException:  # cancelled; whether the lease was taken or not, nobody uses it
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

    def _free(self, lease: str, who: str) -> None:
        self._freed[lease] = who
        if self._freeing is None or self._freeing.done():
            self._freeing = asyncio.get_running_loop().create_task(self._write_freed())

    async def _write_freed(self) -> None:
        """What cannot be written now expires by itself."""
        while self._freed:
            async with self._writing:
                freed = list(self._freed)
                await self._do("execute", _FREE, freed)
                for lease in freed:
                    del self._freed[lease]

    async def _renew(self) -> None:
        """Also what was taken while the database was away, and what it has forgotten."""
        while True:
            await asyncio.sleep(self._lease / _RENEWALS)
            async with self._writing:  # nothing is renewed that was just given back
                if self._held:
                    await self._do("execute", _RENEW, [*self._held], [*self._held.values()], self._lease)

    async def _do(self, method: str, *statement: Any) -> Any:
        """None where the database is not there. What broke while unused shows here: once more, then."""
        if self._rests_until > time.monotonic():
            return None
        for fresh in (self._pool is None, True):
            pool = self._pool
            try:
                pool = pool or await self._opened()
                done = await getattr(pool, method)(*statement, timeout=_PATIENCE)
            except _FAILURES as error:
                self._forget(pool)
                if fresh:
                    self._is_lost(error)
                    return None
            else:
                self._is_found()
                return done
        raise AssertionError("the second try returned")

    async def _opened(self) -> Any:
        async with self._opening:  # whoever comes meanwhile waits for the same one
            if not self._pool:
                self._pool = await _pool(self._url)
                self._renewing = self._renewing or asyncio.create_task(self._renew())
            return self._pool

    def _forget(self, pool: Any) -> None:
        if pool and self._pool is pool:  # else somebody was faster, and there may be a better one
            self._pool = None
            pool.terminate()

    def _is_lost(self, error: Exception) -> None:
        self._rests_until = time.monotonic() + _RESTS
        if not self._lost:
            self._lost = True
            problem = without_password(str(error) or type(error).__name__, self._url)
            self._tell(f"not shared, each process counts for itself: {problem}")

    def _is_found(self) -> None:
        if self._lost:
            self._lost = False
            self._tell("shared again")


async def _pool(url: str) -> Any:
    pool: Any = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no stubs
        url, min_size=0, max_size=_CONNECTIONS, timeout=_PATIENCE, reset=_as_it_is
    )
    try:
        async with pool.acquire() as connection, connection.transaction():
            await migrate(connection)
    except BaseException:
        pool.terminate()
        raise
    return pool


async def _as_it_is(connection: object) -> None:
    """Nothing is left in a session here that a round trip would have to clear away."""
