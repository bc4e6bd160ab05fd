"""Settings asked about together, because a client says few of them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from dragoman.core.model import Settings


class GivenSettings:
    """Which of these settings a client said, each with its value, in this order."""

    __slots__ = ("_names", "_nothing", "_values")

    def __init__(self, *names: str) -> None:
        self._names, self._values = names, attrgetter(*names)
        self._nothing = (None,) * len(names)

    def __call__(self, settings: Settings) -> list[tuple[str, Any]]:
        values = self._values(settings)
        if values == self._nothing:
            return []
        return [(name, value) for name, value in zip(self._names, values, strict=True) if value is not None]
