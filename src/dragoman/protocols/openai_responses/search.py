"""The tool search that a client runs itself: to every other protocol a function named tool_search.

Agents such as Codex keep most of their tools back until the model has searched for them. The
declaration, the call and its output have types of their own here, and go back as they came; what
was found is declared with the other tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, HostedTool, Request, Text, Tool, ToolCall, ToolResult, Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_ITEM, native, printed

TOOL_SEARCH = "tool_search"
_QUIET = QUIET_ITEM | {"execution", "arguments", "tools"}


def is_clients_search(item: Wire) -> bool:
    return item.get("execution") == "client" and isinstance(item.get("call_id"), str)


def decode_search_tool(fields: Fields, losses: Losses) -> Tool:
    quiet = frozenset({"type", "execution", "description", "parameters"})
    description, parameters = fields.nonempty("description"), fields.object("parameters")
    return Tool(
        TOOL_SEARCH, description, parameters, where=fields.where, extras=fields.extras(losses, quiet=quiet)
    )


def encode_search_tool(tool: Tool) -> Wire:
    wire = own(tool.extras, PROTOCOL_NAME).copy()
    if tool.description:
        wire["description"] = tool.description
    if tool.parameters is not None:
        wire["parameters"] = tool.parameters
    return wire


def decode_search(fields: Fields, losses: Losses) -> ToolCall:
    """The arguments are an object, and stay in the extras as they came."""
    id, arguments = fields.need("call_id", str), fields.rest.get("arguments")
    text = (
        arguments
        if isinstance(arguments, str)
        else ""
        if arguments is None
        else printed(arguments, fields.path("arguments"))
    )
    return ToolCall(id, TOOL_SEARCH, text, where=fields.where, extras=fields.extras(losses, quiet=_QUIET))


def encode_search(call: ToolCall) -> Wire:
    arguments = jsontext.decode_object(call.arguments) if call.arguments else {}
    told = call.arguments if arguments is None else arguments
    return {"arguments": told, **own(call.extras, PROTOCOL_NAME), "call_id": call.id}


def decode_found(fields: Fields, losses: Losses) -> ToolResult:
    """The tools stay in the extras; others are told their names."""
    id, names = fields.need("call_id", str), _names(fields.rest.get("tools"))
    told = f"Tools now available: {', '.join(names)}" if names else "No tools were found."
    extras = fields.extras(losses, quiet=_QUIET)
    return ToolResult(id, TOOL_SEARCH, (Text(told, where=fields.where),), where=fields.where, extras=extras)


def encode_found(result: ToolResult) -> Wire:
    return {**own(result.extras, PROTOCOL_NAME), "call_id": result.call_id}


def declares_search(tools: Iterable[Tool | HostedTool]) -> bool:
    return any(
        own(tool.extras, PROTOCOL_NAME).get("type") == TOOL_SEARCH for tool in tools if isinstance(tool, Tool)
    )


def claimed(part: AnyPart, request: Request | None, id: str) -> AnyPart:
    """A call of the search that this client declared, as the client expects it."""
    if not isinstance(part, ToolCall) or part.name != TOOL_SEARCH or native(part):
        return part
    if request is None or not declares_search(request.tools):
        return part
    item: Wire = {"type": "tool_search_call", "id": id, "execution": "client", "status": "completed"}
    return replace(part, extras={PROTOCOL_NAME: item})


def _names(tools: Any) -> list[str]:
    names: list[str] = []
    for tool in tools if is_array(tools) else []:
        if is_object(tool) and tool.get("type") == "namespace":
            names += [f"{tool.get('name')}__{name}" for name in _names(tool.get("tools"))]
        elif is_object(tool):
            name = tool.get("name") or tool.get("server_label") or tool.get("type")
            names += [name] if isinstance(name, str) else []
    return names
