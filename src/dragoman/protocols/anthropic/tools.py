"""Tool declarations and tool choice <-> neutral ones.

Anthropic marks its own tools by a dated `type`; everything else is a custom tool with a schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyTool,
    HostedTool,
    Request,
    ToolChoice,
    ToolDeclaration,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.anthropic.hosted import decode_hosted, encode_hosted
from dragoman.protocols.anthropic.wire import NO_EXTRAS, PROTOCOL_NAME, QUIET_TOOL, is_native

_INLINE = "inline"  # key of the extras: the tool is defined in a message
# Names of properties that Anthropic takes, one on each line
_KEYS = re.compile(r"(?:[a-zA-Z0-9_.-]{1,64}(?:\n|$))*")


@cached_by_tools
def decode_tools(tools: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    decoded: list[AnyTool] = []
    for i, tool in enumerate(tools):
        decoded.append(_decode_tool(tool, f"tools[{i}]", losses))
    return tuple(decoded)


@cached_by_tools
def encode_tools(
    tools: tuple[AnyTool, ...], losses: Losses, profile: ModelProfile, allowed: tuple[str, ...]
) -> list[Wire]:
    searched = _can_search(tools, profile)
    encoded: list[Wire | None] = []
    for tool in tools:
        if tool.extras and _INLINE in own(tool.extras, PROTOCOL_NAME):
            continue
        if isinstance(tool, HostedTool):
            encoded.append(encode_hosted(tool, profile, losses))
        elif (
            not allowed or tool.name in allowed
        ):  # tool_choice cannot name a subset, so only the subset is sent
            encoded.append(_encode_custom(tool, searched, losses))
    return [tool for tool in encoded if tool is not None]


@cached_by_tools
def deferred(tools: tuple[AnyTool, ...], losses: Losses) -> frozenset[str]:
    """The names of the tools that the conversation must load."""
    names: set[str] = set()
    for tool in tools:
        if isinstance(tool, ToolDeclaration) and tool.deferred:
            names.add(tool.name)
    return frozenset(names)


@cached_by_tools
def load(tools: tuple[AnyTool, ...], losses: Losses, loaded: frozenset[str]) -> tuple[AnyTool, ...]:
    """`tools` with those marked as loaded that the conversation has loaded."""
    return tuple(
        [
            replace(tool, deferred=False)
            if isinstance(tool, ToolDeclaration) and tool.name in loaded
            else tool
            for tool in tools
        ]
    )


def declare_used(calls: Sequence[tuple[str, str]], losses: Losses) -> Wire:
    """`tools` and `tool_choice` for a history with calls in a request that declares no tools.

    Bedrock and older models refuse tool blocks without `tools`; autogen's reflection step sends such
    requests. The declarations allow the history, and `none` keeps the model from calling them. `calls` are
    names with their places.
    """
    for name, where in calls:
        why = f"The history calls {name}, which the request does not declare."
        losses.invented(where or name, why, "tool.declaration")
    schema: Wire = {"type": "object", "properties": {}}
    tools: list[Wire] = [{"name": name, "input_schema": schema} for name, _ in calls]
    return {"tools": tools, "tool_choice": {"type": "none"}} if tools else {}


def decode_inline_tool(definition: Any, where: str, losses: Losses) -> AnyTool:
    """A tool that a message defines: other protocols get it declared, Anthropic in its message."""
    return replace(_decode_tool(definition, where, losses), extras={PROTOCOL_NAME: {_INLINE: True}})


def _decode_tool(tool: Any, where: str, losses: Losses) -> AnyTool:
    if is_object(tool) and len(tool) == 3 and type(name := tool.get("name")) is str:
        words, schema = tool.get("description"), tool.get("input_schema")
        if (
            type(words) is str and words and is_object(schema)
        ):  # the usual declaration, without the cost of Fields
            return ToolDeclaration(name, words, schema, where=where, extras=NO_EXTRAS)
    fields = Fields(tool, where, PROTOCOL_NAME)
    if fields.rest.get("cache_control"):
        why = "Tools are cached together with the conversation here."
        losses.dropped(fields.path("cache_control"), why, "cache.breakpoint")
    kind = fields.rest.get("type")
    if kind not in (None, "custom"):
        return decode_hosted(fields, losses)
    return ToolDeclaration(
        fields.need("name", str),
        fields.nonempty("description"),
        fields.object("input_schema"),
        True if fields.flag("strict") else fields.rest.get("strict"),
        deferred=fields.rest.get("defer_loading") is True,
        where=where,
        extras=fields.extras(losses, quiet=QUIET_TOOL),
    )


def _encode_custom(tool: ToolDeclaration, searched: bool, losses: Losses) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.parameters is not None:
        wire["input_schema"] = tool.parameters
    if tool.strict:
        wire["strict"] = True
    if is_native(tool):
        return wire | own(tool.extras, PROTOCOL_NAME)
    if not tool.parameters:  # required, also of a tool without parameters (G88: bifrost#2463)
        wire["input_schema"] = {"type": "object", "properties": {}}
    if tool.deferred and searched:
        wire["defer_loading"] = True
    properties = (tool.parameters or {}).get("properties")
    if is_object(properties) and not _KEYS.fullmatch("\n".join(properties)):
        why = "Anthropic refuses some of these property names. They were changed."
        losses.changed(f"{tool.where}.parameters", why, "tool.schema")
    return wire


def _can_search(tools: tuple[AnyTool, ...], profile: ModelProfile) -> bool:
    """Without a tool search a deferred tool would never be called."""
    searched = any(isinstance(tool, HostedTool) and tool.kind == "tool_search" for tool in tools)
    return searched and profile.tool_search


def decode_choice(fields: Fields, losses: Losses) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and the parallel switch that lives inside it."""
    choice = fields.fields("tool_choice")
    if choice is None:
        return None, None
    wire = {PROTOCOL_NAME: choice.rest.copy()}
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
            problem = f"expected auto, any, tool or none, got {kind!r}"
            raise WireError(PROTOCOL_NAME, "tool_choice.type", problem)
    choice.extras(losses)
    return result, parallel


