"""`dragoman.toml`: who may ask, which providers there are, and which model goes where.

Every mistake is named with its file, its line and what would have been right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import is_array, is_object
from dragoman.dialects import names as dialect_names
from dragoman.profiles import Provider, known
from dragoman.protocols import names as protocol_names
from dragoman.transport import Timeouts

DEFAULT_FILE = "dragoman.toml"
_MB = 1024 * 1024


class Config(Struct, frozen=True, kw_only=True):
    """`models` maps what a client asks for (`*` matches anything) to targets `provider:model`, in order."""

    host: str = "127.0.0.1"
    port: int = 8787
    keys: tuple[str, ...] = ()
    max_body: int = 64 * _MB
    providers: dict[str, Provider] = {}
    models: tuple[tuple[str, tuple[str, ...]], ...] = ()
    store_url: str = ""

    @property
    def loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")


def load_file(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration in `path`; without one the default file where it exists, else the environment alone."""
    chosen = path or environ.get("DRAGOMAN_CONFIG") or DEFAULT_FILE
    try:
        text = Path(chosen).read_text()
    except FileNotFoundError:
        if path or environ.get("DRAGOMAN_CONFIG"):
            raise ConfigError(f"{chosen}: no such file") from None
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{chosen}: {error}") from None
    return load(text, environ, chosen)


def load(text: str, environ: Mapping[str, str], path: str = DEFAULT_FILE) -> Config:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    return _Reader(text, path, environ).config(table)


