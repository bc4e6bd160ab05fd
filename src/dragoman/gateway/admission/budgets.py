"""Budgets of a key: tokens and US dollars in a day or month (UTC), of all models or of some.

They are counted in the store, so that workers and replicas share them. What an exchange used is known only at
its end, and is written before the client sees that end: a key exceeds its budget by no more than what was
under way. While the store cannot be reached, each process counts what it sees itself, and writes it when the
store is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2s
from typing import Any, Literal, Protocol

from msgspec import Struct

from dragoman.core.model import Failure, Usage
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.load_shedding import LoadShed
from dragoman.gateway.config.keys import Allowance
from dragoman.gateway.conversations.store import StoreError, within

_DAY = 24 * 3600
_MICRO = 1_000_000  # dollars are counted in millionths
_TIMEOUT = 2.0  # seconds for the store
_AGAIN = 2.0  # seconds until what could not be written is tried again


class UsageStore(Protocol):
    """The part of a store that this needs: a sum for each counter and period."""

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None: ...

    async def tokens(self, caller: str, day: int) -> int: ...


class Meter(Struct, frozen=True):
    """One budget of a key. `pattern`: of these models alone. `limit` is in tokens, or in millionths of a
    dollar."""

    unit: Literal["tokens", "usd"]
    period: Literal["day", "month"]
    limit: int
    pattern: str = ""

    def counts(self, model: str) -> bool:
        return not self.pattern or fnmatchcase(model, self.pattern)

    def counter(self, caller: str) -> str:
        """Its name in the store; that of tokens a day is the caller's own."""
        name = caller if self.unit == "tokens" else f"{caller}/usd"
        if self.period == "month":
            name += "/month"
        return f"{name}/{blake2s(self.pattern.encode(), digest_size=6).hexdigest()}" if self.pattern else name

    def amount(self, usage: Usage, cost: float | None) -> int:
        return usage.input + usage.output if self.unit == "tokens" else round((cost or 0.0) * _MICRO)

    def show(self, amount: float) -> str:
        return f"{amount:,.0f} tokens" if self.unit == "tokens" else f"${amount / _MICRO:,.2f}"


@lru_cache(maxsize=1024)
def meters_of(allowance: Allowance) -> tuple[Meter, ...]:
    rows = [("", allowance.tokens_per_day, allowance.usd_per_day, allowance.usd_per_month)]
    rows += [(it.pattern, it.tokens_per_day, it.usd_per_day, it.usd_per_month) for it in allowance.budgets]
    meters: list[Meter] = []
    for pattern, tokens, daily, monthly in rows:
        if tokens:
            meters.append(Meter("tokens", "day", tokens, pattern))
        if daily:
            meters.append(Meter("usd", "day", round(daily * _MICRO), pattern))
        if monthly:
            meters.append(Meter("usd", "month", round(monthly * _MICRO), pattern))
    return tuple(meters)


class MeterReading(Struct, frozen=True):
    """`resets`: in how many seconds the period ends."""

    meter: Meter
    used: int
    resets: float

    def as_wire(self) -> dict[str, Any]:
        """For the owner of the key; dollars as dollars."""
        meter, scale = self.meter, 1 if self.meter.unit == "tokens" else _MICRO
        amounts = {"limit": meter.limit, "used": self.used, "remaining": max(meter.limit - self.used, 0)}
        shown = {name: amount if scale == 1 else amount / scale for name, amount in amounts.items()}
        models = {"models": meter.pattern} if meter.pattern else {}
        head = {"unit": meter.unit, "period": meter.period, **models}
        return {**head, **shown, "resets_in": round(self.resets)}


class _Count(Struct):
    period: int
    used: int = 0
    pending: int = 0  # counted here, not yet in the store
    writing: int = 0  # the part of it that is being written
    is_read: bool = False


