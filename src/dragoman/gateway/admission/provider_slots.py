"""How many exchanges are under way at each provider; one without `max_concurrency` is not counted."""

from __future__ import annotations

import time

from dragoman.gateway.admission.load_shedding import provider_busy
from dragoman.gateway.admission.semaphore import Permit, QueuedSemaphore, acquired
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.profiles import Provider


class ProviderConcurrency:
    """`workers` processes serve together: each has its share of a provider, one at least."""

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._gates: dict[str, QueuedSemaphore] = {}

    def full(self, provider: Provider) -> bool:
        return bool(provider.max_concurrency) and self._gate(provider).full

    async def enter(self, provider: Provider, seen: ExchangeRecord) -> Permit | None:
        """A slot to give back, or None where there is nothing to count. Raises Shed where none came free."""
        seen.shed = ""  # another provider may have been busy before
        if not provider.max_concurrency:
            return None
        gate, began = self._gate(provider), time.perf_counter()
        ticket = gate.ask(seen.caller)
        if ticket is None or not await acquired(ticket, provider.queue_seconds):
            seen.shed = "provider"
            raise provider_busy(provider.name, gate)
        seen.waited += time.perf_counter() - began
        return ticket

    @property
    def waiting(self) -> int:
        return sum(gate.waiting for gate in self._gates.values())

    @property
    def inside(self) -> int:
        return sum(gate.inside for gate in self._gates.values())

    def _gate(self, provider: Provider) -> QueuedSemaphore:
        gate = self._gates.get(provider.name)
        if gate is None:
            share = max(provider.max_concurrency // self._workers, 1)
            gate = self._gates[provider.name] = QueuedSemaphore(share, provider.queue)
        return gate
