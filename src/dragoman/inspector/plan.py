"""A dry run: what a request would lose at each provider, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import DragomanError
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Wire
from dragoman.exchange import Exchange
from dragoman.profiles import ProviderSettings
from dragoman.protocols import wire_of


class Plan(Struct, frozen=True):
    """What the translation for `provider` loses; `error` where it cannot be made. `taken`: False for a
    surface that the gateway leaves aside, because another one of the same provider loses less."""

    provider: str
    protocol: str
    model: str
    losses: tuple[Loss, ...] = ()
    error: str = ""
    taken: bool = True

    @property
    def damage(self) -> tuple[int, int, int]:
        return Losses(dict.fromkeys(self.losses)).damage()

    @property
    def worst(self) -> str:
        """The highest severity among the losses; empty where nothing is lost."""
        counted = zip(("material", "minor", "cosmetic"), self.damage, strict=True)
        return next((severity for severity, count in counted if count), "")


def plan(body: Wire | bytes, client: str, provider: ProviderSettings, model: str) -> Plan:
    exchange = Exchange(
        client,
        provider.protocol,
        provider.dialect,
        recover=provider.recover,
        origin=provider.issuer,
        profile=provider.profile(model),
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
    plans = [
        plan_surfaces(
            body, client, each.each_surface(client, wire_of), each.models[0] if each.models else model
        )
        for each in providers
    ]
    plans.sort(key=lambda it: (bool(it[0].error), it[0].damage, len(it[0].losses)))
    return [each for surfaces in plans for each in surfaces]


def plan_surfaces(
    body: Wire | bytes, client: str, surfaces: Iterable[ProviderSettings], model: str
) -> list[Plan]:
    """For each surface of a provider, as the gateway would choose them: the first one is taken."""
    plans = [plan(body, client, each, model) for each in surfaces]
    plans.sort(key=lambda it: (bool(it.error), it.damage))
    return [plans[0], *[replace(each, taken=False) for each in plans[1:]]]
