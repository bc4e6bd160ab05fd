"""The credentials of a provider: one, or a pool of several with weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.core.credentials import NO_CREDENTIAL, Credential, CredentialSource
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import is_array
from dragoman.core.optional import MissingExtraError
from dragoman.credentials import credential_source
from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.tables import CredentialsTable, PooledTable, ProviderTable
from dragoman.profiles import PooledCredential, ProviderSettings
from dragoman.protocols import upstream

_PLAIN = ("region", "tenant", "file", "identity")  # the others are secrets, which travel in headers

Options = Mapping[str, str]  # other settings of the provider, which credentials may be fetched with


def has_pool(table: ProviderTable) -> bool:
    return table.api_keys is not None or is_array(table.credentials)


def read_credentials(
    source: ConfigSource, table: ProviderTable, provider: ProviderSettings, options: Options
) -> CredentialSource:
    """Those of the file, or else the key in the provider's usual variables."""
    where = ("providers", provider.name)
    at = (*where, "credentials")
    values = _values(source, at, source.convert(at, table.credentials or {}, CredentialsTable))
    if table.api_key:
        if "key" in values:
            raise source.wrong((*where, "api_key"), "credentials.key says the same: leave one of them out")
        values["key"] = source.key((*where, "api_key"), table.api_key)
    elif not values.keys() & {"key", "id", "token"} and (key := usual_key(source, provider)):
        values["key"] = key
    if source.is_mistaken(where):
        return NO_CREDENTIAL
    return _credential(source, at, values, provider, options) or NO_CREDENTIAL


def read_pool(
    source: ConfigSource, table: ProviderTable, provider: ProviderSettings, options: Options
) -> tuple[PooledCredential, ...]:
    """A credential is called as its entry says, else by its variable, else by its place."""
    field = "api_keys" if table.api_keys is not None else "credentials"
    where = ("providers", provider.name, field)
    given = getattr(table, field)
    if not given:
        raise source.wrong(where, "expected at least one key")
    if table.api_key or table.passthrough or (table.api_keys is not None and table.credentials):
        raise source.wrong(where, "replaces api_key, credentials and passthrough: keep one of them")
    pool: list[PooledCredential] = []
    for place, entry in enumerate(given):
        at = (*where, f"[{place}]")
        with source.noting():
            if pooled := _read_pooled(source, at, entry, provider, options):
                if any(each.name == pooled.name or each.account == pooled.account for each in pool):
                    raise source.wrong(at, f"{pooled.name} is there twice")
                pool.append(pooled)
    return tuple(pool)


def _read_pooled(
    source: ConfigSource, at: Path, entry: Any, provider: ProviderSettings, options: Options
) -> PooledCredential | None:
    """None: the entry is mistaken, which was noted."""
    row = source.convert(at, {"key": entry} if isinstance(entry, str) else entry, PooledTable)
    values = _values(source, at, row)
    if source.is_mistaken(at):
        return None
    credential = _credential(source, at, values, provider, options)
    if credential is None:
        raise source.wrong(at, "expected a key, or what a credential is made or fetched with")
    number = int(at[-1].strip("[]")) + 1
    return PooledCredential(row.name or _variable(row) or f"key-{number}", credential, row.weight)


def usual_key(source: ConfigSource, provider: ProviderSettings) -> str:
    """The key in the provider's usual variables; a line break at its end is a slip of `export`."""
    name = next((name for name in provider.key_variables if source.environ.get(name)), "")
    key = source.environ[name].strip() if name else ""
    if not key.isascii() or not key.isprintable() or " " in key:
        where = ("providers", provider.name, "api_key")
        source.blame(where, name)
        source.note(source.wrong(where, "A key is made of visible ASCII characters. This one has others."))
    return key


def _values(source: ConfigSource, where: Path, row: CredentialsTable) -> dict[str, str]:
    """What the row gives, by its names."""
    given = {name: value for name in CredentialsTable.__struct_fields__ if (value := getattr(row, name))}
    return {
        name: (source.text if name in _PLAIN else source.key)((*where, name), value)
        for name, value in given.items()
    }


def _credential(
    source: ConfigSource, where: Path, values: dict[str, str], provider: ProviderSettings, options: Options
) -> CredentialSource | None:
    """What `values` say, or what is fetched with them; None: they say nothing, and nothing is fetched."""
    fields = Credential.__struct_fields__
    given = msgspec.convert({name: values[name] for name in values if name in fields}, Credential)
    others = {name: values[name] for name in values if name not in fields}
    http = upstream(provider.protocol).http
    try:
        return credential_source(http, given, {**options, **others}, source.environ) or None
    except (ConfigError, MissingExtraError) as error:
        raise source.wrong(where, str(error)) from None


def _variable(row: CredentialsTable) -> str:
    """The first variable that the entry names."""
    values = [getattr(row, name) for name in CredentialsTable.__struct_fields__]
    return next((value.removeprefix("env:") for value in values if value.startswith("env:")), "")
