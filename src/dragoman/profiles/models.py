"""Which facts hold for a model at a provider: the rows of both tables, combined field by field.

Precedence, from low to high: rows of models.toml in their order, the provider's row of providers.toml, its
rows for single models, its prices of prices.toml, and dragoman.toml.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.model_profile import ModelProfile

_VERSION = r"(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
_LONGEST = 200  # characters of a name; clients send any, and the cache keeps them
_SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d)$")  # claude-sonnet-4-5-20250929, gpt-5-2025-08-07
_MATCHING = ("match", "vendor", "from", "below")


class ProfileRow(Struct, frozen=True):
    """Facts for the models whose whole name fits `pattern`, in which `*` stands for anything.

    With `like`, facts are looked up under that model's name: for an alias or a deployment.
    """

    pattern: str
    facts: tuple[tuple[str, Any], ...] = ()
    like: str = ""

    def fits(self, model: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), model, re.DOTALL) is not None


class _ModelRow(Struct, frozen=True):
    pattern: re.Pattern[str]
    vendor: str
    least: tuple[int, int] | None
    below: tuple[int, int] | None
    facts: dict[str, Any]

    def fits(self, model: str) -> bool:
        found = self.pattern.search(model)
        if found is None or (self.least is None and self.below is None):
            return found is not None
        version = int(found["major"]), int(found["minor"] or 0)
        return (self.least or (0, 0)) <= version and (self.below is None or version < self.below)


def profile_of(
    model: str, provider: str = "", protocol: str = "", overrides: tuple[ProfileRow, ...] = ()
) -> ModelProfile:
    """`provider` is the name of a known one, or empty: then the vendor's own server is assumed.

    `overrides` are the user's own facts about the provider's models; the longest pattern wins.
    """
    return _profile_of(model[:_LONGEST], provider, protocol, overrides)


@lru_cache(maxsize=1024)
def _profile_of(model: str, provider: str, protocol: str, overrides: tuple[ProfileRow, ...]) -> ModelProfile:
    # the longest pattern counts most
    by_length = sorted(overrides, key=lambda row: len(row.pattern.replace("*", "")))
    matching = [row for row in by_length if row.fits(model)]
    name = next((row.like for row in reversed(matching) if row.like), model)
    facts: dict[str, Any] = {}
    for row in _model_rows():
        if row.fits(name):
            facts |= row.facts
    for row in _server_rows(provider or vendor_server(name, protocol), protocol):
        if row.fits(name):
            facts |= row.facts
    if price := _price(name, provider):
        facts["price"] = price
    for row in matching:
        facts |= row.facts
    return _intern(msgspec.convert(facts, ModelProfile))


@lru_cache(maxsize=1024)
def _intern(profile: ModelProfile) -> ModelProfile:
    """Equal profiles are one object, so that what is cached for a profile is found by identity."""
    return profile


def vendor_server(model: str, protocol: str) -> str:
    """The known provider that is assumed where none is named; without a model, the protocol's own vendor."""
    if model:
        vendor = next((row.vendor for row in reversed(_model_rows()) if row.vendor and row.fits(model)), "")
    else:
        vendor = protocol.partition("-")[0]
    tables = server_tables()
    names = (vendor, f"{vendor}-chat")
    return next((each for each in names if each in tables and protocol in _spoken(tables[each])), "")


def _spoken(table: dict[str, Any]) -> list[str]:
    """The protocols that a provider speaks."""
    return [table["protocol"], *(each["protocol"] for each in table.get("surfaces", ()))]


@lru_cache(maxsize=1)
def server_tables() -> dict[str, dict[str, Any]]:
    """providers.toml; the first of several surfaces gives protocol and address."""
    tables = tomllib.loads(files("dragoman.profiles").joinpath("providers.toml").read_text("utf-8"))
    for table in tables.values():
        if surfaces := table.get("surfaces"):
            table |= {"protocol": surfaces[0]["protocol"], "base_url": surfaces[0]["base_url"]}
    return tables


def _price(model: str, provider: str) -> dict[str, Any] | None:
    """A dated snapshot costs what its alias does, unless it has a row of its own.

    There is no vendor's price for an unknown provider: a reseller has its own.
    """
    table = _prices().get(server_tables().get(provider, {}).get("prices", provider), {})
    row = table.get(model) or table.get(_SNAPSHOT.sub("", model))
    return {"date": _prices()["date"], "source": _prices()["source"], **row} if row else None


def list_priced(provider: str) -> list[str]:
    """The models of a provider whose prices are known."""
    return list(_prices().get(provider, {}))


@lru_cache(maxsize=1)
def _prices() -> dict[str, Any]:
    return tomllib.loads(files("dragoman.profiles").joinpath("prices.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def _model_rows() -> tuple[_ModelRow, ...]:
    table = tomllib.loads(files("dragoman.profiles").joinpath("models.toml").read_text("utf-8"))
    return tuple([_read_row(row) for row in table["models"]])


@lru_cache(maxsize=256)
def _server_rows(provider: str, protocol: str) -> tuple[_ModelRow, ...]:
    """The row of the whole provider, that of its surface, then those of its single models."""
    table = server_tables().get(provider, {})
    whole: dict[str, Any] = {"match": "", **table.get("profile", {})}
    for surface in table.get("surfaces", ()):
        if surface["protocol"] == protocol:
            whole |= surface.get("profile", {})
    return tuple([_read_row(row) for row in (whole, *table.get("models", ()))])


def _read_row(row: dict[str, Any]) -> _ModelRow:
    pattern = re.compile(row["match"].replace("{version}", _VERSION), re.IGNORECASE)
    bounds = [_version(row[key]) if key in row else None for key in ("from", "below")]
    facts = {key: value for key, value in row.items() if key not in _MATCHING}
    return _ModelRow(pattern, row.get("vendor", ""), bounds[0], bounds[1], facts)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
