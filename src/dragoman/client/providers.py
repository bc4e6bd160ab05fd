"""Who answers: a provider with an address and a key, and a model of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from dragoman import __version__
from dragoman.client.background import close_with_loop, wait_for
from dragoman.core.codec import Codec, OutgoingRequest
from dragoman.core.credentials import Credential, CredentialSource
from dragoman.core.errors import ConfigError, UpstreamError, describe_unknown
from dragoman.core.model import Failure
from dragoman.core.model_profile import ModelProfile, Price
from dragoman.credentials import credential_source
from dragoman.dialects import dialect as find_dialect
from dragoman.dialects.engine.dialect import Dialect
from dragoman.http.client import Client, CredentialFailed, Reply, Timeouts, Transport, TransportError
from dragoman.http.client.retries import send_once, unreachable
from dragoman.model_lists import fetch_model_names
from dragoman.profiles import (
    ProfileRow,
    ProviderSettings,
    Surface,
    bare_model,
    find_server,
    find_vendor,
    profile_of,
    split_model,
)
from dragoman.profiles import known as known_providers
from dragoman.protocols import upstream as find_codec

_USER_AGENT = {"user-agent": f"dragoman/{__version__}"}  # some providers refuse requests without one
_EMBEDDED = "demo:"  # the address of the scripted model inside dragoman
_UNKNOWN = ProviderSettings(name="", protocol="", base_url="")  # one that is not among the known providers


class Provider:
    """An upstream. A known name brings its protocol and address, and its key from the environment. Where the
    environment names another address as the vendor's own SDK reads it (`OPENAI_BASE_URL`), that one is used.

    `credentials`: what a request is signed with, where that is more than an `api_key`: a `Credential`.
    `dialect`: tool calls are written as text. `recover`: find calls that the model leaks as text.
    `tries`: how often a request is sent where another try may help, before the first byte of an answer.
    `surfaces`: the protocols that it speaks and where, instead of `protocol` and `base_url`, the preferred
    one first. A known provider brings its own. Each request goes to the one that loses least.
    `profiles`: facts about its models by name, in which `*` stands for anything, such as
    `{"llama*": {"context_window": 8192, "price": {"input": 0.1, "output": 0.2}}}`.
    """

    def __init__(
        self,
        name: str,
        *,
        protocol: str = "",
        base_url: str = "",
        api_key: str = "",
        credentials: CredentialSource | None = None,
        headers: Mapping[str, str] | None = None,
        dialect: str | None = None,
        recover: bool = False,
        images: Literal["native", "summary"] = "native",
        timeouts: Timeouts | None = None,
        tries: int = 3,
        transport: Transport | None = None,
        surfaces: Sequence[Surface] = (),
        profiles: Mapping[str, Mapping[str, Any]] | Sequence[ProfileRow] = (),
    ) -> None:
        known = known_providers().get(name) or _UNKNOWN
        address = ""
        if surfaces:
            _refuse_beside_surfaces(protocol, base_url, dialect)
        else:
            address = base_url or known.url_in(os.environ)
            surfaces = known.surfaces_for(address, protocol, dialect)
        first = surfaces[0] if surfaces else known
        self.name = name
        self.protocol: str = protocol or first.protocol
        self.base_url: str = (address or first.base_url).rstrip("/")
        self._listed = tuple(surfaces)
        self.surface = ""
        self.missing: set[str] = set()
        self.codec: Codec = _codec_for(name, self.protocol, self.base_url)
        self.dialect: Dialect | None = find_dialect(dialect) if dialect else None
        self.recover: bool = recover
        self.summarise: bool = images == "summary"
        self.timeouts: Timeouts = timeouts or Timeouts()
        self.tries: int = max(tries, 1)
        self._transport = transport
        self.credentials: CredentialSource = (
            self._credentials(api_key) if credentials is None else credentials
        )
        if not self.credentials and not address:
            _demand_key(known)
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._profiles = _profile_rows(profiles)

    async def headers_for(self, request: OutgoingRequest) -> dict[str, str]:
        """The headers that identify the caller, and those of the provider, which win."""
        credential = self.credentials.current()
        if credential is None:
            credential = await self.credentials.wait()
        proof = self.codec.http.authenticate(credential, request) if credential else {}
        return {**_USER_AGENT, **proof, **self._headers}

    async def send(self, request: OutgoingRequest, timeouts: Timeouts) -> Reply | Failure:
        """One try; a second one where a credential was refused that can be fetched anew."""
        outcome = await self._send_once(request, timeouts)
        refused = isinstance(outcome, Failure) and outcome.kind in ("unauthenticated", "forbidden")
        if refused and self.credentials.note_refusal():
            outcome = await self._send_once(request, timeouts)
        return outcome

    async def _send_once(self, request: OutgoingRequest, timeouts: Timeouts) -> Reply | Failure:
        try:
            headers = request.headers | await self.headers_for(request)
        except CredentialFailed as error:
            return unreachable(self.name, error)
        signed = OutgoingRequest(request.method, request.url, headers, request.body)
        return await send_once(self.transport(), self.codec, self.name, signed, timeouts)

    def model(self, name: str) -> Model:
        return Model(self, name)

    @cached_property
    def surfaces(self) -> tuple[Provider, ...]:
        """The provider at each of its surfaces; itself, where it has one."""
        settings = ProviderSettings(
            name=self.name,
            protocol=self.protocol,
            base_url=self.base_url,
            credentials=self.credentials,
            surfaces=self._listed,
        )
        return tuple([self._at(each) for each in settings.each_surface("")]) if self._listed else (self,)

    def _at(self, settings: ProviderSettings) -> Provider:
        provider = object.__new__(Provider)
        provider.__dict__.update(self.__dict__)
        provider.protocol, provider.base_url = settings.protocol, settings.base_url
        provider.codec, provider.credentials = find_codec(settings.protocol), settings.credentials
        provider.surface, provider._listed = settings.surface, ()
        return provider

    @property
    def issuer(self) -> str:
        """Who makes its opaque state: what one surface made, no other one can read."""
        return f"{self.name}.{self.surface}" if self.surface else self.name

    def profile(self, model: str) -> ModelProfile:
        """What is known about one of its models."""
        server = find_server(self.name, self.base_url)
        return profile_of(model, server, self.protocol, self._profiles)

    def transport(self) -> Transport:
        """What carries the requests: yours, the embedded model, or the connections of the running loop."""
        if self._transport is None:
            return _embedded() if self.base_url == _EMBEDDED else pool()
        return self._transport

    def observed(self, on_request: Callable[[], None]) -> Provider:
        """The same one, which calls `on_request` before it sends anything."""
        provider = object.__new__(Provider)
        provider.__dict__.update({**self.__dict__, "_transport": _ObservedTransport(self, on_request)})
        provider.__dict__.pop("surfaces", None)  # which it makes itself
        return provider

    def _credentials(self, api_key: str | None = None) -> CredentialSource:
        """The key that is given, else what the environment has."""
        known = known_providers().get(self.name)
        given = Credential(key=api_key or (known.key_from(os.environ) if known else ""))
        return credential_source(self.codec.http, given, {}, os.environ)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle. What the environment gives stays there: the other process reads its own."""
        own = isinstance(self.credentials, Credential) and self.credentials != self._credentials()
        kept = {name: value for name, value in self.__dict__.items() if name != "surfaces"}
        return {**kept, "credentials": self.credentials if own else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["credentials"] is None:
            self.credentials = self._credentials()

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, protocol={self.protocol!r}, base_url={self.base_url!r})"


