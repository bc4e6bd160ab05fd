"""`[models]`: what a client asks for, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.gateway.config.source import ConfigSource, Path, did_you_mean
from dragoman.profiles import Provider, known

Models = tuple[tuple[str, tuple[str, ...]], ...]


def read_models(source: ConfigSource, providers: Mapping[str, Provider]) -> Models:
    rows: list[tuple[str, tuple[str, ...]]] = []
    for asked, value in source.table("models").items():
        where = ("models", asked)
        if not isinstance(value, str | list):
            raise source.wrong(where, 'expected "provider:model" or an array of them')
        targets = (value,) if isinstance(value, str) else source.convert(where, value, tuple[str, ...])
        if not targets:
            raise source.wrong(where, "an empty list leads nowhere")
        for target in targets:
            _check(source, where, target, providers)
        rows.append((asked, targets))
    return tuple(rows)


def _check(source: ConfigSource, where: Path, target: str, providers: Mapping[str, Provider]) -> None:
    name, colon, model = target.partition(":")
    if not colon or not model:
        raise source.wrong(where, f"{target!r} is not provider:model")
    if name not in providers and name not in known():
        raise source.wrong(where, f"unknown provider {name!r}{did_you_mean(name, [*providers, *known()])}")
