"""The keys of clients: those of `[server]`, and those of `[keys.NAME]` with their own limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.tables import BudgetTable, KeyTable, LimitsTable


class ModelBudget(Struct, frozen=True):
    """The budgets of a key for the models that fit `pattern`; 0: unlimited."""

    pattern: str
    tokens_per_day: int = 0
    usd_per_day: float = 0.0
    usd_per_month: float = 0.0


class Allowance(Struct, frozen=True):
    """The limits of a key; 0: unlimited."""

    requests_per_minute: int = 0
    concurrency: int = 0
    tokens_per_day: int = 0
    usd_per_day: float = 0.0
    usd_per_month: float = 0.0
    budgets: tuple[ModelBudget, ...] = ()

    @property
    def has_budget(self) -> bool:
        return bool(self.tokens_per_day or self.usd_per_day or self.usd_per_month or self.budgets)

    @property
    def counts_dollars(self) -> bool:
        return any(each.usd_per_day or each.usd_per_month for each in (self, *self.budgets))


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
        source.note(source.wrong(where, "an empty key would let everyone in"))
    if isinstance(keys, str):
        return (source.key(where, keys),)
    return tuple([source.key((*where, f"[{place}]"), key) for place, key in enumerate(keys)])


def read_named_keys(
    source: ConfigSource, limits: LimitsTable, others: tuple[str, ...]
) -> tuple[NamedKey, ...]:
    """Limits that a named key does not set are those of `[limits]`. `others` are the keys without a name."""
    named: dict[str, NamedKey] = {}
    for name, row in source.table("keys").items():
        where = ("keys", name)
        with source.noting():
            table = source.convert(where, row, KeyTable)
            key = _key(source, (*where, "key"), table.key)
            if key in named or key in others:
                other = f"keys.{named[key].name}" if key in named else "server.keys"
                source.note(source.wrong((*where, "key"), f"the same key as in {other}"))
            named[key] = NamedKey(
                name,
                key,
                _allowance(source, where, table, limits),
                _expiry(source, (*where, "expires"), table.expires),
                table.models or (),
            )
    return tuple(named.values())


def _key(source: ConfigSource, where: Path, given: str | None) -> str:
    if not given:
        source.note(source.wrong(where, "missing" if given is None else "an empty key"))
    return source.key(where, given or "")


def default_allowance(limits: LimitsTable) -> Allowance:
    """Of a key that sets none of its own."""
    return Allowance(**{name: getattr(limits, name) for name in _LIMITS})


_LIMITS = ("requests_per_minute", "concurrency", "tokens_per_day", "usd_per_day", "usd_per_month")


def _allowance(source: ConfigSource, where: Path, table: KeyTable, limits: LimitsTable) -> Allowance:
    own = {name: value for name in _LIMITS if (value := getattr(table, name)) is not None}
    budgets = [
        ModelBudget(pattern, *astuple(source.convert((*where, "budgets", pattern), row, BudgetTable)))
        for pattern, row in (table.budgets or {}).items()
    ]
    return replace(default_allowance(limits), **own, budgets=tuple(budgets))


def _expiry(source: ConfigSource, where: Path, given: Any) -> float:
    """A date is valid until its end; without an offset, in UTC."""
    if given is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(str(given))
    except ValueError:
        source.note(source.wrong(where, f"expected a date or a time, got {given!r}"))
        return 0.0
    if len(str(given)) == len("2027-01-31"):
        moment += timedelta(days=1)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
