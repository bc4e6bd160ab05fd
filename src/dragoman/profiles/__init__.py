"""Facts about providers and models, as data: providers.toml, models.toml, and how they are looked up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.credentials import NO_CREDENTIAL, Credential, CredentialSource
from dragoman.core.model_profile import FREE, ModelProfile, Price
from dragoman.core.overrides import Overrides
from dragoman.core.transport import Timeouts
from dragoman.profiles.models import ProfileRow, profile_of, server_tables

__all__ = [
    "PooledCredential",
    "ProfileRow",
    "ProviderSettings",
    "Surface",
    "bare_model",
    "find_server",
    "find_vendor",
    "http_url",
    "known",
    "profile_of",
    "split_model",
]

_SEPARATOR = re.compile("[:/]")


class PooledCredential(Struct, frozen=True):
    """One of several credentials of a provider. `name` stands for it wherever it is reported."""

    name: str
    credentials: CredentialSource
    weight: int = 1

    @property
    def account(self) -> str:
        """One that is fetched with no secret of its own is told apart by its name."""
        return self.credentials.account or self.name


class Surface(Struct, frozen=True):
    """One of several protocols that a provider speaks, and where. `bearer`: it takes the key as a bearer
    token, though the protocol's own vendor has a header for keys."""

    protocol: str
    base_url: str
    bearer: bool = False


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """An upstream with an address and credentials.

    `key_env` is the variable that usually holds the key, `other_key_envs` are alternatives; a provider
    without one needs no key. `url_env` is the variable in which the vendor's own SDK takes another address;
    `url_from` is that variable where the address came from it. `passthrough`: the client's own key is
    forwarded. `keeps`: it stores conversations itself for clients of its own protocol. `default_model`: what
    agents of its vendor request where nobody chose one. At most `max_concurrency` exchanges run there at
    once (0: no limit), `queue` more wait for up to `queue_seconds`. `models` are listed to clients;
    `profiles` are the user's own facts, `overrides` what the operator decides of every request. `pool`: its
    credentials, where it has several; with one of them it is a provider of its own, whose `credential` is the
    name of that. `shares_state`: they belong to one organisation, which reads its own opaque state.
    `proxy`: through which HTTP proxy it is reached; empty: as the environment says. `surfaces`: where it
    speaks several protocols; `protocol` and `base_url` are those of the first. `surface`: it is the provider
    at one of them.
    """

    name: str
    protocol: str
    base_url: str
    credentials: CredentialSource = NO_CREDENTIAL
    key_env: str = ""
    other_key_envs: tuple[str, ...] = ()
    url_env: str = ""
    url_from: str = ""
    dialect: str | None = None
    recover: bool = False
    passthrough: bool = False
    keeps: bool = False
    default_model: str = ""
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    max_concurrency: int = 0
    queue: int = 100
    queue_seconds: float = 30.0
    models: tuple[str, ...] = ()
    profiles: tuple[ProfileRow, ...] = ()
    overrides: Overrides = Overrides()
    pool: tuple[PooledCredential, ...] = ()
    credential: str = ""
    shares_state: bool = False
    proxy: str = ""
    surfaces: tuple[Surface, ...] = ()
    surface: str = ""

    def __repr__(self) -> str:  # no secrets
        return f"Provider({self.name}, {self.protocol}, {self.base_url})"

    def accounts(self) -> tuple[tuple[ProviderSettings, int], ...]:
        """The provider with each of its credentials, and the weight of that."""
        if not self.pool:
            return ((self, 1),)
        return tuple(
            [
                (replace(self, credentials=each.credentials, credential=each.name), each.weight)
                for each in self.pool
            ]
        )

    def at(self, surface: Surface) -> ProviderSettings:
        """The provider at one of its surfaces."""
        credentials = self.credentials
        if surface.bearer and isinstance(credentials, Credential) and credentials.key:
            credentials = replace(credentials, key="", token=credentials.key)
        protocol, url = surface.protocol, surface.base_url
        keeps = self.keeps and protocol == self.protocol
        return replace(
            self,
            protocol=protocol,
            base_url=url,
            credentials=credentials,
            keeps=keeps,
            surfaces=(),
            surface=protocol,
        )

    def each_surface(self, client: str, wire: Callable[[str], str] = str) -> tuple[ProviderSettings, ...]:
        """The provider at each surface, in the order in which a client of this protocol prefers them. `wire`:
        whose wire a protocol has; those of a cloud have their vendor's."""
        order = sorted(self.surfaces, key=lambda each: wire(each.protocol) != client)
        return tuple([self.at(each) for each in order]) or (self,)

    def move(self, url: str) -> tuple[Surface, ...]:
        """Its surfaces where the first one is at `url`: behind another origin, if they shared one."""
        old = self.base_url
        origin, path = _origin(old), old[len(_origin(old)) :]
        shared = all(_origin(each.base_url) == origin for each in self.surfaces)
        if not shared or url[len(_origin(url)) :] != path:
            return ()
        return tuple(
            [replace(each, base_url=_origin(url) + each.base_url[len(origin) :]) for each in self.surfaces]
        )

    def surfaces_for(self, url: str, protocol: str, dialect: str | None) -> tuple[Surface, ...]:
        """Its surfaces, behind `url` where that is not empty. Who names a protocol gets that one alone."""
        found = self.move(http_url(url.rstrip("/"))) if url else self.surfaces
        if protocol:
            found = tuple([each for each in found if each.protocol == protocol])
        return found[:1] if dialect else found

    @property
    def issuer(self) -> str:
        """Who makes its opaque state: what one surface made, no other one can read."""
        return f"{self.name}.{self.surface}" if self.surface else self.name

    @property
    def sources(self) -> tuple[CredentialSource, ...]:
        """Those of its pool, or the only one."""
        return tuple([each.credentials for each in self.pool]) or (self.credentials,)

    @property
    def state_key(self) -> str:
        """Tells accounts apart that make opaque state and store conversations."""
        if self.shares_state and self.pool:
            return self.pool[0].account
        return self.credentials.account or self.credential

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may hold its key."""
        return (self.key_env, *self.other_key_envs) if self.key_env else ()

    def key_from(self, environ: Mapping[str, str]) -> str:
        """The key in the usual variables, or an empty string."""
        return next((environ[name] for name in self.key_variables if environ.get(name)), "")

    def url_in(self, environ: Mapping[str, str]) -> str:
        """The address that the vendor's own SDK would use in this environment, or an empty string."""
        return environ.get(self.url_env, "").strip().rstrip("/") if self.url_env else ""

    @property
    def needs_key(self) -> bool:
        return bool(self.key_env) and not self.has_credentials and not self.passthrough

    @property
    def has_credentials(self) -> bool:
        return self.credentials is not NO_CREDENTIAL

    def forwards(self, protocol: str) -> bool:
        """Whether requests and replies of clients of this protocol pass unchanged."""
        return self.protocol == protocol and not (self.dialect or self.recover)

    def price(self, model: str) -> Price | None:
        """None where it is not known. What runs on a machine of one's own costs nothing."""
        server = find_server(self.name, self.base_url)
        is_local = bool(server) and not known()[server].key_env
        return self.profile(model).price or (FREE if is_local else None)

    def profile(self, model: str) -> ModelProfile:
        """What is known about one of its models."""
        return profile_of(model, find_server(self.name, self.base_url), self.protocol, self.profiles)