def encode_choice(request: Request, tools: bool, profile: ModelProfile, losses: Losses) -> Wire:
    choice = request.tool_choice or (ToolChoice("auto") if request.parallel is False else None)
    if choice is None:
        return {}
    if native := own(choice.extras, PROTOCOL_NAME):
        return {"tool_choice": native}
    if not tools:
        if choice.mode == "required":
            losses.dropped("tool_choice", "There are no tools to choose from.", "tool.choice")
        return {}
    wire = _encode_mode(choice, profile, losses)
    if request.parallel is not None and choice.mode != "none":
        wire["disable_parallel_tool_use"] = not request.parallel
    return {"tool_choice": wire}


def _encode_mode(choice: ToolChoice, profile: ModelProfile, losses: Losses) -> Wire:
    if _names_subset(choice):
        why = "Anthropic cannot name a subset of tools. Only the allowed ones were sent."
        losses.changed("tool_choice", why, "tool.choice")
    match choice:
        case ToolChoice("required") if not profile.forced_tools:
            losses.changed(
                "tool_choice", "The model cannot be made to call a tool. It may call one.", "tool.choice"
            )
            return {"type": "auto"}
        case ToolChoice("required", (name,)):
            return {"type": "tool", "name": name}
        case ToolChoice("required"):
            return {"type": "any"}
        case ToolChoice(mode):
            return {"type": mode}


def allowed(choice: ToolChoice | None) -> tuple[str, ...]:
    """The tools that a choice restricts the model to, where it names several or forces none."""
    return choice.names if choice and _names_subset(choice) else ()


def _names_subset(choice: ToolChoice) -> bool:
    """One name that must be called is not a subset but that tool."""
    return bool(choice.names) and choice.mode != "none" and (len(choice.names) > 1 or choice.mode == "auto")
