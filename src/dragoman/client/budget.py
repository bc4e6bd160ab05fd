"""What replies use and cost, and how much of it an agent loop may use up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.model import Media, Request, Response, Usage

if TYPE_CHECKING:
    from dragoman.client.providers import Model

_LISTED_TIERS = (None, "auto", "default", "standard", "standard_only", "on_demand")
Stopped = Literal[
    "answer",
    "turns",
    "time",
    "tokens",
    "cost",
    "tool_calls",
    "approval",
    "output",
    "stopped",
    "cancelled",
    "error",
]


class Bounds(Struct, frozen=True):
    """Of a whole run; None: no bound. `cost` is in US dollars."""

    turns: int | None = 20
    tokens: int | None = None
    cost: float | None = None

    def find_reached(self, turns: int, usage: Usage, cost: float | None) -> Stopped | None:
        if self.tokens is not None and usage.input + usage.output >= self.tokens:
            return "tokens"
        if self.cost is not None:
            if cost is None:
                raise ConfigError(
                    "max_cost needs the price of the model, which is not known. Give it to "
                    "Provider(profiles={…: {'price': {'input': …, 'output': …}}})"
                )
            if cost >= self.cost:
                return "cost"
        return "turns" if self.turns is not None and turns >= self.turns else None


def add_usage(first: Usage, second: Usage) -> Usage:
    return Usage(*(getattr(first, name) + getattr(second, name) for name in Usage.__struct_fields__))


def cost_of(model: Model, request: Request, response: Response) -> float | None:
    """US dollars for the tokens of a reply; None where a price is not known.

    The price is that of the requested model, or of the one that answered (an alias such as `-latest`).
    Requests of hosted tools, which have prices of their own, are not included.
    """
    if response.usage is None or not _has_list_price(request):
        return None
    profile = model.provider.profile
    price = profile(model.name).price or (profile(response.model).price if response.model else None)
    return price.cost(response.usage) if price else None


def _has_list_price(request: Request) -> bool:
    """Flex and priority processing, audio input, and caches of one hour have prices that are not listed."""
    return request.settings.service_tier in _LISTED_TIERS and not any(
        part.cache == "1h" or (isinstance(part, Media) and part.kind == "audio")
        for message in request.messages
        for part in message.parts
    )


def total_cost(costs: list[float | None]) -> float | None:
    """The sum; None where one of them is not known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
