"""What a reply cost, by the prices of the profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.core.model import Media, Request, Response

if TYPE_CHECKING:
    from dragoman.client.providers import Model

_LISTED_TIERS = (None, "auto", "default", "standard", "standard_only", "on_demand")


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
