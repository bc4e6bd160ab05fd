"""What the gateway takes on, and what it turns away: by key, by provider, and altogether.

A request is judged before its body is read (`arrive`, `count`), waits for its turn before its body is
parsed (`turn`), and gives everything back when it leaves, however it ends. It waits after the body was read,
because only then can a client's disconnect be noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from msgspec import Struct

from dragoman.core.server import ProtocolServer
from dragoman.gateway.admission.callers import Caller, Callers
from dragoman.gateway.admission.counters import Counters, ProcessCounters
from dragoman.gateway.admission.host_counters import HostCounters
from dragoman.gateway.admission.load_shedding import LoadShed, gateway_busy, over_limit, quota_headers
from dragoman.gateway.admission.provider_slots import ProviderConcurrency
from dragoman.gateway.admission.semaphore import Permit, QueuedSemaphore, acquired
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.http.server import ResponseWriter

__all__ = ["Admission", "AdmissionControl", "Caller", "LoadShed", "ProviderConcurrency"]


class AdmissionControl:
    """`arrived` are all who have come and not left: inside, in line, or still sending their request."""

    def __init__(self, config: Config, tell: Callable[[str], object] = bool) -> None:
        limits = config.limits
        self.callers = Callers(config)
        self.counts = _counts(config, tell)
        self.slots = ProviderConcurrency(config.workers)
        self.door = QueuedSemaphore(limits.in_flight or sys.maxsize, limits.queue)
        self.patience = limits.queue_seconds
        self.arrived, self._most = 0, self.door.capacity + self.door.queue

    def arrive(self, caller: Caller, seen: ExchangeRecord) -> Admission:
        """Before the body is read. Raises LoadShed where there is no room."""
        if self.arrived >= self._most and not self.door.displace(caller.name):
            seen.shed = "gateway"
            raise gateway_busy(self.door)
        self.arrived += 1
        return Admission(self, caller, seen)

    async def close(self) -> None:
        await self.counts.close()

    @property
    def full(self) -> bool:
        """Whether whoever comes next is turned away."""
        return self.arrived >= self._most

    @property
    def waiting(self) -> int:
        return self.door.waiting + self.slots.waiting


class Admission(Struct, eq=False):
    """One request between its arrival and its end; `leave` may be said more than once."""

    _limits: AdmissionControl
    _caller: Caller
    _seen: ExchangeRecord
    _ticket: Permit | None = None
    _counted: bool = False
    _left: bool = False

    async def count(self, serves: ProtocolServer, answer: ResponseWriter) -> None:
        """Raises LoadShed where the key is over its limits. Counting tokens is not rate limited."""
        caller, seen = self._caller, self._seen
        verdict = await self._limits.counts.enter(caller, seen.id, seen.action == "generate")
        self._counted = not verdict.refused
        answer.headers += quota_headers(caller, verdict, serves)
        if verdict.refused:
            seen.shed = verdict.refused
            raise over_limit(caller, verdict)

    async def turn(self) -> None:
        """Wait until there is room. Raises LoadShed where it takes too long, or others went before."""
        door = self._limits.door
        self._ticket = ticket = door.ask(self._caller.name)
        if ticket and ticket.state == "inside":
            return
        began = time.perf_counter()
        if ticket is None or not await acquired(ticket, self._limits.patience):
            self._seen.shed = "gateway"
            raise gateway_busy(door)
        self._seen.waited = time.perf_counter() - began

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        self._limits.arrived -= 1
        if self._ticket:
            self._ticket.leave()
        if self._counted:
            self._limits.counts.leave(self._caller, self._seen.id)


def _counts(config: Config, tell: Callable[[str], object]) -> Counters:
    """Gateways on one database share the limits of keys, else the workers of one gateway do. `tell` hears of
    trouble with the database."""
    if config.store_url and not read_address(config.store_url).path:
        from dragoman.gateway.admission.postgres_counters import PostgresCounters

        return PostgresCounters(config.store_url, tell)
    return HostCounters(config.counting_file, config.workers) if config.counting_file else ProcessCounters()
