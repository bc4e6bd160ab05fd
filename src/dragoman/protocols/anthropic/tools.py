"""Tool declarations and tool choice <-> neutral ones.

Anthropic marks its own tools by a dated `type`; everything else is a custom tool with a schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Tool, ToolChoice, Wire
from dragoman.protocols.anthropic import models
from dragoman.protocols.anthropic.hosted import HostedTool, decode_hosted, encode_hosted
from dragoman.protocols.anthropic.parts import NO_EXTRAS, is_native
from dragoman.protocols.anthropic.wire import PROTOCOL, QUIET_TOOL

_KEYS = re.compile(r"(?:[a-zA-Z0-9_.-]{1,64}(?:\n|$))*")


def decode_tool(tool: Any, where: str, losses: Losses, loaded: Collection[str] = ()) -> Tool | HostedTool:
    """`loaded`: names of deferred tools that the conversation has loaded since."""
    if is_object(tool) and len(tool) == 3 and type(name := tool.get("name")) is str:
        words, schema = tool.get("description"), tool.get("input_schema")
        if type(words) is str and words and is_object(schema):  # most are no more than this
            return Tool(name, words, schema, where=where, extras=NO_EXTRAS)
    fields = Fields(tool, where, PROTOCOL)
    kind = fields.rest.get("type")
    if kind not in (None, "custom"):
        return decode_hosted(fields, losses)
    name = fields.need("name", str)
    return Tool(
        name,
        fields.nonempty("description"),
        fields.object("input_schema"),
        True if fields.flag("strict") else fields.rest.get("strict"),
        deferred=fields.rest.get("defer_loading") is True and name not in loaded,
        where=where,
        extras=fields.extras(losses, quiet=QUIET_TOOL),
    )


def encode_tools(request: Request, losses: Losses) -> list[Wire]:
    choice = request.tool_choice
    allowed = choice.names if choice and _names_subset(choice) else ()
    encoded: list[Wire | None] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            encoded.append(encode_hosted(tool, request.model, losses))
        elif not allowed or tool.name in allowed:  # the others stay at home: a subset cannot be named
            encoded.append(_encode_custom(tool, request, losses))
    return [tool for tool in encoded if tool is not None]


def _encode_custom(tool: Tool, request: Request, losses: Losses) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.parameters is not None:
        wire["input_schema"] = tool.parameters
    if tool.strict:
        wire["strict"] = True
    if is_native(tool):
        return wire | own(tool.extras, PROTOCOL)
    if not tool.parameters:
        wire["input_schema"] = {"type": "object", "properties": {}}
    if tool.deferred and _can_search(request):
        wire["defer_loading"] = True
    properties = (tool.parameters or {}).get("properties")
    if is_object(properties) and not _KEYS.fullmatch("\n".join(properties)):
        losses.changed(f"{tool.where}.parameters", "Anthropic refuses property names like some of these")
    return wire


def _can_search(request: Request) -> bool:
    """A deferred tool that nobody can look for would never be called."""
    searched = any(isinstance(tool, HostedTool) and tool.kind == "tool_search" for tool in request.tools)
    return searched and models.takes_tool_search(request.model)


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
    if native := own(choice.extras, PROTOCOL):
        return {"tool_choice": native}
    if not tools:
        if choice.mode == "required":
            losses.dropped("tool_choice", "there are no tools to choose from")
        return {}
    wire = _encode_mode(choice, request.model, losses)
    if request.parallel is not None and choice.mode != "none":
        wire["disable_parallel_tool_use"] = not request.parallel
    return {"tool_choice": wire}


def _encode_mode(choice: ToolChoice, model: str, losses: Losses) -> Wire:
    if _names_subset(choice):
        losses.changed("tool_choice", "Anthropic cannot name a subset: only the allowed tools are sent")
    match choice:
        case ToolChoice("required") if models.refuses_forced_tools(model):
            losses.changed("tool_choice", "the model cannot be made to call a tool: it may")
            return {"type": "auto"}
        case ToolChoice("required", (name,)):
            return {"type": "tool", "name": name}
        case ToolChoice("required"):
            return {"type": "any"}
        case ToolChoice(mode):
            return {"type": mode}


def _names_subset(choice: ToolChoice) -> bool:
    """One name that must be called is not a subset but that tool."""
    return bool(choice.names) and choice.mode != "none" and (len(choice.names) > 1 or choice.mode == "auto")