class _Reader:
    """Reads one file; knows where each key stands in it."""

    def __init__(self, text: str, path: str, environ: Mapping[str, str]) -> None:
        self._lines, self._path, self._environ = text.splitlines(), path, environ

    def config(self, table: dict[str, Any]) -> Config:
        self._known_keys(table, "", ("server", "store", "providers", "models"))
        server, store = self._table(table, "server"), self._table(table, "store")
        self._known_keys(server, "server", ("host", "port", "keys", "max_body_mb"))
        self._known_keys(store, "store", ("url",))
        config = Config(
            host=self._environ.get("DRAGOMAN_HOST") or self._text(server, "server", "host", "127.0.0.1"),
            port=self._port(server),
            keys=self._keys(server),
            max_body=self._number(server, "server", "max_body_mb", 64) * _MB,
            providers=self._providers(self._table(table, "providers")),
            store_url=self._environ.get("DRAGOMAN_STORE") or self._text(store, "store", "url", ""),
        )
        config = replace(config, models=self._models(self._table(table, "models"), config.providers))
        if not config.loopback and not config.keys:
            raise self._wrong(
                "server", "host", f"without keys the gateway listens on loopback only, not on {config.host}"
            )
        return config

    def _port(self, server: dict[str, Any]) -> int:
        text = self._environ.get("DRAGOMAN_PORT", "")
        port = int(text) if text.isdigit() else self._number(server, "server", "port", 8787)
        if not 0 <= port <= 65535:
            raise self._wrong("server", "port", f"a port is between 0 and 65535, not {port}")
        return port

    def _keys(self, server: dict[str, Any]) -> tuple[str, ...]:
        if "DRAGOMAN_KEY" in self._environ and "keys" not in server:
            return (self._environ["DRAGOMAN_KEY"],)
        keys = server.get("keys", [])
        if not is_array(keys) or not all(isinstance(key, str) and key for key in keys):
            raise self._wrong("server", "keys", "expected an array of non-empty strings")
        return tuple(self._secret(key, "server", "keys") for key in keys)

    # Providers

    def _providers(self, table: dict[str, Any]) -> dict[str, Provider]:
        """Those of the file, and every known one whose key is in the environment."""
        providers = {name: self._provider(name, row) for name, row in table.items()}
        for name, provider in known().items():
            if name not in providers and provider.key_env and self._environ.get(provider.key_env):
                providers[name] = replace(provider, api_key=self._environ[provider.key_env])
        return providers

    def _provider(self, name: str, row: Any) -> Provider:
        where = f"providers.{name}"
        if not is_object(row):
            raise self._wrong("providers", name, "expected a table")
        self._known_keys(row, where, _PROVIDER_KEYS)
        base = known().get(name) or Provider(name=name, protocol="", base_url="")
        protocol = self._one_of(row, where, "protocol", base.protocol, protocol_names())
        dialect = self._one_of(row, where, "dialect", "", dialect_names()) if "dialect" in row else None
        base_url = self._text(row, where, "base_url", base.base_url)
        if not re.match(r"https?://[^\s/]+", base_url):
            raise self._wrong(where, "base_url", f"expected an http or https URL, got {base_url!r}")
        key = self._text(row, where, "api_key", "")
        return Provider(
            name=name,
            protocol=protocol,
            base_url=base_url,
            api_key=self._secret(key, where, "api_key") if key else self._environ.get(base.key_env, ""),
            key_env=base.key_env,
            dialect=dialect,
            recover=self._flag(row, where, "recover"),
            passthrough=self._flag(row, where, "passthrough"),
            headers=self._headers(row, where),
            timeouts=self._timeouts(row, where),
            max_concurrency=self._number(row, where, "max_concurrency", 0),
            models=tuple(str(model) for model in row.get("models", ())),
        )

    def _headers(self, row: dict[str, Any], where: str) -> dict[str, str]:
        headers = row.get("headers", {})
        if not is_object(headers) or not all(isinstance(value, str) for value in headers.values()):
            raise self._wrong(where, "headers", "expected a table of strings")
        return {name.lower(): self._secret(value, where, "headers") for name, value in headers.items()}

    def _timeouts(self, row: dict[str, Any], where: str) -> Timeouts:
        given = row.get("timeouts", {})
        if not is_object(given):
            raise self._wrong(where, "timeouts", "expected a table, such as { connect = 5, idle = 60 }")
        self._known_keys(given, f"{where}.timeouts", ("connect", "first_byte", "idle"))
        for key, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise self._wrong(where, "timeouts", f"{key}: expected a number of seconds, got {value!r}")
        return Timeouts(**given)

    # Models

    def _models(
        self, table: dict[str, Any], providers: Mapping[str, Provider]
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        rows: list[tuple[str, tuple[str, ...]]] = []
        for asked, targets in table.items():
            listed = [targets] if isinstance(targets, str) else targets
            if not is_array(listed) or not listed or not all(isinstance(target, str) for target in listed):
                raise self._wrong("models", asked, 'expected "provider:model" or an array of them')
            for target in listed:
                self._check_target(asked, str(target), providers)
            rows.append((asked, tuple(str(target) for target in listed)))
        return tuple(rows)

    def _check_target(self, asked: str, target: str, providers: Mapping[str, Provider]) -> None:
        name, colon, _ = target.partition(":")
        if not colon:
            raise self._wrong(
                "models", asked, f"{target!r} does not say which provider: write provider:model"
            )
        if name not in providers and name not in known() and name != "demo":
            raise self._wrong(
                "models", asked, f"unknown provider {name!r}{_did_you_mean(name, [*providers, *known()])}"
            )

    # Values

    def _table(self, table: dict[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not is_object(value):
            raise self._wrong("", key, "expected a table")
        return value

    def _text(self, table: dict[str, Any], where: str, key: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(where, key, f"expected a string, got {value!r}")
        return value

    def _number(self, table: dict[str, Any], where: str, key: str, default: int) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(where, key, f"expected a whole number, got {value!r}")
        return value

    def _flag(self, table: dict[str, Any], where: str, key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(where, key, f"expected true or false, got {value!r}")
        return value

    def _one_of(
        self, table: dict[str, Any], where: str, key: str, default: str, allowed: tuple[str, ...]
    ) -> str:
        value = self._text(table, where, key, default)
        if value not in allowed:
            problem = f"expected one of {', '.join(allowed)}, got {value!r}" if value else "missing"
            raise self._wrong(where, key, problem + _did_you_mean(value, allowed))
        return value

    def _secret(self, value: str, where: str, key: str) -> str:
        """`env:NAME` reads a variable, so that no secret need stand in a file."""
        if not value.startswith("env:"):
            return value
        name = value.removeprefix("env:")
        if not self._environ.get(name):
            raise self._wrong(where, key, f"the variable {name} is not set")
        return self._environ[name]

    def _known_keys(self, table: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> None:
        for key in table:
            if key not in allowed:
                raise self._wrong(
                    where,
                    key,
                    "unknown key" + (_did_you_mean(key, allowed) or f"; known: {', '.join(allowed)}"),
                )

    def _wrong(self, where: str, key: str, problem: str) -> ConfigError:
        line = self._line(where, key)
        place = f"{self._path}:{line}" if line else self._path
        return ConfigError(f"{place}: {where + '.' if where else ''}{key}: {problem}")

    def _line(self, where: str, key: str) -> int:
        """The line on which `key` of table `where` stands, 0 where it stands nowhere."""
        table = ""
        header = re.compile(r"\s*\[\s*([^\]]+?)\s*\]")
        entry = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.)")
        for number, line in enumerate(self._lines, 1):
            if found := header.match(line):
                table = found[1].replace('"', "").replace("'", "")
                if table in (f"{where}.{key}".strip("."), f"{where}.{key}".split(".timeouts")[0]):
                    return number
            elif table == where and entry.match(line):
                return number
        return self._line(where.rpartition(".")[0], where.rpartition(".")[2]) if where else 0


_PROVIDER_KEYS = (
    "protocol",
    "base_url",
    "api_key",
    "dialect",
    "recover",
    "passthrough",
    "headers",
    "timeouts",
    "max_concurrency",
    "models",
)


def _did_you_mean(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
