"""`toolConfig` <-> tool declarations and tool choice. There is no word for "none"."""

from __future__ import annotations

from typing import Any

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
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME, as_it_came, is_native

Calls = tuple[tuple[str, str], ...]  # the names that the history calls, with their places
_EMPTY_SCHEMA: Wire = {"type": "object", "properties": {}}


def decode_tools(tools: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([_decode_tool(tool, f"toolConfig.tools[{i}]", losses) for i, tool in enumerate(tools)])


def _decode_tool(tool: Any, where: str, losses: Losses) -> AnyTool:
    outer = Fields(tool, where, PROTOCOL_NAME)
    if "toolSpec" not in outer.rest:  # a system tool, or a cachePoint
        kind = next(iter(outer.rest), "{}")
        losses.dropped(where, f"Only {PROTOCOL_NAME} understands {kind}.", "hosted.other")
        return HostedTool("other", kind, where=where, extras={PROTOCOL_NAME: {"block": tool}})
    fields = outer.need_fields("toolSpec")
    schema = fields.need_fields("inputSchema")
    declared = ToolDeclaration(
        fields.need("name", str),
        fields.nonempty("description"),
        schema.object("json"),
        fields.take("strict", bool),
        where=where,
        extras={PROTOCOL_NAME: {"block": tool}},
    )
    for each in (outer, fields, schema):
        each.extras(losses)
    return declared


def encode_tools(request: Request, calls: Calls, losses: Losses) -> list[Wire]:
    """Those that the choice allows; where the history has calls of undeclared tools, these too."""
    choice = request.tool_choice
    allowed = choice.names if choice and choice.mode != "none" and len(choice.names) != 1 else ()
    if choice and choice.names and choice.mode == "auto":
        allowed = choice.names
    encoded: list[Wire] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool) and is_native(tool):
            encoded.append(own(tool.extras, PROTOCOL_NAME)["block"])
        elif isinstance(tool, HostedTool):
            why = f"Bedrock has no hosted {tool.name or tool.kind} tool."
            losses.dropped(tool.where, why, f"hosted.{tool.kind}")
        elif not allowed or tool.name in allowed:
            encoded.append(as_it_came(tool, {"toolSpec": _encode_tool(tool)}))
    if allowed:
        why = "Bedrock cannot name a subset of tools. Only the allowed ones were sent."
        losses.changed("tool_choice", why, "tool.choice")
    return encoded or _used(calls, losses)


def _encode_tool(tool: ToolDeclaration) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    wire["inputSchema"] = {"json": tool.parameters or _EMPTY_SCHEMA}
    if tool.strict:
        wire["strict"] = True
    return wire


def _used(calls: Calls, losses: Losses) -> list[Wire]:
    """Bedrock refuses calls and results where toolConfig is missing ("The toolConfig field must be defined
    when using toolUse and toolResult content blocks", dify#16421)."""
    for name, where in calls:
        why = f"The history calls {name}, which the request does not declare."
        losses.invented(where, why, "tool.declaration")
    return [{"toolSpec": {"name": name, "inputSchema": {"json": _EMPTY_SCHEMA}}} for name, _ in calls]


def decode_choice(choice: Any, losses: Losses) -> ToolChoice:
    fields = Fields(choice, "toolConfig.toolChoice", PROTOCOL_NAME)
    wire = {PROTOCOL_NAME: fields.rest.copy()}
    match next(iter(fields.rest), ""):
        case "auto":
            return ToolChoice("auto", extras=wire)
        case "any":
            return ToolChoice("required", extras=wire)
        case "tool":
            return ToolChoice("required", (fields.need_fields("tool").need("name", str),), extras=wire)
        case kind:
            raise WireError(
                PROTOCOL_NAME, "toolConfig.toolChoice", f"expected auto, any or tool, got {kind!r}"
            )


def encode_tool_config(
    request: Request, calls: Calls, has_tools: bool, profile: ModelProfile, losses: Losses
) -> Wire:
    """Empty where no tool is declared. `has_tools`: the history has calls or results. With the choice "none"
    the tools are left out, unless the history needs them: then the model may call one."""
    choice = request.tool_choice
    if choice and choice.mode == "none":
        if not has_tools:
            if request.tools:
                why = "Bedrock cannot forbid tool calls. The tools were left out instead."
                losses.changed("tool_choice", why, "tool.choice")
            return {}
        losses.dropped(
            "tool_choice", "Bedrock cannot forbid tool calls, and the history needs the tools.", "tool.choice"
        )
        choice = None
    tools = encode_tools(request, calls, losses)
    if not tools:
        if choice and choice.mode == "required":
            losses.dropped("tool_choice", "There are no tools to choose from.", "tool.choice")
        return {}
    config: Wire = {"tools": tools}
    if choice:
        config["toolChoice"] = own(choice.extras, PROTOCOL_NAME) or _encode_choice(choice, profile, losses)
    return {"toolConfig": config}


def _encode_choice(choice: ToolChoice, profile: ModelProfile, losses: Losses) -> Wire:
    match choice:
        case ToolChoice("required") if not profile.forced_tools:
            losses.changed(
                "tool_choice", "The model cannot be made to call a tool. It may call one.", "tool.choice"
            )
            return {"auto": {}}
        case ToolChoice("required", (name,)):
            return {"tool": {"name": name}}
        case ToolChoice("required"):
            return {"any": {}}
        case _:
            return {"auto": {}}


def is_forced(body: Wire) -> bool:
    config = body.get("toolConfig")
    choice = config.get("toolChoice") if is_object(config) else None
    return is_object(choice) and "auto" not in choice
