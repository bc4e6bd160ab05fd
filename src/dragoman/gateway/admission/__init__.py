"""What the gateway takes on, and what it turns away: by key, by provider, and altogether.

A request is judged before its body is read (`arrive`, `count`), takes its turn before its body is parsed
(`turn`), and gives everything back when it leaves, however it ends. Waiting in line happens with the body in
hand, because only then can a client's leaving be noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from msgspec import Struct

from dragoman.core.server import Server
from dragoman.gateway.admission.callers import Caller, Callers
from dragoman.gateway.admission.counters import Counts, ProcessCounts
from dragoman.gateway.admission.host_counters import HostCounts
from dragoman.gateway.admission.load_shedding import Shed, gateway_busy, over_limit, quota_headers
from dragoman.gateway.admission.provider_slots import Slots
from dragoman.gateway.admission.semaphore import Gate, Ticket, turn
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store.addresses import read_address
from dragoman.gateway.observability.exchange_record import Seen
from dragoman.http.server import Answer

__all__ = ["Caller", "Limits", "Passage", "Shed", "Slots"]


class Limits:
    """`arrived` are all who have come and not left: inside, in line, or still sending their request."""

    def __init__(self, config: Config, tell: Callable[[str], object] = bool) -> None:
        limits = config.limits
        self.callers = Callers(config)
        self.counts = _counts(config, tell)
        self.slots = Slots(config.workers)
        self.door = Gate(limits.in_flight or sys.maxsize, limits.queue)
        self.patience = limits.queue_seconds
        self.arrived, self._most = 0, self.door.capacity + self.door.queue

    def arrive(self, caller: Caller, seen: Seen) -> Passage:
        """Before the body is read. Raises Shed where there is no room."""
        if self.arrived >= self._most and not self.door.displace(caller.name):
            seen.shed = "gateway"
            raise gateway_busy(self.door)
        self.arrived += 1
        return Passage(self, caller, seen)

    async def close(self) -> None:
        await self.counts.close()

    @property
    def full(self) -> bool:
        """Whether whoever comes next is turned away."""
        return self.arrived >= self._most

    @property
    def waiting(self) -> int:
        return self.door.waiting + self.slots.waiting


class Passage(Struct, eq=False):
    """One request between its arrival and its end; `leave` may be said more than once."""

    _limits: Limits
    _caller: Caller
    _seen: Seen
    _ticket: Ticket | None = None
    _counted: bool = False
    _left: bool = False

    async def count(self, serves: Server, answer: Answer) -> None:
        """Against what its key may do; raises Shed. Counting tokens is no request that a rate is about."""
        caller, seen = self._caller, self._seen
        verdict = await self._limits.counts.enter(caller, seen.id, seen.action == "generate")
        self._counted = not verdict.refused
        answer.headers += quota_headers(caller, verdict, serves)
        if verdict.refused:
            seen.shed = verdict.refused
            raise over_limit(caller, verdict)

    async def turn(self) -> None:
        """Wait until there is room. Raises Shed where it takes too long, or others went before."""
        door = self._limits.door
        self._ticket = ticket = door.ask(self._caller.name)
        if ticket and ticket.state == "inside":
            return
        began = time.perf_counter()
        if ticket is None or not await turn(ticket, self._limits.patience):
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


def _counts(config: Config, tell: Callable[[str], object]) -> Counts:
    """Gateways on one database share the limits of keys, else the workers of one gateway do. `tell` hears of
    trouble with the database."""
    if config.store_url and not read_address(config.store_url).path:
        from dragoman.gateway.admission.postgres_counters import SharedCounts

        return SharedCounts(config.store_url, tell)
    return HostCounts(config.counting_file, config.workers) if config.counting_file else ProcessCounts()
