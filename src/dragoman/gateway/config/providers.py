"""`[providers]`: those of the file, and every known one whose key is in the environment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.core.credentials import Credential
from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.core.jsontext import is_object
from dragoman.core.transport import Timeouts
from dragoman.dialects import names as dialect_names
from dragoman.gateway.config.credentials import has_pool, read_credentials, read_pool, usual_key
from dragoman.gateway.config.models import OVERRIDES, read_overrides, read_profile
from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.tables import ProviderTable, SurfaceTable, TimeoutsTable
from dragoman.profiles import ProfileRow, ProviderSettings, Surface, http_url, known
from dragoman.protocols import upstream, upstream_names

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, token
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OPTIONS = ("region", "project", "location")
_CREDENTIALS = ("api_key", "api_keys", "credentials")
_PROXY = re.compile(r"http://(?:[^\s/@]+@)?(?:[^\s/:@]+|\[[0-9a-f:.]+\])(?::\d{1,5})?/?", re.IGNORECASE)
_URL = re.compile(r"(?:https?|wss?)://[^\s/]+\S*|demo:")


def read_providers(source: ConfigSource) -> dict[str, ProviderSettings]:
    table = source.table("providers")
    providers: dict[str, ProviderSettings] = {}
    for name, row in table.items():
        with source.noting():
            providers[name] = _provider(source, name, row)
    for name, provider in known().items():
        if name not in table and (key := usual_key(source, provider)):
            with source.noting():
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
    given = _read_fields(source, where, table)
    if given.get("base_url") and http_url(given["base_url"]) != base.base_url:
        base = replace(base, keeps=False)  # which is true of the known address only
    provider = replace(base, surfaces=surfaces, **given)
    _check(source, where, provider)
    options = {
        name: source.text((*where, name), value) for name in _OPTIONS if (value := getattr(table, name))
    }
    if source.is_mistaken(where):  # a key that is missing may be the one that is misspelt
        return provider
    if not provider.protocol:
        raise source.wrong(
            (*where, "protocol"), f"The protocol is missing. Known: {', '.join(upstream_names())}"
        )
    if not provider.base_url:
        provider = _at_made_url(source, where, provider, options)
    if has_pool(table):
        pool = read_pool(source, table, provider, options)
        return replace(provider, pool=pool, credentials=pool[0].credentials) if pool else provider
    return replace(provider, credentials=read_credentials(source, table, provider, options))


def _check(source: ConfigSource, where: Path, provider: ProviderSettings) -> None:
    """At each of its surfaces."""
    for each in (provider, *map(provider.at, provider.surfaces)):
        _check_names(source, where, each)
        if each.base_url and each.protocol in upstream_names():
            with source.noting():
                _check_url(source, where, each)


def _surfaces(
    source: ConfigSource, where: Path, table: ProviderTable, base: ProviderSettings
) -> tuple[ProviderSettings, tuple[Surface, ...]]:
    """The surfaces, and the provider at the first of them. Whoever names one protocol gets that one."""
    if table.surfaces is None:
        url = _address(source, (*where, "base_url"), table.base_url) or ""
        surfaces = base.surfaces_for(url, table.protocol or "", table.dialect)
        found = next((each for each in base.surfaces if each.protocol == table.protocol), None)
        return base.at(found) if found else base, surfaces
    if table.protocol or table.base_url or table.dialect or not table.surfaces:
        problem = "replaces protocol and base_url, and cannot be combined with a dialect"
        raise source.wrong(
            (*where, "surfaces"), problem if table.surfaces else "expected at least one surface"
        )
    listed = _read_surfaces(source, (*where, "surfaces"), table.surfaces)
    return replace(base, protocol=listed[0].protocol, base_url=listed[0].base_url, keeps=False), listed


def _read_surfaces(source: ConfigSource, place: Path, given: Sequence[Any]) -> tuple[Surface, ...]:
    rows = [source.convert((*place, f"[{number}]"), row, SurfaceTable) for number, row in enumerate(given)]
    if not all(row.base_url for row in rows):
        raise source.wrong(place, "base_url is missing")
    if len({row.protocol for row in rows}) < len(rows):
        raise source.wrong(place, "a protocol is there twice")
    urls = [http_url(_address(source, place, row.base_url) or "") for row in rows]
    return tuple([Surface(row.protocol, url, row.bearer) for row, url in zip(rows, urls, strict=True)])


def _read_fields(source: ConfigSource, where: Path, table: ProviderTable) -> dict[str, Any]:
    """What the table says of the fields of ProviderSettings, but for credentials."""
    plain = msgspec.structs.asdict(table)
    for name in (*_OPTIONS, *_CREDENTIALS, "surfaces"):
        del plain[name]
    given: dict[str, Any] = {
        **{name: value for name, value in plain.items() if name not in OVERRIDES},
        "overrides": read_overrides(source, where, plain),
        "base_url": _address(source, (*where, "base_url"), table.base_url),
        "proxy": _proxy(source, (*where, "proxy"), table.proxy) if table.proxy else None,
        "headers": _headers(source, where, table.headers) if table.headers else None,
        "timeouts": _timeouts(source, where, table.timeouts) if table.timeouts else None,
        "profiles": _profiles(source, where, table.profiles) if table.profiles else None,
    }
    return _drop_none(given)


def _at_made_url(
    source: ConfigSource, where: Path, provider: ProviderSettings, options: dict[str, str]
) -> ProviderSettings:
    """At the address that follows from the options, where the protocol has such a rule."""
    place, address = (*where, "base_url"), upstream(provider.protocol).http.address
    if not address:
        raise source.wrong(place, "missing")
    try:
        made = replace(provider, base_url=address(options, source.environ))
    except ConfigError as error:
        raise source.wrong(place, str(error)) from None
    _check_url(source, where, made)
    return made


def _proxy(source: ConfigSource, where: Path, given: str) -> str:
    url = source.secret(where, given)
    if not _PROXY.fullmatch(url):
        source.note(
            source.wrong(where, "Expected http://HOST:PORT. Other kinds of proxies are not supported.")
        )
    return url


def _address(source: ConfigSource, where: Path, given: str | None) -> str | None:
    """`env:NAME`, with a path behind it or without, reads the beginning from a variable."""
    if given is None or not given.startswith("env:"):
        return given
    variable, slash, path = given.partition("/")
    return source.secret(where, variable).rstrip("/") + slash + path


def _check_names(source: ConfigSource, where: Path, provider: ProviderSettings) -> None:
    for key, value, allowed in (
        ("protocol", provider.protocol, upstream_names()),
        ("dialect", provider.dialect, dialect_names()),
    ):
        if value and value not in allowed:
            source.note(source.wrong((*where, key), describe_unknown(key, value, allowed)))


def _check_url(source: ConfigSource, where: Path, provider: ProviderSettings) -> None:
    """The paths of a protocol go behind the base URL: a version or a method must not stand in both."""
    place, url = (*where, "base_url"), provider.base_url.rstrip("/")
    if not _URL.fullmatch(url):
        raise source.wrong(place, f"expected an http or https URL, got {re.sub('//[^/]*@', '//', url)!r}")
    if url.startswith(("ws:", "wss:")) and provider.protocol != "openai-responses":
        raise source.wrong(place, "only openai-responses has a WebSocket: use https")
    if "?" in url or "#" in url:
        raise source.wrong(place, "paths are appended to it, so it cannot have a query or a fragment")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise source.wrong(place, "write no credentials into a URL: use api_key or headers")
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
            problem = "not a header: a name of letters, digits and dashes, one line of text"
            source.note(source.wrong(place, problem))
        values[name.lower()] = value
    return values


def _timeouts(source: ConfigSource, where: Path, given: dict[str, Any]) -> Timeouts:
    table = source.convert((*where, "timeouts"), given, TimeoutsTable)
    return Timeouts(**_drop_none(msgspec.structs.asdict(table)))


def _profiles(source: ConfigSource, where: Path, given: dict[str, Any]) -> tuple[ProfileRow, ...]:
    rows: list[ProfileRow] = []
    for pattern, facts in given.items():
        place = (*where, "profiles", pattern)
        if not is_object(facts):
            source.note(source.wrong(place, "expected a table of facts"))
            continue
        rows.append(read_profile(source, place, pattern, facts))
    return tuple(rows)


def _drop_none(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