class Budgets:
    """`shared`: other processes count in the same store, so it is asked every time. `report` is called when
    the store fails."""

    def __init__(
        self,
        store: UsageStore,
        report: Callable[[StoreError], object],
        now: Callable[[], float] = time.time,
        shared: bool = True,
    ) -> None:
        self._store, self._report, self._now, self._shared = store, report, now, shared
        self._counts: dict[str, _Count] = {}
        self._owed: dict[tuple[str, int], _Count] = {}  # by counter and period: not written when it should be
        self._writes: set[asyncio.Task[None]] = set()
        self._paying: asyncio.Task[None] | None = None

    async def check(self, caller: Caller, model: str | None = None) -> list[MeterReading]:
        """Raises LoadShed where a budget is used up: one of all models, or with `model` one of its own."""
        meters = meters_of(caller.allowance)
        chosen = [it for it in meters if (it.counts(model) and it.pattern if model else not it.pattern)]
        readings = [await self._read(caller, meter) for meter in chosen]
        for reading in readings:
            if reading.used >= reading.meter.limit:
                raise _refuse(caller, reading)
        return readings

    async def read(self, caller: Caller) -> list[MeterReading]:
        return [await self._read(caller, meter) for meter in meters_of(caller.allowance)]

    async def affords(self, caller: Caller, model: str, usage: Usage, cost: float | None) -> bool:
        """Whether something is left after `usage`, which is not counted yet."""
        for meter in meters_of(caller.allowance):
            if meter.counts(model):
                reading = await self._read(caller, meter)
                if reading.used + meter.amount(usage, cost) >= meter.limit:
                    return False
        return True

    async def add(self, caller: Caller, model: str, usage: Usage, cost: float | None) -> None:
        """What an exchange has used; returns when the store knows it."""
        counted = [meter for meter in meters_of(caller.allowance) if meter.counts(model)]
        amounts = [(meter, meter.amount(usage, cost)) for meter in counted]
        await asyncio.gather(*[self._add(caller, meter, amount) for meter, amount in amounts if amount])

    def add_soon(self, caller: Caller, model: str, usage: Usage, cost: float | None) -> None:
        task = asyncio.get_running_loop().create_task(self.add(caller, model, usage, cost))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._writes)
        if self._paying:
            self._paying.cancel()
            await self._pay()

    async def _read(self, caller: Caller, meter: Meter) -> MeterReading:
        count, ends = self._count(caller, meter)
        if self._shared or not count.is_read:
            try:
                stored = await within(_TIMEOUT, self._store.tokens(meter.counter(caller.id), count.period))
                count.used, count.is_read = stored + count.pending, True
            except StoreError as error:
                self._report(error)
        return MeterReading(meter, count.used, ends - self._now())

    async def _add(self, caller: Caller, meter: Meter, amount: int) -> None:
        count, _ = self._count(caller, meter)
        count.used, count.pending = count.used + amount, count.pending + amount
        await self._write(meter.counter(caller.id), count)

    async def _write(self, name: str, count: _Count) -> None:
        """What the store does not know yet, and nobody else is writing."""
        amount = count.pending - count.writing
        count.writing += amount
        try:
            await self._store.add_tokens(name, count.period, amount)
            count.pending -= amount
        except StoreError as error:
            self._report(error)
            self._owed[name, count.period] = count
            if self._paying is None or self._paying.done():
                self._paying = asyncio.get_running_loop().create_task(self._pay_later())
        finally:
            count.writing -= amount

    async def _pay_later(self) -> None:
        while self._owed:
            await asyncio.sleep(_AGAIN)
            await self._pay()

    async def _pay(self) -> None:
        """Write what is owed, up to the first failure."""
        for (name, period), count in list(self._owed.items()):
            if count.pending > count.writing:
                await self._write(name, count)
            if count.pending > count.writing:
                return
            del self._owed[name, period]

    def _count(self, caller: Caller, meter: Meter) -> tuple[_Count, float]:
        period, ends = _period(self._now(), meter.period)
        name = meter.counter(caller.id)
        count = self._counts.get(name)
        if count is None or count.period != period:
            count = self._counts[name] = _Count(period)
        return count, ends


def _period(now: float, kind: str) -> tuple[int, float]:
    """Its number, and when it ends."""
    if kind == "day":
        number = int(now // _DAY)
        return number, (number + 1) * _DAY
    today = datetime.fromtimestamp(now, UTC)
    number = today.year * 12 + today.month - 1
    year, month = divmod(number + 1, 12)
    return number, datetime(year, month + 1, 1, tzinfo=UTC).timestamp()


def _show_time(seconds: float) -> str:
    minutes = -int(-seconds // 60)
    days, hours = minutes // 1440, minutes // 60
    return f"{days} days" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"


def _refuse(caller: Caller, reading: MeterReading) -> LoadShed:
    meter = reading.meter
    where = f"Key {caller.name!r}" if caller.name else "This gateway"
    models = f" for models like {meter.pattern!r}" if meter.pattern else ""
    problem = (
        f"{where} has used its budget of {meter.show(meter.limit)} a {meter.period}{models}. "
        f"It resets at 00:00 UTC, in {_show_time(reading.resets)}."
    )
    return LoadShed(Failure("rate_limit", problem, 429, retry_after=reading.resets))


def budget_headers(readings: Iterable[MeterReading]) -> dict[str, str]:
    """What is left of each budget of all models, for the owner of the key."""
    headers: dict[str, str] = {}
    for reading in readings:
        meter, left = reading.meter, max(reading.meter.limit - reading.used, 0)
        name = f"x-dragoman-budget-{meter.unit}-{meter.period}-remaining"
        headers[name] = str(left) if meter.unit == "tokens" else f"{left / _MICRO:.6f}"
    return headers
