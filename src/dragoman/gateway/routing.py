"""Which provider and model answer for the model that a client asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config
from dragoman.profiles import Provider, known


class Target(Struct, frozen=True):
    provider: Provider
    model: str


class UnknownModel(ConfigError):
    """Nothing in the configuration answers for this model."""


DEMO = Provider(name="demo", protocol="anthropic", base_url="demo:")


def route(config: Config, asked: str) -> tuple[Target, ...]:
    """The targets for `asked`, in the order in which they are tried.

    An exact name goes before a pattern, a longer pattern before a shorter one; then `provider:model`;
    then the only provider there is; and with no provider at all the embedded demo.
    """
    for pattern, targets in sorted(config.models, key=lambda row: ("*" in row[0], -len(row[0]))):
        if fnmatchcase(asked, pattern):
            return tuple(_target(config, target, asked) for target in targets)
    name, colon, model = asked.partition(":")
    if colon and (provider := _provider(config, name)):
        return (Target(provider, model),)
    if len(config.providers) == 1 and not config.models:
        (provider,) = config.providers.values()
        return (Target(provider, asked),)
    if not config.providers:
        return (Target(DEMO, asked or "demo"),)
    listed = ", ".join(names(config)) or "none"
    raise UnknownModel(f"no provider answers for the model {asked!r}; there are: {listed}, or provider:model")


def names(config: Config) -> tuple[str, ...]:
    """The models a client may ask for by name."""
    named = [pattern for pattern, _ in config.models if "*" not in pattern]
    offered = [
        f"{provider.name}:{model}" for provider in config.providers.values() for model in provider.models
    ]
    return tuple(dict.fromkeys([*named, *offered])) or (() if config.providers else ("demo",))


def _target(config: Config, target: str, asked: str) -> Target:
    """`provider:model`; a model of `*` passes on what was asked for."""
    name, _, model = target.partition(":")
    provider = _provider(config, name)
    if provider is None:
        raise UnknownModel(f"the model {asked!r} leads to provider {name!r}, which has no key or is unknown")
    return Target(provider, asked if model == "*" else model)


def _provider(config: Config, name: str) -> Provider | None:
    """A configured one; a known one that needs no key; or the demo."""
    if name in config.providers:
        return config.providers[name]
    if name == "demo":
        return DEMO
    provider = known().get(name)
    return provider if provider and not provider.key_env else None