@lru_cache(maxsize=1)
def known() -> dict[str, ProviderSettings]:
    """The providers that need nothing but their key, and those that need none."""
    return {
        name: ProviderSettings(
            name=name,
            protocol=row["protocol"],
            base_url=row["base_url"],
            key_env=next(iter(row.get("keys", ())), ""),
            other_key_envs=tuple(row.get("keys", ())[1:]),
            url_env=row.get("url", ""),
            keeps=row.get("keeps", False),
            default_model=row.get("default_model", ""),
            surfaces=tuple(
                [
                    Surface(each["protocol"], each["base_url"], each.get("bearer", False))
                    for each in row.get("surfaces", ())
                ]
            ),
        )
        for name, row in server_tables().items()
    }


def split_model(name: str) -> tuple[str, str, str]:
    """The provider, the separator and the model of `provider:model` or `provider/model`; the first separator
    counts, because the names of models contain both. Without one: the name itself."""
    found = _SEPARATOR.search(name)
    return (name[: found.start()], found[0], name[found.end() :]) if found else (name, "", "")


@lru_cache(maxsize=256)
def find_vendor(prefix: str) -> str:
    """The known provider that other gateways call `prefix` before a slash, or an empty string."""
    if prefix in known():
        return prefix
    return next((name for name, row in server_tables().items() if prefix in row.get("prefixes", ())), "")


def bare_model(provider: str, model: str) -> str:
    """`model` without the prefix that other gateways put before it: anthropic/claude-… at anthropic."""
    prefix, slash, rest = model.partition("/")
    is_prefix = slash and rest and prefix in server_tables().get(provider, {}).get("prefixes", ())
    return rest if is_prefix else model


@lru_cache(maxsize=256)
def find_server(name: str, base_url: str) -> str:
    """The known provider of that name, or at that address; else an empty string."""
    if name in known():
        return name
    url = http_url(base_url.rstrip("/"))
    for provider in known().values():
        if url in (provider.base_url, *(surface.base_url for surface in provider.surfaces)):
            return provider.name
    return ""


def _origin(url: str) -> str:
    """The beginning of a URL, up to its path."""
    return "/".join(url.split("/")[:3])


def http_url(url: str) -> str:
    """A provider's address for what does not go over WebSocket."""
    return "http" + url.removeprefix("ws") if url.startswith(("ws:", "wss:")) else url
