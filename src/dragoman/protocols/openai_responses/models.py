"""What OpenAI's models take, told from their names; a name that says nothing counts as current."""

from __future__ import annotations

import re

from dragoman.core.model import Effort

_GPT = re.compile(r"(?:^|[/:])(?:chat)?gpt-(\d+)(?:\.(\d+))?([a-z]*)")
_O_SERIES = re.compile(r"(?:^|[/:])o\d")
_ORDER: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def version(model: str) -> tuple[int, int] | None:
    """(5, 1) for gpt-5.1-codex; None where the name is not one of OpenAI's GPT line."""
    found = _GPT.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def reasons(model: str) -> bool | None:
    """Whether the model reasons; None where its name does not say."""
    if _O_SERIES.search(model):
        return True
    known = version(model)
    if known is None:
        return None
    return known >= (5, 0) and "-chat" not in model


def refuses_sampling(model: str, effort: Effort | None) -> bool:
    """Models that reason take no temperature; from 5.1 on they do while their reasoning is off."""
    return bool(reasons(model)) and not (effort == "none" and _at_least(model, (5, 1)))


def _at_least(model: str, least: tuple[int, int]) -> bool:
    known = version(model)
    return known is not None and known >= least


def nearest_effort(model: str, effort: Effort) -> Effort:
    """`effort`, or the closest one that the model knows."""
    known = _efforts(model)
    wanted = _ORDER.index(effort)
    return min(known, key=lambda level: (abs(_ORDER.index(level) - wanted), -_ORDER.index(level)))


def _efforts(model: str) -> tuple[Effort, ...]:
    if _O_SERIES.search(model):
        return ("low", "medium", "high")
    known = version(model)
    if known == (5, 0):
        return ("minimal", "low", "medium", "high")
    if known == (5, 1):
        return (
            ("none", "low", "medium", "high", "xhigh")
            if "max" in model
            else ("none", "low", "medium", "high")
        )
    if known is not None and (5, 2) <= known < (5, 6):
        return ("none", "low", "medium", "high", "xhigh")
    return _ORDER
