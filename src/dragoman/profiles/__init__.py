"""Facts about providers, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from msgspec import Struct

from dragoman.core.transport import Timeouts


class Provider(Struct, frozen=True, kw_only=True):
    """An upstream with an address and a key.

    `key_env` names the variable that usually holds the key, `other_key_envs` where it may be as well; a
    provider without one needs no key. `passthrough`: the client's own key is sent on. `keeps`: it stores
    conversations itself where a client asks for that in its own protocol. At most
    `max_concurrency` exchanges are under way there (0: any number), `queue` more wait for `queue_seconds`.
    """

    name: str
    protocol: str
    base_url: str
    api_key: str = ""
    key_env: str = ""
    other_key_envs: tuple[str, ...] = ()
    dialect: str | None = None
    recover: bool = False
    passthrough: bool = False
    keeps: bool = False
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    max_concurrency: int = 0
    queue: int = 100
    queue_seconds: float = 30.0
    models: tuple[str, ...] = ()

    def __repr__(self) -> str:  # no secrets
        return f"Provider({self.name}, {self.protocol}, {self.base_url})"

    def key_from(self, environ: Mapping[str, str]) -> str:
        """The key that the usual variables hold, or nothing."""
        return next(
            (environ[name] for name in (self.key_env, *self.other_key_envs) if name and environ.get(name)), ""
        )

    @property
    def needs_key(self) -> bool:
        return bool(self.key_env) and not self.api_key and not self.passthrough

    def forwards(self, protocol: str) -> bool:
        """Whether what clients of this protocol say to it, and hear from it, passes as it is."""
        return self.protocol == protocol and not (self.dialect or self.recover)


@lru_cache(maxsize=1)
def known() -> dict[str, Provider]:
    """The providers that need nothing but their key, and those that need none."""
    table = tomllib.loads(files("dragoman.profiles").joinpath("providers.toml").read_text("utf-8"))
    return {name: _provider(name, **row) for name, row in table.items()}


def _provider(
    name: str, protocol: str, base_url: str, keys: tuple[str, ...] = (), keeps: bool = False
) -> Provider:
    first, *others = keys or ("",)
    return Provider(
        name=name,
        protocol=protocol,
        base_url=base_url,
        key_env=first,
        other_key_envs=tuple(others),
        keeps=keeps,
    )
