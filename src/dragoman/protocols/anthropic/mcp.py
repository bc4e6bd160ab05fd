"""Remote MCP servers (beta) <-> hosted tools of kind mcp.

Servers stand beside the tools, under `mcp_servers`; an `mcp_toolset` among the tools names one. The
older form of the beta has the servers alone.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from msgspec.structs import replace

from dragoman.core.fields import Fields
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, Wire
from dragoman.core.repeated import remembered
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME


def decode_toolset(wire: Wire) -> dict[str, Any]:
    """A toolset that is off by default allows the tools that it turns on."""
    name = wire.get("mcp_server_name")
    settings: dict[str, Any] = {"label": name if isinstance(name, str) else ""}
    default, configs = wire.get("default_config"), wire.get("configs")
    if is_object(default) and default.get("enabled") is False and is_object(configs):
        enabled = {name for name, config in configs.items() if is_object(config) and config.get("enabled")}
        settings["allowed"] = [name for name in configs if name in enabled]
    return settings


def encode_toolset(tool: HostedTool, losses: Losses) -> Wire | None:
    """The declaration; `encode_servers` writes the server that it names."""
    if not tool.settings.get("url"):
        losses.dropped(tool.where, "Anthropic needs the address of an MCP server")
        return None
    wire: Wire = {"type": "mcp_toolset", "mcp_server_name": _label(tool)}
    allowed = tool.settings.get("allowed")
    if is_array(allowed):
        wire["default_config"] = {"enabled": False}
        wire["configs"] = {str(name): {"enabled": True} for name in allowed}
    return wire


def decode_servers(fields: Fields, tools: tuple[AnyTool, ...], losses: Losses) -> tuple[AnyTool, ...]:
    """`tools` with what their servers say; a server that no toolset names is a tool of its own."""
    servers = {
        server.settings["label"]: server
        for i, wire in enumerate(fields.list("mcp_servers") or ())
        if (server := _decode_server(Fields(wire, f"mcp_servers[{i}]", PROTOCOL_NAME), losses))
    }
    if not servers:
        return tools
    joined: list[AnyTool] = []
    for tool in tools:
        if _is_toolset(tool) and (server := servers.pop(tool.settings["label"], None)):
            tool = replace(tool, settings={**server.settings, **tool.settings})
        joined.append(tool)
    return (*joined, *servers.values())


@remembered
def encode_servers(tools: tuple[AnyTool, ...], losses: Losses) -> Wire:
    servers = [_encode_server(tool, losses) for tool in tools if _is_foreign(tool)]
    return {"mcp_servers": servers} if servers else {}


def _decode_server(fields: Fields, losses: Losses) -> HostedTool | None:
    """It is written back with the request's extras, so as a tool it has nothing to say to Anthropic."""
    settings: dict[str, Any] = {"label": fields.need("name", str), "url": fields.text("url")}
    if token := fields.text("authorization_token"):
        settings["headers"] = {"Authorization": f"Bearer {token}"}
    configuration = fields.object("tool_configuration") or {}
    if is_array(configuration.get("allowed_tools")):
        settings["allowed"] = configuration["allowed_tools"]
    fields.extras(losses, quiet=_QUIET_SERVER)
    if configuration.get("enabled") is False:
        return None
    return HostedTool("mcp", "", settings, where=fields.where, extras={PROTOCOL_NAME: {}})


def _encode_server(tool: HostedTool, losses: Losses) -> Wire:
    wire: Wire = {"type": "url", "name": _label(tool), "url": tool.settings["url"]}
    headers = tool.settings.get("headers")
    for name, value in headers.items() if is_object(headers) else ():
        if name.lower() == "authorization":
            wire["authorization_token"] = str(value).removeprefix("Bearer ")
        else:
            losses.dropped(f"{tool.where}.headers.{name}", "Anthropic sends no such header to MCP servers")
    return wire


_QUIET_SERVER = frozenset({"type"})


def _label(tool: HostedTool) -> str:
    return str(tool.settings.get("label") or tool.name or "mcp")


def _is_toolset(tool: AnyTool) -> TypeGuard[HostedTool]:
    return isinstance(tool, HostedTool) and tool.kind == "mcp"


def _is_foreign(tool: AnyTool) -> TypeGuard[HostedTool]:
    return _is_toolset(tool) and PROTOCOL_NAME not in (tool.extras or ()) and "url" in tool.settings
