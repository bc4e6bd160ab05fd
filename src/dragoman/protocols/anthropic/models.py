"""What Claude models take, told from their names; a name that says nothing counts as current and standard.

A refusal is assumed only where the name proves it: other vendors serve this protocol too.
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_CURRENT = (5, 0)
_UNNAMED = (0, 0)


def version(model: str, unknown: tuple[int, int]) -> tuple[int, int]:
    """(4, 5) for claude-sonnet-4-5-20250929; `unknown` where the name is not one of Anthropic's."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else unknown


def takes_system_messages(model: str) -> bool:
    """`role: system` inside the conversation: Opus 4.8 and newer lines."""
    return version(model, _UNNAMED) >= (4, 8)


def takes_effort(model: str) -> bool:
    """Adaptive thinking and `output_config.effort`; before them a budget was the only way."""
    return version(model, _CURRENT) >= (4, 6)


def takes_extra_effort(model: str) -> bool:
    """An effort `xhigh`, between high and max."""
    return version(model, _CURRENT) >= (4, 7)


def takes_tool_search(model: str) -> bool:
    return version(model, _UNNAMED) >= (4, 5)


def hides_thinking(model: str) -> bool:
    """Shows its thinking only where `thinking.display` asks for it."""
    return version(model, _UNNAMED) >= (4, 7)


def refuses_budget(model: str) -> bool:
    """Takes adaptive thinking only."""
    return version(model, _UNNAMED) >= (4, 7)


def refuses_sampling(model: str) -> bool:
    return version(model, _UNNAMED) >= (4, 7)


def refuses_two_samplings(model: str) -> bool:
    """`temperature` or `top_p`, not both."""
    return version(model, _UNNAMED) >= (4, 1)


def refuses_prefill(model: str) -> bool:
    """The conversation must end with a user message."""
    return version(model, _CURRENT) >= (4, 6)


def refuses_forced_tools(model: str) -> bool:
    return "claude-fable" in model or "claude-mythos" in model


def default_max_tokens(model: str) -> int:
    known = version(model, _CURRENT)
    return 4096 if known < (3, 5) else 8192 if known < (3, 7) else 32_000
