"""Anthropic's own tools <-> hosted ones.

A declaration stays whole in the extras, so that it goes back as it came; the settings say it in
neutral words.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import HostedKind, HostedTool, Wire
from dragoman.protocols.anthropic import models
from dragoman.protocols.anthropic.mcp import decode_toolset, encode_toolset
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

_DATED = re.compile(r"(.*?)(?:_toolset)?_\d{8}")
_KINDS: dict[str, HostedKind] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "tool_search_tool_regex": "tool_search",
    "tool_search_tool_bm25": "tool_search",
    "bash": "bash",
    "text_editor": "text_editor",
    "memory": "memory",
    "computer": "computer",
    "mcp_toolset": "mcp",
}
# What we declare for another protocol's tool: the version that most models take
_DECLARED: dict[HostedKind, Wire] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
    "tool_search": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "bash": {"type": "bash_20250124", "name": "bash"},
    "text_editor": {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    "memory": {"type": "memory_20250818", "name": "memory"},
}
HOSTED = frozenset({*_DECLARED, "computer", "mcp"})
_LIMITS = ("max_uses", "allowed_domains", "blocked_domains")
_SAID = frozenset({"type", "name", "user_location", "mcp_server_name", "default_config", "configs", *_LIMITS})


def decode_hosted(fields: Fields, losses: Losses) -> HostedTool:
    wire, kind, name = fields.rest, fields.rest.get("type"), fields.rest.get("name")
    if not isinstance(kind, str):
        raise WireError(PROTOCOL_NAME, fields.path("type"), f"expected a string, got {describe(kind)}")
    dated = _DATED.fullmatch(kind)
    known = _KINDS.get(dated[1] if dated else kind, "other")
    settings = decode_toolset(wire) if known == "mcp" else _decode_web(wire)
    extras = fields.extras(losses, quiet=_SAID)
    return HostedTool(
        known, name if isinstance(name, str) else "", settings, where=fields.where, extras=extras
    )


def encode_hosted(tool: HostedTool, model: str, losses: Losses) -> Wire | None:
    if tool.extras is not None and PROTOCOL_NAME in tool.extras:
        return own(tool.extras, PROTOCOL_NAME) or None
    if tool.kind == "mcp":
        return encode_toolset(tool, losses)
    declared = _DECLARED.get(tool.kind)
    if declared is None or (tool.kind == "tool_search" and not models.takes_tool_search(model)):
        losses.dropped(tool.where, f"Anthropic has no hosted {tool.kind} tool")
        return None
    return {**declared, **_encode_web(tool, losses)}


def _decode_web(wire: Wire) -> dict[str, Any]:
    settings = {key: wire[key] for key in _LIMITS if wire.get(key)}
    location = wire.get("user_location")
    if is_object(location):
        settings["location"] = {key: value for key, value in location.items() if key != "type" and value}
    return settings


def _encode_web(tool: HostedTool, losses: Losses) -> Wire:
    if tool.kind not in ("web_search", "web_fetch"):
        return {}
    settings = tool.settings
    wire: Wire = {key: settings[key] for key in _LIMITS if settings.get(key)}
    if "allowed_domains" in wire and wire.pop("blocked_domains", None):
        losses.dropped(
            f"{tool.where}.blocked_domains", "Anthropic takes allowed or blocked domains, not both"
        )
    if settings.get("location") and tool.kind == "web_search":
        wire["user_location"] = {"type": "approximate", **settings["location"]}
    if settings.get("context_size"):
        losses.dropped(f"{tool.where}.search_context_size", "Anthropic has no such setting")
    return wire
