"""`[providers]`: those of the file, and every known one whose key is in the environment."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.core.jsontext import is_object
from dragoman.dialects import names as dialect_names
from dragoman.gateway.config.models import read_profile
from dragoman.gateway.config.source import ConfigSource, Path, did_you_mean
from dragoman.gateway.config.tables import ProviderTable, TimeoutsTable
from dragoman.http.client import Timeouts
from dragoman.profiles import ProfileRow, Provider, known
from dragoman.protocols import upstream, upstream_names

_URL = re.compile(r"https?://[^\s/]+\S*|demo:")


def read_providers(source: ConfigSource) -> dict[str, Provider]:
    providers = {name: _provider(source, name, row) for name, row in source.table("providers").items()}
    for name, provider in known().items():
        if name not in providers and (key := provider.key_from(source.environ)):
            providers[name] = replace(provider, api_key=key)
    return providers


def _provider(source: ConfigSource, name: str, row: Any) -> Provider:
    where = ("providers", name)
    table = source.convert(where, row, ProviderTable)
    if not re.fullmatch(r"[^\s:/]+", name):
        raise source.wrong(where, "the name of a provider has no spaces, colons or slashes")
    base = known().get(name) or Provider(name=name, protocol="", base_url="")
    given: dict[str, Any] = {
        **msgspec.structs.asdict(table),
        "api_key": source.secret((*where, "api_key"), table.api_key) if table.api_key else None,
        "headers": _headers(source, where, table.headers) if table.headers else None,
        "timeouts": _timeouts(source, where, table.timeouts) if table.timeouts else None,
        "profiles": _profiles(source, where, table.profiles) if table.profiles else None,
    }
    if table.base_url and table.base_url != base.base_url:  # `keeps` is true of the known address only
        base = replace(base, keeps=False)
    provider = replace(base, **_given_only(given))
    _check_names(source, where, provider)
    _check_url(source, where, provider)
    return provider if provider.api_key else replace(provider, api_key=base.key_from(source.environ))


def _check_names(source: ConfigSource, where: Path, provider: Provider) -> None:
    for key, value, allowed in (
        ("protocol", provider.protocol, upstream_names()),
        ("dialect", provider.dialect, (None, *dialect_names())),
    ):
        if value not in allowed:
            listed = [name for name in allowed if name]
            problem = f"unknown {key} {value!r}{did_you_mean(value or '', listed)}" if value else "missing"
            raise source.wrong((*where, key), f"{problem}; known: {', '.join(listed)}")


def _check_url(source: ConfigSource, where: Path, provider: Provider) -> None:
    """The paths of a protocol go behind the base URL: a version or a method must not stand in both."""
    place, url = (*where, "base_url"), provider.base_url.rstrip("/")
    if not url:
        raise source.wrong(place, "missing")
    if not _URL.fullmatch(url):
        raise source.wrong(place, f"expected an http or https URL, got {url!r}")
    path = upstream(provider.protocol).http.path("MODEL", False)
    version = path.split("/")[1]
    for doubled in (path, f"/{version}"):
        if url.endswith(doubled):
            raise source.wrong(place, f"leave out {doubled} at the end: {path} is added to it")


def _headers(source: ConfigSource, where: Path, headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): source.secret((*where, "headers", name), value) for name, value in headers.items()}


def _timeouts(source: ConfigSource, where: Path, given: dict[str, Any]) -> Timeouts:
    table = source.convert((*where, "timeouts"), given, TimeoutsTable)
    return Timeouts(**_given_only(msgspec.structs.asdict(table)))


def _profiles(source: ConfigSource, where: Path, given: dict[str, Any]) -> tuple[ProfileRow, ...]:
    rows: list[ProfileRow] = []
    for pattern, facts in given.items():
        place = (*where, "profiles", pattern)
        if not is_object(facts):
            raise source.wrong(place, "expected a table of facts")
        rows.append(read_profile(source, place, pattern, facts))
    return tuple(rows)


def _given_only(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
