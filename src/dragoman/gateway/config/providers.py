"""`[providers]`: those of the file, and every known one whose key is in the environment."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.core.credentials import NO_CREDENTIAL, Credential, CredentialSource
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import is_object
from dragoman.core.optional import MissingExtraError
from dragoman.core.transport import Timeouts
from dragoman.credentials import credential_source
from dragoman.dialects import names as dialect_names
from dragoman.gateway.config.models import OVERRIDES, read_overrides, read_profile
from dragoman.gateway.config.source import ConfigSource, Path, did_you_mean
from dragoman.gateway.config.tables import (
    CredentialsTable,
    PoolKeyTable,
    ProviderTable,
    SurfaceTable,
    TimeoutsTable,
)
from dragoman.profiles import PoolKey, ProfileRow, ProviderSettings, Surface, http_url, known
from dragoman.protocols import upstream, upstream_names

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, token
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OPTIONS = ("region", "project", "location")
_CREDENTIAL = ("key", "id", "secret", "session", "region", "token")
_PROXY = re.compile(r"http://(?:[^\s/@]+@)?(?:[^\s/:@]+|\[[0-9a-f:.]+\])(?::\d{1,5})?/?", re.IGNORECASE)
_URL = re.compile(r"(?:https?|wss?)://[^\s/]+\S*|demo:")


def read_providers(source: ConfigSource) -> dict[str, ProviderSettings]:
    providers = {name: _provider(source, name, row) for name, row in source.table("providers").items()}
    for name, provider in known().items():
        if name not in providers and (key := _usual_key(source, provider)):
            credential = Credential(key=key)
            providers[name] = replace(_at_usual_url(source, provider), credentials=credential)
    return providers


def _at_usual_url(source: ConfigSource, provider: ProviderSettings) -> ProviderSettings:
    """At the address that the vendor's own SDK would use in this environment."""
    url, where = provider.url_in(source.environ), ("providers", provider.name)
    if not url or url == provider.base_url:
        return provider
    source.blame((*where, "base_url"), provider.url_env)
    moved = replace(provider, base_url=url, url_from=provider.url_env, keeps=False, surfaces=())
    _check_url(source, where, moved)
    return moved


def _provider(source: ConfigSource, name: str, row: Any) -> ProviderSettings:
    where = ("providers", name)
    table = source.convert(where, row, ProviderTable)
    if not re.fullmatch(r"[^\s:/]+", name):
        raise source.wrong(where, "the name of a provider has no spaces, colons or slashes")
    base = known().get(name) or ProviderSettings(name=name, protocol="", base_url="")
    if not table.base_url:
        base = _at_usual_url(source, base)
    base, surfaces = _surfaces(source, where, table, base)
    given: dict[str, Any] = {
        **msgspec.structs.asdict(table),
        "surfaces": surfaces,
        "overrides": read_overrides(source, where, msgspec.structs.asdict(table)),
        "base_url": _address(source, (*where, "base_url"), table.base_url),
        "credentials": None,
        "proxy": _proxy(source, (*where, "proxy"), table.proxy) if table.proxy else None,
        "headers": _headers(source, where, table.headers) if table.headers else None,
        "timeouts": _timeouts(source, where, table.timeouts) if table.timeouts else None,
        "profiles": _profiles(source, where, table.profiles) if table.profiles else None,
    }
    if given["base_url"] and http_url(given["base_url"]) != base.base_url:
        base = replace(base, keeps=False)  # which is true of the known address only
    if table.api_keys is not None:
        given["pool"] = _pool(source, (*where, "api_keys"), table)
    for name in (*OVERRIDES, *_OPTIONS, "api_key", "api_keys"):
        del given[name]
    provider = replace(base, **_given_only(given))
    for each in (provider, *map(provider.at, surfaces)):
        _check_names(source, where, each)
    options = {
        name: source.text((*where, name), value) for name in _OPTIONS if (value := getattr(table, name))
    }
    if not provider.base_url and (address := upstream(provider.protocol).http.address):
        provider = replace(provider, base_url=_made(source, (*where, "base_url"), address, options))
    for each in (provider, *map(provider.at, surfaces)):
        _check_url(source, where, each)
    if provider.pool:
        return replace(provider, credentials=Credential(key=provider.pool[0].key))
    credentials = _credentials(source, where, table, base, provider.protocol, options)
    return replace(provider, credentials=credentials)


def _surfaces(
    source: ConfigSource, where: Path, table: ProviderTable, base: ProviderSettings
) -> tuple[ProviderSettings, tuple[Surface, ...]]:
    """The surfaces, and the provider at the first of them. Whoever names one protocol gets that one."""
    if table.surfaces is None:
        found = next((each for each in base.surfaces if each.protocol == table.protocol), None)
        if found:
            base = base.at(found)
        is_one = table.protocol or table.dialect
        url = _address(source, (*where, "base_url"), table.base_url)
        surfaces = base.moved(http_url(url.rstrip("/"))) if url else base.surfaces
        return base, () if is_one else surfaces
    place = (*where, "surfaces")
    if table.protocol or table.base_url or table.dialect or not table.surfaces:
        problem = "stands instead of protocol and base_url, and no dialect goes with it"
        raise source.wrong(place, problem if table.surfaces else "expected at least one surface")
    rows = [source.convert(place, row, SurfaceTable) for row in table.surfaces]
    if len({row.protocol for row in rows}) < len(rows):
        raise source.wrong(place, "a protocol is there twice")
    listed = tuple(
        [
            Surface(row.protocol, http_url(_address(source, place, row.base_url) or ""), row.bearer)
            for row in rows
        ]
    )
    return replace(base, protocol=listed[0].protocol, base_url=listed[0].base_url, keeps=False), listed


