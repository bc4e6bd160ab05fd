"""A dry run: what a request would lose at each provider, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.core.losses import Loss
from dragoman.core.model import Wire
from dragoman.exchange import Exchange
from dragoman.profiles import ProviderSettings


class Plan(Struct, frozen=True):
    """What the translation for `provider` loses; `error` where it cannot be made."""

    provider: str
    protocol: str
    model: str
    losses: tuple[Loss, ...] = ()
    error: str = ""

    @property
    def worst(self) -> str:
        """The highest severity among the losses; empty where nothing is lost."""
        found = {loss.severity for loss in self.losses if loss.kind in ("dropped", "changed")}
        return next((each for each in ("material", "minor", "cosmetic") if each in found), "")


def plan(body: Wire | bytes, client: str, provider: ProviderSettings, model: str) -> Plan:
    exchange = Exchange(
        client, provider.protocol, provider.dialect, recover=provider.recover, origin=provider.name
    )
    try:
        exchange.request(body, model=model)
    except (DragomanError, RecursionError) as error:
        return Plan(provider.name, provider.protocol, model, error=str(error))
    return Plan(provider.name, provider.protocol, model, tuple(exchange.losses))


def plan_all(
    body: Wire | bytes, client: str, providers: Iterable[ProviderSettings], model: str
) -> list[Plan]:
    """For each provider with the first model that it names, or with `model`; fewest losses first."""
    plans = [plan(body, client, each, each.models[0] if each.models else model) for each in providers]
    order = {"": 0, "cosmetic": 1, "minor": 2, "material": 3}
    return sorted(plans, key=lambda it: (bool(it.error), order[it.worst], len(it.losses)))
