"""Messages at clouds: what stands in the header `anthropic-beta` is a field of the body there.

They refuse a request with a flag that they do not know (anthropics/claude-code#49370), and Claude Code sends
many that concern Anthropic alone. They call no MCP servers.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import Wire

FIELD = "anthropic_beta"
_SERVERS = "mcp_servers"
HEADER_FIELDS = {"anthropic-beta": FIELD}
# docs.aws.amazon.com/bedrock, "Anthropic Claude Messages API", and BerriAI/litellm#41203 for the newer ones
_KNOWN = word_set(
    "computer-use-2024-10-22 computer-use-2025-01-24 computer-use-2025-11-24 "
    "token-efficient-tools-2025-02-19 "
    "interleaved-thinking-2025-05-14 output-128k-2025-02-19 dev-full-thinking-2025-05-14 "
    "context-1m-2025-08-07 context-management-2025-06-27 compact-2026-01-12 effort-2025-11-24 "
    "tool-search-tool-2025-10-19 tool-examples-2025-10-29"
)


def with_known_fields(wire: Wire, cloud: str, losses: Losses) -> Wire:
    """`wire` without the fields and flags that a cloud refuses. A header is one text, with commas."""
    given = wire.get(FIELD)
    names: list[Any] = given.split(",") if isinstance(given, str) else given if is_array(given) else []
    flags = dict.fromkeys(str(name).strip() for name in names)
    if unknown := [flag for flag in flags if flag not in _KNOWN]:
        why = f"{cloud} refuses flags that it does not know: {', '.join(unknown)}."
        losses.dropped(FIELD, why, "field.unknown")
    known = [flag for flag in flags if flag in _KNOWN]
    if wire.get(_SERVERS):
        losses.dropped(_SERVERS, f"{cloud} calls no MCP servers.", "hosted.mcp")
    rest = {key: value for key, value in wire.items() if key not in (FIELD, _SERVERS)}
    return {FIELD: known, **rest} if known else rest
