"""The scripted model as a provider of each protocol, and behind a dialect."""

from __future__ import annotations

from typing import Any

from dragoman import Provider, protocols
from dragoman.client import Model

KEY = "the key"
VERSIONED = ("openai-chat", "openai-responses")  # protocols whose base URL ends with a version
DIALECT = "hermes"
UPSTREAMS = (*protocols(), DIALECT)


def provider(address: str, protocol: str, **options: Any) -> Provider:
    base_url = f"{address}/v1" if protocol in VERSIONED else address
    name = options.pop("name", f"my-{protocol}")
    return Provider(name, **{"protocol": protocol, "base_url": base_url, "api_key": KEY, **options})


def model_named(address: str, upstream: str) -> Model:
    if upstream == DIALECT:
        return provider(address, "openai-chat", name="my-dialect", dialect=DIALECT).model("demo")
    return provider(address, upstream).model("demo")
