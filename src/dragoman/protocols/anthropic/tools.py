"""Tool declarations and tool choice <-> neutral ones.

Anthropic marks its own tools by a dated `type`; everything else is a custom tool with a schema.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import HostedKind, HostedTool, Request, Tool, ToolChoice, Wire
from dragoman.protocols.anthropic.wire import PROTOCOL

_DATED = re.compile(r"^(.*?)(?:_toolset)?_\d{8}$")
_HOSTED: dict[str, HostedKind] = {
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
_ENCODED = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
}
_EMPTY: Wire = {"type": "object", "properties": {}}


def decode_tool(tool: Any, where: str, losses: Losses) -> Tool | HostedTool:
    fields = Fields(tool, where, PROTOCOL)
    kind = fields.rest.get("type")
    if kind in (None, "custom"):
        return _decode_custom(fields, losses)
    return _decode_hosted(fields, str(kind))


def encode_tool(tool: Tool | HostedTool, losses: Losses) -> Wire | None:
    extras = own(tool.extras, PROTOCOL)
    if isinstance(tool, HostedTool):
        return _encode_hosted(tool, extras, losses)
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    wire["input_schema"] = tool.parameters or _EMPTY
    if tool.strict:
        wire["strict"] = True
    if tool.deferred:
        wire["defer_loading"] = True
    return wire | extras


def _decode_custom(fields: Fields, losses: Losses) -> Tool:
    name = fields.need("name", str)
    return Tool(
        name,
        fields.text("description"),
        fields.object("input_schema"),
        fields.take("strict", bool),
        deferred=fields.take("defer_loading", bool) or False,
        where=fields.where,
        extras=fields.extras(losses, quiet=frozenset({"type"})),
    )


def _decode_hosted(fields: Fields, kind: str) -> HostedTool:
    """The declaration stays whole in the extras; the settings say it in neutral words."""
    rest = fields.rest
    dated = _DATED.match(kind)
    known = _HOSTED.get(dated[1] if dated else kind, "other")
    settings: dict[str, Any] = {}
    if known == "web_search":
        named = {
            key: rest[key] for key in ("allowed_domains", "blocked_domains", "max_uses") if rest.get(key)
        }
        location = rest.get("user_location")
        place = {k: v for k, v in location.items() if k != "type" and v} if is_object(location) else None
        settings = {**named, "location": place} if place else named
    name = rest.get("name")
    return HostedTool(
        known, name if isinstance(name, str) else "", settings, where=fields.where, extras={PROTOCOL: rest}
    )


def _encode_hosted(tool: HostedTool, extras: Wire, losses: Losses) -> Wire | None:
    if extras:
        return extras
    if tool.kind not in _ENCODED:
        losses.dropped(tool.where, f"Anthropic has no hosted {tool.kind} tool")
        return None
    wire: Wire = {"type": _ENCODED[tool.kind], "name": tool.kind}
    if tool.kind != "web_search":
        return wire
    settings = tool.settings
    for key in ("max_uses", "allowed_domains", "blocked_domains"):
        if settings.get(key):
            wire[key] = settings[key]
    if "allowed_domains" in wire and wire.pop("blocked_domains", None):
        losses.dropped(
            f"{tool.where}.blocked_domains", "Anthropic takes allowed or blocked domains, not both"
        )
    if settings.get("location"):
        wire["user_location"] = {"type": "approximate", **settings["location"]}
    if settings.get("context_size"):
        losses.dropped(f"{tool.where}.search_context_size", "Anthropic has no such setting")
    return wire


def decode_choice(fields: Fields, losses: Losses) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and the parallel switch that lives inside it."""
    choice = fields.fields("tool_choice")
    if choice is None:
        return None, None
    wire = {PROTOCOL: choice.rest.copy()}
    serial = choice.take("disable_parallel_tool_use", bool)
    parallel = None if serial is None else not serial
    match kind := choice.need("type", str):
        case "auto" | "none":
            result = ToolChoice(kind, extras=wire)
        case "any":
            result = ToolChoice("required", extras=wire)
        case "tool":
            result = ToolChoice("required", (choice.need("name", str),), extras=wire)
        case _:
            raise WireError(PROTOCOL, "tool_choice.type", f"expected auto, any, tool or none, got {kind!r}")
    choice.extras(losses)
    return result, parallel


def encode_choice(request: Request, tools: bool, losses: Losses) -> Wire:
    choice = request.tool_choice or (ToolChoice("auto") if request.parallel is False else None)
    if choice is None:
        return {}
    if not tools:
        if request.tool_choice and request.tool_choice.mode == "required":
            losses.dropped("tool_choice", "there are no tools to choose from")
        return {}
    if native := own(choice.extras, PROTOCOL):
        return {"tool_choice": native}
    match choice:
        case ToolChoice("required", (name,)):
            wire: Wire = {"type": "tool", "name": name}
        case ToolChoice("required"):
            wire = {"type": "any"}
        case ToolChoice(mode):
            wire = {"type": mode}
    if len(choice.names) > 1 or (choice.names and choice.mode == "auto"):
        losses.changed("tool_choice", "Anthropic cannot name a subset: only the allowed tools are sent")
    if request.parallel is not None and choice.mode != "none":
        wire["disable_parallel_tool_use"] = not request.parallel
    return {"tool_choice": wire}
