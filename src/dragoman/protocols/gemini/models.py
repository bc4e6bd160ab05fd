"""What Gemini models take, told from their names; a name that says nothing counts as current."""

from __future__ import annotations

import re
from typing import Literal

_VERSION = re.compile(r"gemini-(?:[a-z-]+-)?(\d{1,2})(?:[.-](\d))?(?!\d)")
_CURRENT = (3, 0)


def version(model: str) -> tuple[int, int]:
    """(2, 5) for gemini-2.5-flash-lite."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else _CURRENT


def is_current(model: str) -> bool:
    """Gemini 3 and later: media inside results, functions beside hosted tools and schemas, signed calls."""
    return version(model) >= (3, 0)


def thinking(model: str) -> Literal["level", "budget", "never"]:
    """How much a model thinks is said in words, before Gemini 3 in tokens, before 2.5 not at all."""
    known = version(model)
    return "level" if known >= (3, 0) else "budget" if known >= (2, 5) else "never"


def always_thinks(model: str) -> bool:
    """The Pro models cannot be told not to think."""
    return "-pro" in model


def budgets(model: str) -> tuple[int, int]:
    """The least and the most that a model of the 2.5 line may be told to think."""
    return (128, 32_768) if always_thinks(model) else (0, 24_576)
