"""Hosted tools <-> neutral ones.

The declaration stays whole in the extras; the settings say it in neutral words.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import HostedKind, HostedTool, Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

_KINDS: dict[str, HostedKind] = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code_execution",
    "image_generation": "image_generation",
    "computer": "computer",
    "computer_use": "computer",
    "computer_use_preview": "computer",
    "mcp": "mcp",
    "local_shell": "local_shell",
    "shell": "shell",
    "apply_patch": "apply_patch",
    "tool_search": "tool_search",
}
_PLAIN = frozenset({"image_generation", "local_shell", "shell", "apply_patch", "tool_search", "computer"})
ENCODED = _PLAIN | {"web_search", "code_execution", "mcp"}


def decode_hosted(fields: Fields, wire: str) -> HostedTool:
    kind = _KINDS.get(wire, "other")
    match kind:
        case "web_search":
            settings = _decode_search(fields.rest)
        case "mcp":
            settings = _decode_mcp(fields.rest)
        case _:
            settings = {}
    name = "" if kind != "other" else wire
    return HostedTool(kind, name, settings, where=fields.where, extras={PROTOCOL_NAME: fields.rest})


def encode_hosted(tool: HostedTool, losses: Losses) -> Wire | None:
    if ours := own(tool.extras, PROTOCOL_NAME):
        return ours
    match tool.kind:
        case "web_search":
            return _encode_search(tool, losses)
        case "mcp" if tool.settings.get("url"):
            return _encode_mcp(tool)
        case "code_execution":
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case kind if kind in _PLAIN:
            if kind == "computer":
                losses.changed(
                    tool.where, f"calls of a computer have a form that only {PROTOCOL_NAME} understands"
                )
            return {"type": kind}
        case kind:
            losses.dropped(tool.where, f"{PROTOCOL_NAME} has no hosted {tool.name or kind} tool")
            return None


def _decode_search(rest: Wire) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    filters, location = rest.get("filters"), rest.get("user_location")
    for key in ("allowed_domains", "blocked_domains"):
        if isinstance(filters, dict) and filters.get(key):  # pyright: ignore[reportUnknownMemberType] - JSON
            settings[key] = filters[key]
    if isinstance(location, dict):
        place = {key: value for key, value in location.items() if key != "type" and value}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
        settings |= {"location": place} if place else {}
    if rest.get("search_context_size"):
        settings["context_size"] = rest["search_context_size"]
    return settings


def _encode_search(tool: HostedTool, losses: Losses) -> Wire:
    wire: Wire = {"type": "web_search"}
    for key, value in tool.settings.items():
        match key:
            case "allowed_domains" if value:
                wire["filters"] = {"allowed_domains": value}
            case "location" if value:
                wire["user_location"] = {"type": "approximate", **value}
            case "context_size" if value in ("low", "medium", "high"):
                wire["search_context_size"] = value
            case _ if value:
                losses.dropped(
                    f"{tool.where}.{key}", f"the web search of {PROTOCOL_NAME} has no such setting"
                )
            case _:
                pass
    return wire


def _decode_mcp(rest: Wire) -> dict[str, Any]:
    named = {"label": "server_label", "url": "server_url", "headers": "headers", "allowed": "allowed_tools"}
    return {key: rest[wire] for key, wire in named.items() if rest.get(wire)}


def _encode_mcp(tool: HostedTool) -> Wire:
    settings = tool.settings
    label = settings.get("label") or tool.name or "mcp"
    wire: Wire = {"type": "mcp", "server_label": label, "server_url": settings["url"]}
    if settings.get("headers"):
        wire["headers"] = settings["headers"]
    if settings.get("allowed"):
        wire["allowed_tools"] = settings["allowed"]
    return {**wire, "require_approval": "never"}
