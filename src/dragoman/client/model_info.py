"""`models` and `amodels`: what a provider offers, with the facts of the profiles."""

from __future__ import annotations

from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.providers import Provider, provider_named
from dragoman.core.errors import UpstreamError
from dragoman.core.model import Failure
from dragoman.core.model_profile import ModelProfile, Price
from dragoman.http.client import TransportError
from dragoman.model_lists import fetch_model_names


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
    asked = provider_named(provider) if isinstance(provider, str) else provider
    try:
        names = await fetch_model_names(asked.transport(), asked.protocol, asked.base_url, asked.headers_for)
    except (TransportError, ValueError) as error:
        raise UpstreamError(Failure("server", f"provider {asked.name}: {error}", 502)) from error
    return [ModelInfo(asked.name, name, asked.profile(name)) for name in names]


def models(provider: str | Provider) -> list[ModelInfo]:
    """Like `amodels`, for code that is not async."""
    return wait_for(amodels(provider))
