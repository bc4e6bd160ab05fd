"""Reasoning effort in words and in tokens; the bands are one table for every protocol."""

from __future__ import annotations

from dragoman.core.model import Effort

_BANDS: tuple[tuple[int, Effort], ...] = (
    (0, "none"),
    (512, "minimal"),
    (2048, "low"),
    (10_000, "medium"),
    (16_000, "high"),
)
_BUDGET: dict[Effort, int] = {
    "none": 0,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 32_000,
}


def budget_for(effort: Effort) -> int:
    return _BUDGET[effort]


def effort_for(budget: int) -> Effort:
    """The least effort whose band holds `budget`."""
    for most, effort in _BANDS:
        if budget <= most:
            return effort
    return "xhigh"
