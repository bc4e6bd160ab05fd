"""What Claude models take, told from their names; a name that says nothing counts as current."""

from __future__ import annotations

import re

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


_CURRENT = (5, 0)


def version(model: str, unknown: tuple[int, int]) -> tuple[int, int]:
    """(4, 5) for claude-sonnet-4-5-20250929; `unknown` where the name is not one of Anthropic's."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else unknown


def takes_system_messages(model: str) -> bool:
    """`role: system` inside the conversation: Opus 4.8 and newer lines."""
    return version(model, (0, 0)) >= (4, 8)


def takes_effort(model: str) -> bool:
    """Adaptive thinking and `output_config.effort`; before them a budget was the only way."""
    return version(model, _CURRENT) >= (4, 6)


def refuses_sampling(model: str) -> bool:
    return version(model, (0, 0)) >= (4, 7)


def default_max_tokens(model: str) -> int:
    known = version(model, _CURRENT)
    return 4096 if known < (3, 5) else 8192 if known < (3, 7) else 32_000