def _refuse_beside_surfaces(protocol: str, base_url: str, dialect: str | None) -> None:
    if protocol or base_url or dialect:
        raise ConfigError("Surfaces replace protocol and base_url, and cannot be combined with a dialect.")


class _ObservedTransport:
    """A layer over what carries the requests of a provider, so every attempt passes it."""

    def __init__(self, provider: Provider, on_request: Callable[[], None]) -> None:
        self._provider, self._on_request = provider, on_request

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        self._on_request()
        return await self._provider.transport().send(method, url, headers, body, timeouts)


def _demand_key(known: ProviderSettings) -> None:
    if known.key_env:
        names, name = " or ".join((known.key_env, *known.other_key_envs)), known.name
        raise ConfigError(
            f"Provider {name!r} has no key. Set {names}. In Python, Provider({name!r}, api_key=…) takes it."
        )


def _codec_for(name: str, protocol: str, base_url: str) -> Codec:
    if not protocol or not base_url:
        raise ConfigError(f"Provider {name!r} is not a known one, so it needs a protocol and a base_url.")
    codec = find_codec(protocol)
    if codec.session:
        raise ConfigError(
            f"{protocol} keeps the conversation, which only the gateway can use: dragoman serve"
        )
    return codec


class Model(Struct, frozen=True):
    provider: Provider
    name: str

    def __str__(self) -> str:
        return f"{self.provider.name}:{self.name}"


