"""The keys of clients: those of `[server]`, and those of `[keys.NAME]` with their own limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.tables import KeyTable, LimitsTable


class Allowance(Struct, frozen=True):
    """The limits of a key; 0: unlimited."""

    requests_per_minute: int = 0
    concurrency: int = 0
    tokens_per_day: int = 0


class NamedKey(Struct, frozen=True):
    """`expires`: seconds since the epoch, 0: never. `models`: patterns of the names that clients may ask for;
    empty: all."""

    name: str
    key: str
    allowance: Allowance
    expires: float = 0.0
    models: tuple[str, ...] = ()

    def __repr__(self) -> str:  # no secrets
        return f"NamedKey({self.name}, {self.allowance})"


def read_keys(source: ConfigSource, keys: str | tuple[str, ...], *where: str) -> tuple[str, ...]:
    listed = (keys,) if isinstance(keys, str) else keys
    if not all(listed):
        raise source.wrong(where, "an empty key would let everyone in")
    return tuple(source.key(where, key) for key in listed)


def read_named_keys(
    source: ConfigSource, limits: LimitsTable, others: tuple[str, ...]
) -> tuple[NamedKey, ...]:
    """Limits that a named key does not set are those of `[limits]`. `others` are the keys without a name."""
    named: dict[str, NamedKey] = {}
    for name, row in source.table("keys").items():
        where = ("keys", name)
        table = source.convert(where, row, KeyTable)
        if not table.key:
            raise source.wrong((*where, "key"), "missing" if table.key is None else "an empty key")
        key = source.key((*where, "key"), table.key)
        if key in named or key in others:
            other = f"keys.{named[key].name}" if key in named else "server.keys"
            raise source.wrong((*where, "key"), f"the same key as in {other}")
        named[key] = NamedKey(
            name,
            key,
            _allowance(table, limits),
            _expiry(source, (*where, "expires"), table.expires),
            table.models or (),
        )
    return tuple(named.values())


def _allowance(table: KeyTable, limits: LimitsTable) -> Allowance:
    rate, concurrency, tokens = table.requests_per_minute, table.concurrency, table.tokens_per_day
    return Allowance(
        limits.requests_per_minute if rate is None else rate,
        limits.concurrency if concurrency is None else concurrency,
        limits.tokens_per_day if tokens is None else tokens,
    )


def _expiry(source: ConfigSource, where: Path, given: Any) -> float:
    """A date is valid until its end; without an offset, in UTC."""
    if given is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(str(given))
    except ValueError:
        raise source.wrong(where, f"expected a date or a time, got {given!r}") from None
    if len(str(given)) == len("2027-01-31"):
        moment += timedelta(days=1)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
