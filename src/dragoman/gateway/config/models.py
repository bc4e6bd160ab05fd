"""`[models]`: which targets answer for the model that a client requests, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.core.jsontext import is_object
from dragoman.core.model_profile import ModelProfile
from dragoman.gateway.config.source import ConfigSource, Path, did_you_mean
from dragoman.profiles import ProfileRow, ProviderSettings, known

Models = tuple[tuple[str, tuple[str, ...]], ...]


def read_models(
    source: ConfigSource, providers: Mapping[str, ProviderSettings]
) -> tuple[Models, dict[str, ProviderSettings]]:
    """The rows, and the providers with what the rows say about their models."""
    rows: list[tuple[str, tuple[str, ...]]] = []
    described = dict(providers)
    for name, value in source.table("models").items():
        where, facts = ("models", name), {}
        if is_object(value):
            facts = {key: fact for key, fact in value.items() if key != "to"}
            if "to" not in value:
                raise source.wrong(where, 'missing to = "provider:model"')
            value = value["to"]
        if not isinstance(value, str | list):
            raise source.wrong(where, 'expected "provider:model", an array of them or { to = … }')
        targets = (value,) if isinstance(value, str) else source.convert(where, value, tuple[str, ...])
        if not targets:
            raise source.wrong(where, "expected at least one target")
        for target in targets:
            provider, model = _check(source, where, target, providers)
            if facts:
                row = read_profile(source, where, name if model == "*" else model, facts)
                described |= _described(described, provider, row)
        rows.append((name, targets))
    return tuple(rows), described


def read_profile(source: ConfigSource, where: Path, pattern: str, table: dict[str, Any]) -> ProfileRow:
    """Facts about the models that fit `pattern`: the fields of ModelProfile, and `like`."""
    given = {key: value for key, value in table.items() if key != "like"}
    like = table.get("like", "")
    if not isinstance(like, str):
        raise source.wrong((*where, "like"), "expected the name of a model")
    profile = source.convert(where, given, ModelProfile)
    return ProfileRow(pattern, tuple([(key, getattr(profile, key)) for key in given]), like)


def _described(
    providers: Mapping[str, ProviderSettings], name: str, row: ProfileRow
) -> dict[str, ProviderSettings]:
    """A known provider that is only named here joins those of the file where it needs no key."""
    provider = providers.get(name) or known()[name]
    if name not in providers and provider.key_env:
        return {}
    return {name: replace(provider, profiles=(*provider.profiles, row))}


def _check(
    source: ConfigSource, where: Path, target: str, providers: Mapping[str, ProviderSettings]
) -> tuple[str, str]:
    name, colon, model = target.partition(":")
    if not colon or not model:
        raise source.wrong(where, f"{target!r} is not provider:model")
    if name not in providers and name not in known():
        raise source.wrong(where, f"unknown provider {name!r}{did_you_mean(name, [*providers, *known()])}")
    return name, model
