"""Prices: every row is readable and plausible; what a usage costs, and where that is not known."""

import tomllib
from importlib.resources import files

import msgspec
import pytest

from dragoman.core.model import Usage
from dragoman.core.model_profile import Price
from dragoman.profiles import known, profile_of

TABLES = tomllib.loads(files("dragoman.profiles").joinpath("prices.toml").read_text("utf-8"))
ROWS = {
    (name, model): row
    for name, table in TABLES.items()
    if isinstance(table, dict)
    for model, row in table.items()
}


def test_rows_are_prices_of_known_providers():
    assert {name for name, _ in ROWS} <= known().keys()
    assert TABLES["date"]
    assert TABLES["source"]
    for row in ROWS.values():
        price = msgspec.convert(row, Price)
        assert 0 < price.input <= price.output <= 1000
        assert price.cached_input is None or price.cached_input <= price.input
        assert all(tier.above and tier.input >= price.input for tier in price.tiers)


PRICE = Price(input=2, output=10, cached_input=0.5, cache_write=2.5)
LONG = msgspec.convert(
    {"input": 1, "output": 4, "tiers": [{"above": 200_000, "input": 2, "output": 8}]}, Price
)
COSTS = {
    "input and output": (PRICE, Usage(1_000_000, 100_000), 3.0),
    "cached and written": (PRICE, Usage(1_000_000, 0, cached=400_000, cache_write=200_000), 0.8 + 0.2 + 0.5),
    "reasoning is output": (PRICE, Usage(0, 1_000_000, reasoning=900_000), 10.0),
    "nothing": (PRICE, Usage(), 0.0),
    "up to the tier": (LONG, Usage(200_000, 1_000_000), 4.2),
    "above it all is dearer": (LONG, Usage(200_001, 1_000_000), 8.400002),
    "cached without a price": (LONG, Usage(10, 10, cached=5), None),
    "written without a price": (LONG, Usage(10, 10, cache_write=5), None),
}


@pytest.mark.parametrize("price, usage, cost", COSTS.values(), ids=COSTS)
def test_costs(price: Price, usage: Usage, cost: float | None):
    assert price.cost(usage) == (cost if cost is None else pytest.approx(cost))


LOOKUPS = {
    "the name": ("openai", "gpt-5", True),
    "a snapshot": ("openai", "gpt-5-2025-08-07", True),
    "the Chat surface": ("openai-chat", "gpt-5", True),
    "another provider": ("groq", "gpt-5", False),
    "a provider that nobody knows": ("", "gpt-5", False),
    "an alias that moves": ("mistral", "mistral-large-latest", False),
    "on this machine": ("ollama", "gpt-oss", False),
}


@pytest.mark.parametrize("provider, model, priced", LOOKUPS.values(), ids=LOOKUPS)
def test_only_listed_prices_are_given(provider: str, model: str, priced: bool):
    price = profile_of(model, provider, "openai-responses").price
    assert (price is not None) == priced
    assert price is None or (price.input, price.output, price.date) == (1.25, 10, TABLES["date"])