def model_of(model: str | Model) -> Model:
    """The model that `provider:model` or `provider/model` names; all that follows belongs to the model."""
    if isinstance(model, Model):
        return model
    name, separator, rest = split_model(model)
    if not rest and name in known_providers():
        raise ConfigError(f"{name!r} is a provider. Name a model of it: {name}:MODEL.")
    if not separator or not rest:
        raise ConfigError(
            f"{model!r} names no provider. Write provider:model. Known providers: {_list_known()}."
        )
    if separator == "/":
        name = find_vendor(name) or name
    return find_provider(name).model(bare_model(name, rest))


_made: dict[tuple[str, str, str], Provider] = {}


def find_provider(name: str) -> Provider:
    """The known provider of that name, with the key and the address that are in the environment now."""
    known = known_providers()
    if name not in known:
        raise ConfigError(
            f"{describe_unknown('provider', name, sorted(known))} "
            "Define others as Provider(name, protocol=…, base_url=…), or under [providers.NAME]."
        )
    key, url = known[name].key_from(os.environ), known[name].url_in(os.environ)
    provider = _made.get((name, key, url))
    if provider is None:
        provider = _made[name, key, url] = Provider(name, api_key=key)
    return provider


def _embedded() -> Transport:
    global _demo
    if _demo is None:
        from dragoman.demo import DemoTransport

        _demo = DemoTransport()
    return _demo


_demo: Transport | None = None


def _list_known() -> str:
    return ", ".join(known_providers())


def _profile_rows(
    profiles: Mapping[str, Mapping[str, Any]] | Sequence[ProfileRow],
) -> tuple[ProfileRow, ...]:
    if not isinstance(profiles, Mapping):
        return tuple(profiles)
    return tuple([_profile_row(pattern, facts) for pattern, facts in profiles.items()])


def _profile_row(pattern: str, facts: Mapping[str, Any]) -> ProfileRow:
    given = {name: value for name, value in facts.items() if name != "like"}
    if unknown := given.keys() - set(ModelProfile.__struct_fields__):
        raise ConfigError(f"profiles[{pattern!r}]: unknown facts: {', '.join(sorted(unknown))}")
    try:
        profile = msgspec.convert(given, ModelProfile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"profiles[{pattern!r}]: {error}") from None
    return ProfileRow(
        pattern, tuple([(name, getattr(profile, name)) for name in given]), facts.get("like", "")
    )


class ModelInfo(Struct, frozen=True):
    """A model in the list of its provider; `profile` holds all that is known about it, None what is not."""

    provider: str
    name: str
    profile: ModelProfile

    @property
    def id(self) -> str:
        """How `generate` takes it."""
        return f"{self.provider}:{self.name}"

    @property
    def context_window(self) -> int | None:
        return self.profile.context_window

    @property
    def max_output(self) -> int | None:
        return self.profile.max_output

    @property
    def price(self) -> Price | None:
        return self.profile.price

    def __repr__(self) -> str:
        facts: dict[str, object] = {"context_window": self.context_window, "max_output": self.max_output}
        if price := self.price:
            facts["price"] = f"${price.input:g} in, ${price.output:g} out"
        known = "".join(f", {name}={value}" for name, value in facts.items() if value is not None)
        return f"ModelInfo({self.id!r}{known})"


async def amodels(provider: str | Provider) -> list[ModelInfo]:
    """The provider's own list, fetched now. Raises UpstreamError where it does not answer."""
    target = find_provider(provider) if isinstance(provider, str) else provider
    try:
        names = await fetch_model_names(
            target.transport(), target.protocol, target.base_url, target.headers_for
        )
    except (TransportError, ValueError) as error:
        raise UpstreamError(Failure("server", f"provider {target.name}: {error}", 502)) from error
    return [ModelInfo(target.name, name, target.profile(name)) for name in names]


def models(provider: str | Provider) -> list[ModelInfo]:
    """Like `amodels`, for code that is not async."""
    return wait_for(amodels(provider))


# Connections belong to the event loop that opened them: one pool for each loop, closed with it
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]] = (
    WeakKeyDictionary()
)


def pool() -> Client:
    """The connections of the running loop."""
    loop = asyncio.get_running_loop()
    entry = _pools.get(loop)
    if entry is None:
        client = Client()

        async def close() -> None:
            _pools.pop(loop, None)
            await client.close()

        _pools[loop] = entry = (client, close_with_loop(close))
    return entry[0]