def _made(source: ConfigSource, where: Path, address: Any, options: dict[str, str]) -> str:
    try:
        return address(options, source.environ)
    except ConfigError as error:
        raise source.wrong(where, str(error)) from None


def _credentials(
    source: ConfigSource,
    where: Path,
    table: ProviderTable,
    base: ProviderSettings,
    protocol: str,
    options: dict[str, str],
) -> CredentialSource:
    """Those of the file, or else the key in the provider's usual variables."""
    place, http = (*where, "credentials"), upstream(protocol).http
    row = source.convert(place, table.credentials or {}, CredentialsTable)
    values = {
        name: source.key((*place, name), value)
        for name, value in msgspec.structs.asdict(row).items()
        if value
    }
    if table.api_key:
        if "key" in values:
            raise source.wrong((*where, "api_key"), "credentials.key says the same: leave one of them out")
        values["key"] = source.key((*where, "api_key"), table.api_key)
    named = {name: values.pop(name) for name in _CREDENTIAL if name in values}
    given = msgspec.convert(named, Credential)
    if not given and (key := _usual_key(source, base)):
        given = replace(given, key=key)
    try:
        found = credential_source(http, given, options | values, source.environ)
    except (ConfigError, MissingExtraError) as error:
        raise source.wrong(place, str(error)) from None
    return found or NO_CREDENTIAL


def _proxy(source: ConfigSource, where: Path, given: str) -> str:
    url = source.secret(where, given)
    if not _PROXY.fullmatch(url):
        raise source.wrong(where, "expected http://HOST:PORT; other kinds of proxies are not supported")
    return url


def _pool(source: ConfigSource, where: Path, table: ProviderTable) -> tuple[PoolKey, ...]:
    """A key is called as its entry says, else by its variable, else by its place."""
    if table.api_key or table.credentials or table.passthrough or not table.api_keys:
        problem = "expected at least one key"
        if table.api_keys:
            problem = "stands instead of api_key, credentials and passthrough: keep one of them"
        raise source.wrong(where, problem)
    keys: list[PoolKey] = []
    for number, given in enumerate(table.api_keys, 1):
        row = source.convert(where, {"key": given} if isinstance(given, str) else given, PoolKeyTable)
        variable = row.key.removeprefix("env:") if row.key.startswith("env:") else ""
        key = source.key(where, row.key)
        if not key:
            raise source.wrong(where, f"key {number} is empty")
        name = row.name or variable or f"key-{number}"
        if name in [each.name for each in keys] or key in [each.key for each in keys]:
            raise source.wrong(where, f"{name} is there twice")
        keys.append(PoolKey(name, key, row.weight))
    return tuple(keys)


def _address(source: ConfigSource, where: Path, given: str | None) -> str | None:
    """`env:NAME`, with a path behind it or without, reads the beginning from a variable."""
    if given is None or not given.startswith("env:"):
        return given
    variable, slash, path = given.partition("/")
    return source.secret(where, variable).rstrip("/") + slash + path


def _usual_key(source: ConfigSource, provider: ProviderSettings) -> str:
    """The key in the provider's usual variables; a line break at its end is a slip of `export`."""
    name = next((name for name in provider.key_variables if source.environ.get(name)), "")
    key = source.environ[name].strip() if name else ""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{name}: a key is made of visible ASCII characters; this one has others")
    return key


def _check_names(source: ConfigSource, where: Path, provider: ProviderSettings) -> None:
    for key, value, allowed in (
        ("protocol", provider.protocol, upstream_names()),
        ("dialect", provider.dialect, (None, *dialect_names())),
    ):
        if value not in allowed:
            listed = [name for name in allowed if name]
            problem = f"unknown {key} {value!r}{did_you_mean(value or '', listed)}" if value else "missing"
            raise source.wrong((*where, key), f"{problem}; known: {', '.join(listed)}")


def _check_url(source: ConfigSource, where: Path, provider: ProviderSettings) -> None:
    """The paths of a protocol go behind the base URL: a version or a method must not stand in both."""
    place, url = (*where, "base_url"), provider.base_url.rstrip("/")
    if not url:
        raise source.wrong(place, "missing")
    if not _URL.fullmatch(url):
        raise source.wrong(place, f"expected an http or https URL, got {re.sub('//[^/]*@', '//', url)!r}")
    if url.startswith(("ws:", "wss:")) and provider.protocol != "openai-responses":
        raise source.wrong(place, "only openai-responses has a WebSocket: use https")
    if "?" in url or "#" in url:
        raise source.wrong(place, "paths are appended to it, so it has no query and no fragment")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise source.wrong(place, "a URL holds no credentials: use api_key or headers")
    _check_port(source, place, url)
    path = upstream(provider.protocol).http.path("MODEL", False)
    version = path.split("/")[1]
    for doubled in (path, f"/{version}"):
        if url.endswith(doubled):
            raise source.wrong(place, f"leave out {doubled} at the end: {path} is added to it")


def _check_port(source: ConfigSource, place: Path, url: str) -> None:
    try:
        urlsplit(url).port  # noqa: B018 - which raises where it is not a number of 16 bits
    except ValueError:
        raise source.wrong(place, "the port is not a number up to 65535") from None


def _headers(source: ConfigSource, where: Path, headers: dict[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, given in headers.items():
        place = (*where, "headers", name)
        value = source.secret(place, given)
        if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
            raise source.wrong(place, "not a header: a name of letters, digits and dashes, one line of text")
        values[name.lower()] = value
    return values


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
