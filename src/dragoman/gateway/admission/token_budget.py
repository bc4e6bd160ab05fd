"""Tokens that each key may use in a day (UTC), counted in the store, so that workers and replicas share them.

What an exchange used is known only at its end, so a key may exceed its budget by the exchanges under way.
While the store cannot be reached, each process counts what it sees itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from dragoman.core.model import Failure, Usage
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.load_shedding import LoadShed
from dragoman.gateway.conversations.store import StoreError

_DAY = 24 * 3600
_FRESH = 2.0  # seconds for which a count that was read from the store is believed


class TokenStore(Protocol):
    """The part of a store that this needs. `day`: days since the epoch."""

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None: ...

    async def tokens(self, caller: str, day: int) -> int: ...


class _Count(Struct):
    day: int = 0
    used: int = 0
    read_at: float = 0.0


class TokenBudgets:
    """`report` is called when the store fails."""

    def __init__(
        self, store: TokenStore, report: Callable[[StoreError], object], now: Callable[[], float] = time.time
    ) -> None:
        self._store, self._report, self._now = store, report, now
        self._counts: dict[str, _Count] = {}
        self._writes: set[asyncio.Task[None]] = set()

    async def check(self, caller: Caller) -> None:
        """Raises LoadShed where the key has used its tokens of today."""
        budget, count = caller.allowance.tokens_per_day, self._count(caller)
        if self._now() - count.read_at > _FRESH and count.used < budget:
            try:
                count.used = max(count.used, await self._store.tokens(caller.id, count.day))
                count.read_at = self._now()
            except StoreError as error:
                self._report(error)
        if count.used >= budget:
            left = (count.day + 1) * _DAY - self._now()
            where = f"for the key {caller.name!r}" if caller.name else "here"
            problem = f"at most {budget} tokens a day {where}, and so many were used; again in {left:.0f} s"
            raise LoadShed("tokens", Failure("rate_limit", problem, 429, retry_after=left))

    def add(self, caller: Caller, usage: Usage | None) -> None:
        """What an exchange has used; it is written soon."""
        tokens = usage.input + usage.output if usage else 0
        if tokens:
            count = self._count(caller)
            count.used += tokens
            task = asyncio.get_running_loop().create_task(self._write(caller.id, count.day, tokens))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._writes)

    def _count(self, caller: Caller) -> _Count:
        day = int(self._now() // _DAY)
        count = self._counts.get(caller.id)
        if count is None or count.day != day:
            count = self._counts[caller.id] = _Count(day)
        return count

    async def _write(self, caller: str, day: int, tokens: int) -> None:
        try:
            await self._store.add_tokens(caller, day, tokens)
        except StoreError as error:
            self._report(error)
