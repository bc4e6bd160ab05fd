"""Decides which requests the gateway accepts: by key, by provider, and altogether.

    arrive   before the body is read: 503 where the gateway and its queue are full
    count    before the body is read: 429 where the key is over its limits
    acquire  after the body is read and before it is parsed: waits in the queue, 503 after `queue_seconds`
    leave    whatever happened: gives everything back

A request waits after its body was read, because only then can a disconnect of the client be noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.model import Usage
from dragoman.gateway.admission.authentication import Caller, Callers
from dragoman.gateway.admission.budgets import Budgets, budget_headers
from dragoman.gateway.admission.counters import Counters, ProcessCounters
from dragoman.gateway.admission.host_counters import HostCounters
from dragoman.gateway.admission.load_shedding import (
    gateway_busy,
    memory_full,
    over_limit,
    provider_busy,
    quota_headers,
)
from dragoman.gateway.admission.semaphore import Permit, QueuedSemaphore, wait_for_permit
from dragoman.gateway.config import Config
from dragoman.gateway.config.tables import LimitsTable
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.request import ExchangeRecord
from dragoman.http.server import MemoryBudget, ResponseWriter, header_lines
from dragoman.profiles import ProviderSettings
from dragoman.serving.server import ProtocolServer

GENERATING = ("generate", "compact")  # actions that ask a model; only these are limited by rate and tokens


class AdmissionControl:
    """`arrived` counts the requests that have not left: running, queued, or still sending their body."""

    def __init__(
        self,
        config: Config,
        report: Callable[[str], object] = bool,
        memory: MemoryBudget | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self.budgets = budgets
        self.memory = memory or MemoryBudget()
        self.callers = Callers(config, self.memory)
        self.counters = _counters(config, report)
        self.slots = ProviderConcurrency(config.workers)
        self.semaphore = QueuedSemaphore(0, 0)
        self.arrived = 0
        self._set_limits(config.limits)

    def configure(self, config: Config) -> None:
        """Take the keys and limits of `config`; what is under way stays counted."""
        self.callers.configure(config)
        self.slots.configure(config.providers.values())
        self._set_limits(config.limits)

    def _set_limits(self, limits: LimitsTable) -> None:
        self.semaphore.resize(limits.in_flight or sys.maxsize, limits.queue)
        self.queue_seconds = limits.queue_seconds
        self.most = self.semaphore.capacity + self.semaphore.queue

    async def close(self) -> None:
        await self.counters.close()
        if self.budgets:
            await self.budgets.close()

    @property
    def full(self) -> bool:
        """Whether the next request is refused."""
        return self.arrived >= self.most or self.memory.used >= self.memory.limit

    @property
    def waiting(self) -> int:
        return self.semaphore.waiting + self.slots.waiting


class Admission(Struct, eq=False):
    """One request between its arrival and its end. `leave` may be called more than once, and without
    `arrive`. `is_budgeted`: what it uses counts against a budget."""

    _control: AdmissionControl
    _caller: Caller
    _record: ExchangeRecord
    is_budgeted: bool
    _holds: bool = False  # one of the permits, which it got without a queue
    _permit: Permit | None = None  # else
    _counted: bool = False
    _left: bool = True
    _settled: bool = False  # what it used was counted

    def arrive(self) -> None:
        """Raises LoadShed where the gateway is full and no other caller has a longer queue."""
        control, memory = self._control, self._caller.memory or self._control.memory
        if control.arrived >= control.most and not control.semaphore.displace(self._caller.name):
            self._record.shed = "gateway"
            raise gateway_busy(control.semaphore)
        if memory.used >= memory.limit:
            self._record.shed = "memory"
            raise memory_full()
        control.arrived += 1
        self._left = False

    async def count(self, server: ProtocolServer, response: ResponseWriter) -> None:
        """Raises LoadShed where the key is over its limits."""
        caller, record = self._caller, self._record
        decision = await self._control.counters.enter(caller, record.id, record.action in GENERATING)
        self._counted = not decision.refused
        response.lines += header_lines(quota_headers(caller, decision, server))
        if decision.refused:
            record.shed = decision.refused
            raise over_limit(caller, decision)
        budgets = self._control.budgets
        if budgets and caller.budgeted and record.action in (*GENERATING, "forward"):
            record.shed = "budget"
            response.before_end = self.settle
            headers = budget_headers(await budgets.check(caller)).items()
            response.lines += header_lines([(name.encode(), value.encode()) for name, value in headers])
            record.shed = ""

    @property
    def counts_dollars(self) -> bool:
        return self._control.budgets is not None and self._caller.allowance.counts_dollars

    async def check_model(self, model: str) -> None:
        """Raises LoadShed where the key has used its budget for this model."""
        if self._caller.allowance.budgets and (budgets := self._control.budgets):
            self._record.shed = "budget"
            await budgets.check(self._caller, model)
            self._record.shed = ""

    async def affords(self, usage: Usage) -> bool:
        """Whether the budgets of the key leave something after what this exchange has used so far."""
        if not self.is_budgeted or not (budgets := self._control.budgets):
            return True
        record = self._record
        return await budgets.affords(self._caller, record.model, usage, record.cost(usage))

    async def settle(self) -> None:
        """Count what the exchange used, before its client sees the end of the answer: the next request, to
        whichever gateway, is checked against it."""
        if self.is_budgeted and not self._settled and (budgets := self._control.budgets):
            self._settled = True
            await budgets.add(self._caller, self._record.model, *self._bill())

    def _bill(self) -> tuple[Usage, float | None]:
        """What was used, and what it cost. Cached tokens without a price of their own count as input. A price
        that is not known is said in the log, not guessed."""
        record, usage = self._record, self._record.usage_to_bill()
        cost = record.cost(usage)
        if cost is None:
            cost = record.cost(replace(usage, cached=0, cache_write=0))
        record.unpriced = cost is None and usage != Usage() and self.counts_dollars
        return usage, cost

    def enter(self) -> bool:
        """Take a permit without waiting; whether one was free."""
        semaphore = self._control.semaphore
        self._holds = semaphore.held < semaphore.capacity
        if self._holds:
            semaphore.held += 1
        return self._holds

    async def acquire(self) -> None:
        """Wait for a permit. Raises LoadShed after `queue_seconds`, or when displaced from the queue."""
        if self.enter():
            return
        semaphore = self._control.semaphore
        self._permit = permit = semaphore.request(self._caller.name)
        began = time.perf_counter()
        if permit is None or not await wait_for_permit(permit, self._control.queue_seconds):
            self._record.shed = "gateway"
            raise gateway_busy(semaphore)
        self._record.waited = time.perf_counter() - began

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        control, caller, semaphore = self._control, self._caller, self._control.semaphore
        control.arrived -= 1
        if self._holds and not semaphore.waiting:
            semaphore.held -= 1
        elif self._holds:
            semaphore.free()
        elif self._permit:
            self._permit.leave()
        if caller.limited and not self._settled and self.is_budgeted and control.budgets:
            self._settled = True
            control.budgets.add_soon(caller, self._record.model, *self._bill())
        if self._counted:
            control.counters.leave(caller, self._record.id)


class ProviderConcurrency:
    """A semaphore for each provider that has `max_concurrency`, of which each worker has its share."""

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._semaphores: dict[str, QueuedSemaphore] = {}

    def full(self, provider: ProviderSettings) -> bool:
        return bool(provider.max_concurrency) and self._semaphore(provider).full

    async def enter(self, provider: ProviderSettings, record: ExchangeRecord) -> Permit:
        """For a provider that has `max_concurrency`. Raises LoadShed after its `queue_seconds`."""
        semaphore, began = self._semaphore(provider), time.perf_counter()
        permit = semaphore.request(record.caller)
        if permit is None or not await wait_for_permit(permit, provider.queue_seconds):
            record.shed = "provider"
            raise provider_busy(provider.name, semaphore)
        record.waited += time.perf_counter() - began
        return permit

    @property
    def waiting(self) -> int:
        return sum(semaphore.waiting for semaphore in self._semaphores.values())

    @property
    def held(self) -> int:
        return sum(semaphore.held for semaphore in self._semaphores.values())

    def configure(self, providers: Iterable[ProviderSettings]) -> None:
        for provider in providers:
            if provider.name in self._semaphores:
                self._semaphores[provider.name].resize(self._share(provider), provider.queue)

    def _semaphore(self, provider: ProviderSettings) -> QueuedSemaphore:
        semaphore = self._semaphores.get(provider.name)
        if semaphore is None:
            semaphore = QueuedSemaphore(self._share(provider), provider.queue)
            self._semaphores[provider.name] = semaphore
        return semaphore

    def _share(self, provider: ProviderSettings) -> int:
        """Of this worker. Requests that wait when a provider loses its limit all get their turn."""
        return max(provider.max_concurrency // self._workers, 1) if provider.max_concurrency else sys.maxsize


def _counters(config: Config, report: Callable[[str], object]) -> Counters:
    """Gateways on one database share the limits of keys; else the workers of one gateway do."""
    if config.store_url and not read_address(config.store_url).path:
        from dragoman.gateway.admission.postgres_counters import PostgresCounters

        return PostgresCounters(config.store_url, report)
    return HostCounters(config.counting_file, config.workers) if config.counting_file else ProcessCounters()
