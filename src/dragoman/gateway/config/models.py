"""`[models]`: which targets answer for the model that a client requests, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import describe_unknown
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Settings
from dragoman.core.model_profile import ModelProfile
from dragoman.core.overrides import NAMES as SETTING_NAMES
from dragoman.core.overrides import PARALLEL, Overrides
from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.tables import TargetTable
from dragoman.profiles import ProfileRow, ProviderSettings, bare_model, find_vendor, known, split_model


class ModelTarget(Struct, frozen=True):
    """A model of a provider; `*` is the name that the client asked for. `weight`: its share of the requests,
    among the neighbours that have one; 0: its place in the list is its turn."""

    provider: str
    model: str
    weight: int = 0
    overrides: Overrides = Overrides()

    def __str__(self) -> str:
        share = f" ({self.weight})" if self.weight else ""
        return f"{self.provider}:{self.model}{share}"


class ModelRow(Struct, frozen=True):
    """What answers for the models whose name fits `pattern`: the first of `targets` that can."""

    pattern: str
    targets: tuple[ModelTarget, ...]
    overrides: Overrides = Overrides()

    def __str__(self) -> str:
        return ", ".join(map(str, self.targets))


Models = tuple[ModelRow, ...]
OVERRIDES = ("set", "default", "extra")


def read_models(
    source: ConfigSource, providers: Mapping[str, ProviderSettings]
) -> tuple[Models, dict[str, ProviderSettings]]:
    """The rows, and the providers with what the rows say about their models."""
    rows: list[ModelRow] = []
    described = dict(providers)
    for name, value in source.table("models").items():
        where, facts, overrides = ("models", name), {}, Overrides()
        if is_object(value):
            facts = {key: fact for key, fact in value.items() if key not in ("to", *OVERRIDES)}
            overrides = read_overrides(source, where, value)
            value = value.get("to", value)
        targets = _read_targets(source, where, value, providers)
        for target in targets if facts else ():
            row = read_profile(source, where, name if target.model == "*" else target.model, facts)
            described |= _add_profile(described, target.provider, row)
        rows.append(ModelRow(name, targets, overrides))
    return tuple(rows), described


def _read_targets(
    source: ConfigSource, where: Path, value: Any, providers: Mapping[str, ProviderSettings]
) -> tuple[ModelTarget, ...]:
    if is_object(value):
        source.note(source.wrong(where, 'missing to = "provider:model"'))
        return ()
    if not value or not (isinstance(value, str) or is_array(value)):
        problem = 'expected "provider:model", an array of them or { to = … }'
        source.note(source.wrong(where, "expected at least one target" if value == [] else problem))
        return ()
    if isinstance(value, str):
        value, places = [value], [where]
    else:
        places = [(*where, f"[{place}]") for place in range(len(value))]
    targets: list[ModelTarget] = []
    for place, target in zip(places, value, strict=True):
        with source.noting():
            targets.append(_read_target(source, place, target, providers))
    return tuple(targets)


def read_profile(source: ConfigSource, where: Path, pattern: str, table: dict[str, Any]) -> ProfileRow:
    """Facts about the models that fit `pattern`: the fields of ModelProfile, and `like`."""
    given = {key: value for key, value in table.items() if key != "like"}
    like = table.get("like", "")
    if not isinstance(like, str):
        source.note(source.wrong((*where, "like"), "expected the name of a model"))
        like = ""
    profile = source.convert(where, given, ModelProfile)
    known_facts = [(key, getattr(profile, key)) for key in given if hasattr(profile, key)]
    return ProfileRow(pattern, tuple(known_facts), like)


def read_overrides(source: ConfigSource, where: Path, table: Mapping[str, Any]) -> Overrides:
    """`set`, `default` and `extra` of a row of `[models]`, or of a provider."""
    given = {kind: table.get(kind) for kind in OVERRIDES}
    read = {kind: _settings(source, (*where, kind), given[kind]) for kind in ("set", "default")}
    extra = given["extra"]
    if extra is not None and not is_object(extra):
        source.note(source.wrong((*where, "extra"), "expected a table of fields"))
        extra = None
    return Overrides(read["set"], read["default"], extra or {})


def _settings(source: ConfigSource, where: Path, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not is_object(given):
        source.note(source.wrong(where, "expected a table of settings"))
        return {}
    for name in given:
        if name not in SETTING_NAMES:
            source.note(source.wrong((*where, name), describe_unknown("setting", name, SETTING_NAMES)))
    plain = {name: value for name, value in given.items() if name != PARALLEL and name in SETTING_NAMES}
    settings = source.convert(where, plain, Settings)
    values: dict[str, Any] = {name: getattr(settings, name) for name in plain}
    if PARALLEL in given:
        with source.noting():
            values[PARALLEL] = source.convert((*where, PARALLEL), given[PARALLEL], bool)
    return values


def _add_profile(
    providers: Mapping[str, ProviderSettings], name: str, row: ProfileRow
) -> dict[str, ProviderSettings]:
    """A known provider that is only named here joins those of the file where it needs no key."""
    provider = providers.get(name) or known().get(name)
    if provider is None or (name not in providers and provider.key_env):
        return {}
    return {name: replace(provider, profiles=(*provider.profiles, row))}


def _read_target(
    source: ConfigSource, where: Path, given: Any, providers: Mapping[str, ProviderSettings]
) -> ModelTarget:
    """`"provider:model"`, or a table with it: `{ to, weight, set, default, extra }`."""
    if isinstance(given, str):
        return _target(source, where, given, providers)
    if not is_object(given) or not isinstance(given.get("to"), str):
        raise source.wrong(where, 'expected "provider:model" or { to = "provider:model", weight = 1 }')
    table = source.convert(where, given, TargetTable)
    overrides = read_overrides(source, where, given)
    return replace(_target(source, where, table.to, providers), weight=table.weight or 0, overrides=overrides)


def _target(
    source: ConfigSource, where: Path, target: str, providers: Mapping[str, ProviderSettings]
) -> ModelTarget:
    name, separator, model = split_model(target)
    if not separator or not model:
        raise source.wrong(where, f"{target!r} is not provider:model")
    if name not in providers and separator == "/":
        name = find_vendor(name) or name
    named = {*providers, *known(), *source.table("providers")}  # one that is a mistake itself is there too
    if name not in named:
        raise source.wrong(where, describe_unknown("provider", name, named))
    return ModelTarget(name, bare_model(name, model))
