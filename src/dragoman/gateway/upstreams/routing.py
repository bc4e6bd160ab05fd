"""Which provider and model answer for the model that a client requests."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.exchange import ExchangePlan
from dragoman.gateway.config import Config
from dragoman.gateway.config.models import Models
from dragoman.profiles import ProviderSettings, known

DEMO = "demo"
_LONGEST_NAME = 1_000  # characters of a model; what is made of names is remembered in many places


class Target(Struct, frozen=True, dict=True):
    """`plans` holds what all exchanges with it share, by the protocol of the client."""

    provider: ProviderSettings
    model: str

    @cached_property
    def plans(self) -> dict[str, ExchangePlan]:
        return {}


class UnknownModel(ConfigError):
    """Nothing in the configuration answers for this model."""


def route(config: Config, requested: str) -> tuple[Target, ...]:
    """The targets for `requested`, in the order in which they are tried.

    `provider:model` comes first; then the names of the configuration, exact ones before
    patterns and the more specific pattern before the other; then the only provider there is; and with no
    provider at all the embedded demo.
    """
    if len(requested) > _LONGEST_NAME:
        raise UnknownModel(f"no provider serves a model whose name has {len(requested)} characters")
    name, colon, model = requested.partition(":")
    if colon and model and (provider := provider_named(config, name)):
        return (Target(provider, model),)
    if targets := matching_row(config, requested):
        return _targets(config, requested, targets)
    if colon and model and name in known():  # never answered by another one
        raise UnknownModel(f"the provider {name} of {requested!r} needs a key: set {known()[name].key_env}")
    if provider := only_provider(config):
        return (Target(provider, requested or DEMO),)
    listed = ", ".join(names(config)) or ", ".join(f"{name}:…" for name in config.providers)
    raise UnknownModel(
        f"no provider serves the model {requested!r}; configured: {listed}; or any as provider:model"
    )


def matching_row(config: Config, requested: str) -> tuple[str, ...]:
    """The targets of the row of `[models]` that fits best; empty where none does."""
    return next((targets for pattern, targets in _ordered(config.models) if pattern.fullmatch(requested)), ())


def rule_for(config: Config, requested: str) -> str:
    """The row of `[models]` that matches `requested`, as the configuration spells it, or nothing."""
    targets = matching_row(config, requested)
    pattern = next((name for name, to in config.models if to == targets and targets), "")
    return f'"{pattern}" = {list(targets)}' if pattern else ""


def names(config: Config) -> tuple[str, ...]:
    """The models a client may ask for by name."""
    named = [pattern for pattern, _ in config.models if "*" not in pattern]
    offered = [
        f"{provider.name}:{model}" for provider in config.providers.values() for model in provider.models
    ]
    return tuple(dict.fromkeys([*named, *offered])) or (() if config.providers else (DEMO,))


def provider_named(config: Config, name: str) -> ProviderSettings | None:
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


def _targets(config: Config, requested: str, listed: tuple[str, ...]) -> tuple[Target, ...]:
    """A target without a key is passed over, as long as another one is left."""
    targets: list[Target] = []
    for target in listed:
        name, _, model = target.partition(":")
        if provider := provider_named(config, name):
            targets.append(Target(provider, requested if model == "*" else model))
    if not targets:
        raise UnknownModel(
            f"the model {requested!r} is routed to {', '.join(listed)}, and none of them has a key"
        )
    return tuple(targets)


@lru_cache(maxsize=16)
def _ordered(models: Models) -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """By how much of the name they say; `*` is the only letter that means something."""
    rows = sorted(models, key=lambda row: ("*" in row[0], -len(row[0].replace("*", ""))))
    return tuple((re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL), to) for name, to in rows)
