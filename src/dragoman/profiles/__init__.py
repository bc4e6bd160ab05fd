"""Facts about providers, as data."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files

from msgspec import Struct

from dragoman.transport.messages import Timeouts


class Provider(Struct, frozen=True, kw_only=True):
    """An upstream with an address and a key.

    `key_env` names the variable that usually holds the key; a provider without one needs no key.
    `passthrough`: the client's own key is sent on.
    """

    name: str
    protocol: str
    base_url: str
    api_key: str = ""
    key_env: str = ""
    dialect: str | None = None
    recover: bool = False
    passthrough: bool = False
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    max_concurrency: int = 0
    models: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def known() -> dict[str, Provider]:
    """The providers that need nothing but their key."""
    table = tomllib.loads(files(__package__).joinpath("providers.toml").read_text())
    return {
        name: Provider(
            name=name, protocol=row["protocol"], base_url=row["base_url"], key_env=row.get("key", "")
        )
        for name, row in table.items()
    }
