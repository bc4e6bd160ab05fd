"""Which provider and model answer for the model that a client requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from functools import cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ConfigError
from dragoman.core.model_profile import Price
from dragoman.core.overrides import Overrides
from dragoman.exchange import ExchangePlan
from dragoman.gateway.config import Config
from dragoman.gateway.config.models import ModelRow, Models
from dragoman.profiles import ProviderSettings, bare_model, find_vendor, known, split_model
from dragoman.protocols import wire_of

DEMO = "demo"
_LONGEST_NAME = 1_000  # characters of a model; what is made of names is remembered in many places


class Target(Struct, frozen=True, dict=True):
    """`plans` holds what all exchanges with it share, by the protocol of the client. `surfaces`: the same at
    each surface of its provider, where that has several; the first is what this client prefers."""

    provider: ProviderSettings
    model: str
    overrides: Overrides | None = None  # what the configuration decides of each request
    group: int = 0  # targets of one group share the requests; groups are tried in order
    weight: float = 1.0  # within its group
    shared: bool = False  # whether its group has others
    surfaces: tuple[Target, ...] = ()

    @cached_property
    def id(self) -> str:
        """Its name among the targets of its group."""
        return f"{self.account}:{self.model}"

    @cached_property
    def account(self) -> str:
        """Whose limits and state it shares: the provider, and the name of the key where that has several."""
        provider = self.provider
        return f"{provider.name}/{provider.credential}" if provider.credential else provider.name

    def for_client(self, protocol: str) -> Target:
        """For clients of this protocol: at the surface that speaks it, else at the first."""
        if not self.provider.surfaces:
            return self
        surfaces = [replace(self, provider=each) for each in self.provider.each_surface(protocol, wire_of)]
        return replace(surfaces[0], surfaces=tuple(surfaces))

    def speaking(self, protocols: Collection[str]) -> Target | None:
        """At the first surface that speaks one of them."""
        surfaces = self.provider.each_surface("")
        found = next((each for each in surfaces if each.protocol in protocols), None)
        return replace(self, provider=found, surfaces=()) if found else None

    @cached_property
    def missing(self) -> set[str]:
        """Protocols of surfaces that the server turned out not to have."""
        return set()

    @cached_property
    def price(self) -> Price | None:
        return self.provider.price(self.model)

    @cached_property
    def plans(self) -> dict[str, ExchangePlan]:
        return {}


class UnknownModel(ConfigError):
    """Nothing in the configuration answers for this model."""


def route(config: Config, requested: str, client: str = "") -> tuple[Target, ...]:
    """Like `_route`, for clients of a protocol; targets that share a group know it."""
    targets = _route(config, requested)
    if any(each.provider.surfaces for each in targets):
        targets = tuple([each.for_client(client) for each in targets])
    sizes = Counter([each.group for each in targets])
    if len(sizes) == len(targets):
        return targets
    return tuple([replace(each, shared=sizes[each.group] > 1) for each in targets])


def _route(config: Config, requested: str) -> tuple[Target, ...]:
    """The targets for `requested`, in the order in which they are tried.

    `provider:model` comes first; then the names of the configuration, exact ones before
    patterns and the more specific pattern before the other; then `provider/model`, as other gateways write
    it; then the only provider there is; and with no provider at all the embedded demo.
    """
    if len(requested) > _LONGEST_NAME:
        raise UnknownModel(f"no provider serves a model whose name has {len(requested)} characters")
    name, separator, model = split_model(requested)
    if separator == ":" and model and (provider := find_provider(config, name)):
        return _accounts(provider, model)
    if row := matching_row(config, requested):
        return _targets(config, requested, row)
    return _route_without_row(config, requested)


def _route_without_row(config: Config, requested: str) -> tuple[Target, ...]:
    name, separator, model = split_model(requested)
    if separator == ":" and model and name in known():  # never answered by another one
        raise UnknownModel(_needs_key(name, requested))
    vendor = name if separator == "/" and model else ""
    if vendor and (provider := _vendor(config, vendor)):
        return _accounts(provider, model)
    provider = only_provider(config)
    # only the demo answers a request that names no model
    if provider and (requested or not config.providers):
        return _accounts(provider, requested or DEMO)
    if vendor and (known_vendor := find_vendor(vendor)):
        raise UnknownModel(_needs_key(known_vendor, requested))
    raise UnknownModel(_unknown(config, requested))


def _unknown(config: Config, requested: str) -> str:
    served = served_names(config)
    close = get_close_matches(requested, served, 1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(served) or ", ".join(f"{name}:…" for name in config.providers)
    return f"Unknown model {requested!r}.{meant} Configured: {listed}. You can also ask for provider:model."


def matching_row(config: Config, requested: str) -> ModelRow | None:
    """The row of `[models]` that fits best."""
    return next((row for pattern, row in _order(config.models) if pattern.fullmatch(requested)), None)


def rule_for(config: Config, requested: str) -> str:
    """The row of `[models]` that matches `requested`, as the configuration spells it, or nothing."""
    row = matching_row(config, requested)
    return f'"{row.pattern}" = {[str(target) for target in row.targets]}' if row else ""


def served_names(config: Config) -> tuple[str, ...]:
    """The names of models that a client may ask for, and the patterns that they may fit."""
    patterns = [row.pattern for row in config.models if "*" in row.pattern]
    return (*names(config), *patterns) if config.providers or patterns else names(config)


def names(config: Config) -> tuple[str, ...]:
    """The models a client may ask for by name."""
    named = [row.pattern for row in config.models if "*" not in row.pattern]
    offered = [
        f"{provider.name}:{model}" for provider in config.providers.values() for model in provider.models
    ]
    return tuple(dict.fromkeys([*named, *offered])) or (() if config.providers else (DEMO,))


def find_provider(config: Config, name: str) -> ProviderSettings | None:
    """A configured one, or a known one that needs no key (it runs on this machine, or is the demo)."""
    if name in config.providers:
        return config.providers[name]
    provider = known().get(name)
    return provider if provider and not provider.key_env else None


def only_provider(config: Config) -> ProviderSettings | None:
    """The one that takes every other name; several that share a key count as one, and the first is taken."""
    if not config.providers:
        return known()[DEMO]
    by_key = {provider.key_env or name: provider for name, provider in reversed(config.providers.items())}
    return next(iter(by_key.values())) if len(by_key) == 1 else None


def _vendor(config: Config, prefix: str) -> ProviderSettings | None:
    """The provider before the slash of a name: a configured one, else the one that other gateways call so."""
    return find_provider(config, prefix) or find_provider(config, find_vendor(prefix))


def _needs_key(name: str, requested: str) -> str:
    return f"Provider {name!r} of {requested!r} has no key. Set {known()[name].key_env}."


def _accounts(
    provider: ProviderSettings,
    model: str,
    overrides: Overrides | None = None,
    group: int = 0,
    weight: float = 1.0,
) -> tuple[Target, ...]:
    """The model with each key of its provider."""
    combined = (overrides.over(provider.overrides) if overrides else provider.overrides) or None
    name, accounts = bare_model(provider.name, model), provider.accounts()
    whole = sum(share for _, share in accounts)
    return tuple([Target(each, name, combined, group, weight * share / whole) for each, share in accounts])


def _targets(config: Config, requested: str, row: ModelRow) -> tuple[Target, ...]:
    """A target without a key is passed over, as long as another one is left."""
    targets: list[Target] = []
    group, was_weighted = -1, False
    for target in row.targets:
        if provider := find_provider(config, target.provider):
            group += not (target.weight and was_weighted)  # neighbours with weights are one group
            was_weighted = bool(target.weight)
            model, overrides = _fill_name(target.model, row.pattern, requested), target.overrides
            targets += _accounts(
                provider, model, overrides.over(row.overrides), group, float(target.weight or 1)
            )
    if not targets:
        raise UnknownModel(f"the model {requested!r} is routed to {row}, and none of them has a key")
    return tuple(targets)


def _fill_name(model: str, pattern: str, requested: str) -> str:
    """`*` is the whole name that was requested, `$1` what the first star of the pattern stands for."""
    if model == "*":
        return requested
    if "$1" not in model or "*" not in pattern:
        return model
    found = _pattern(pattern).fullmatch(requested)
    return model.replace("$1", found[1] if found else requested)


@lru_cache(maxsize=16)
def _order(models: Models) -> tuple[tuple[re.Pattern[str], ModelRow], ...]:
    """By how much of the name they say; `*` is the only letter that means something."""
    rows = sorted(models, key=lambda row: ("*" in row.pattern, -len(row.pattern.replace("*", ""))))
    return tuple((_pattern(row.pattern), row) for row in rows)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(map(re.escape, name.split("*"))), re.DOTALL)
