"""Tool declarations and tool choice <-> neutral ones.

A namespace declares several tools at once (G91: codex#33263); each becomes a tool that names it, and a note
under ITEM holds the declaration. Tools may also arrive inside the conversation: they are declared with the
others, and marked so that they are not written twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, Request, ToolChoice, ToolDeclaration, Wire
from dragoman.protocols.openai import report_choice
from dragoman.protocols.openai_responses.hosted import (
    HOISTED,
    decode_hosted,
    decode_search_tool,
    encode_hosted,
    encode_search_tool,
    kind_of,
)
from dragoman.protocols.openai_responses.wire import ITEM, PROTOCOL_NAME, is_native

_QUIET = frozenset({"type", "defer_loading", "format", "description", "strict", "parameters"})
_QUIET_NAMESPACE = frozenset({"type"})  # no other protocol has namespaces: the description is lost


@cached_by_tools
def decode_tools(tools: list[Any], losses: Losses, where: str) -> tuple[AnyTool, ...]:
    return tuple(
        [tool for i, wire in enumerate(tools) for tool in _decode_tool(wire, f"{where}[{i}]", losses)]
    )


@cached_by_tools
def encode_tools(tools: tuple[AnyTool, ...], losses: Losses) -> list[Wire]:
    searchable = any(isinstance(tool, HostedTool) and tool.kind == "tool_search" for tool in tools)
    declared: list[Wire] = []
    open: tuple[str, Any] | None = None
    for tool in tools:
        note = own(tool.extras, ITEM)
        if note.get("hoisted"):
            continue
        if not searchable and isinstance(tool, ToolDeclaration) and tool.deferred and not is_native(tool):
            why = f"{tool.name} is deferred. It is sent once it has been loaded."
            losses.changed(tool.where, why, "tool.deferred")
            continue
        is_hosted = isinstance(tool, HostedTool)
        wire = encode_hosted(tool, losses) if is_hosted else _encode_tool(tool)
        key = (tool.namespace, note.get("at")) if not is_hosted and tool.namespace else None
        if wire and key and key == open:
            declared[-1]["tools"].append(wire)
        elif wire:
            declared.append(_encode_namespace(key[0], note, wire) if key else wire)
        open = key
    return declared


def hoists(item: Any) -> bool:
    """Whether the item adds to the declared tools, or loads some of them."""
    kind = item.get("type") if is_object(item) else None
    return isinstance(kind, str) and kind in HOISTED


def decode_loaded(
    items: list[tuple[int, Any]], declared: tuple[AnyTool, ...], losses: Losses
) -> tuple[AnyTool, ...]:
    """The `declared` tools, and those that `items`, with their places, add to them or load."""
    if not items:
        return declared
    known = {
        (tool.namespace, tool.name): i for i, tool in enumerate(declared) if isinstance(tool, ToolDeclaration)
    }
    tools = list(declared)
    for i, item in items:
        inner = Fields(item, f"input[{i}]", PROTOCOL_NAME)
        for tool in decode_tools(inner.list("tools") or [], losses, inner.path("tools")):
            tool = _hoisted(tool, found=item["type"] == "tool_search_output")
            key = (tool.namespace, tool.name) if isinstance(tool, ToolDeclaration) else ("", tool.where)
            place = known.setdefault(key, len(tools))
            if place == len(tools):
                tools.append(tool)
            elif isinstance(tool, ToolDeclaration) and not tool.deferred:
                tools[place] = replace(tools[place], deferred=False)  # pyright: ignore[reportCallIssue] - a tool, as its key says
    return tuple(tools)


def _hoisted(tool: AnyTool, found: bool) -> AnyTool:
    extras = {**(tool.extras or {}), ITEM: {"hoisted": True}}
    loaded = {"deferred": False} if found and isinstance(tool, ToolDeclaration) else {}
    return replace(tool, extras=extras, **loaded)


def _decode_tool(tool: Any, where: str, losses: Losses) -> list[AnyTool]:
    fields = Fields(tool, where, PROTOCOL_NAME)
    match kind := fields.rest.get("type"):
        case "function":
            return [_decode_function(fields, losses)]
        case "custom":
            return [_decode_custom(fields, losses)]
        case "tool_search" if fields.rest.get("execution") == "client":
            return [decode_search_tool(fields, losses)]
        case "namespace" if fields.rest.get("tools"):
            return _decode_namespace(fields, losses)
        case str():
            return [decode_hosted(fields, kind, losses)]
        case _:
            raise fields.wrong("type", "str", kind)


def _encode_tool(tool: ToolDeclaration) -> Wire:
    """`strict` is always written: OpenAI's default is true, that of other servers false (G82)."""
    ours = is_native(tool)
    if ours and own(tool.extras, PROTOCOL_NAME).get("type") == "tool_search":
        return encode_search_tool(tool)
    wire: Wire = {"type": tool.kind, "name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.kind == "custom" and tool.grammar:
        syntax, definition = tool.grammar
        wire["format"] = {"type": "grammar", "syntax": syntax, "definition": definition}
    if tool.kind == "function" and (tool.parameters is not None or not ours):
        wire["parameters"] = (
            {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
        )
    if tool.kind == "function" and (tool.strict is not None or not ours):
        wire["strict"] = tool.strict or False
    if tool.deferred:
        wire["defer_loading"] = True
    return {**wire, **own(tool.extras, PROTOCOL_NAME)}


def _decode_function(fields: Fields, losses: Losses) -> ToolDeclaration:
    return ToolDeclaration(
        fields.need("name", str),
        fields.nonempty("description"),
        fields.object("parameters"),
        fields.take("strict", bool),
        deferred=fields.rest.get("defer_loading") is True,
        where=fields.where,
        extras=fields.extras(losses, quiet=_QUIET),
    )


def _decode_custom(fields: Fields, losses: Losses) -> ToolDeclaration:
    match fields.rest.get("format"):
        case {"type": "grammar", "syntax": str(syntax), "definition": str(definition)}:
            grammar = (syntax, definition)
        case None | {"type": "text"}:
            grammar = None
        case other:
            problem = f"expected text or a grammar, got {describe(other)}"
            raise WireError(PROTOCOL_NAME, fields.path("format"), problem)
    return ToolDeclaration(
        fields.need("name", str),
        fields.nonempty("description"),
        kind="custom",
        grammar=grammar,
        deferred=fields.rest.get("defer_loading") is True,
        where=fields.where,
        extras=fields.extras(losses, quiet=_QUIET),
    )


def _decode_namespace(fields: Fields, losses: Losses) -> list[AnyTool]:
    name, tools = fields.need("name", str), fields.list("tools") or []
    note = {"at": fields.where, "declared": fields.rest}
    fields.extras(losses, quiet=_QUIET_NAMESPACE)
    nested = decode_tools(tools, losses, fields.path("tools"))
    if not all(isinstance(tool, ToolDeclaration) for tool in nested):
        raise WireError(PROTOCOL_NAME, fields.path("tools"), "expected function and custom tools only")
    return [replace(tool, namespace=name, extras={**(tool.extras or {}), ITEM: note}) for tool in nested]  # pyright: ignore[reportCallIssue] - tools, as checked above


def _encode_namespace(name: str, note: Wire, first: Wire) -> Wire:
    declared = note.get("declared") or {"type": "namespace", "description": f"Tools of {name}."}
    return {**declared, "name": name, "tools": [first]}


def decode_choice(fields: Fields, losses: Losses) -> ToolChoice | None:
    choice = fields.any("tool_choice")
    whole = {PROTOCOL_NAME: {"tool_choice": choice}}
    match choice:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(choice, extras=whole)
        case {"type": "function" | "custom", "name": str(name)}:
            report_choice(choice, "tool_choice", PROTOCOL_NAME, losses)
            return ToolChoice("required", (name,), extras=whole)
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list()}:
            report_choice(choice, "tool_choice", PROTOCOL_NAME, losses)
            names, hosted = _allowed(choice["tools"], losses)
            return ToolChoice(mode, names, hosted, extras=whole)
        case {"type": str(kind)} if forced := _forced(choice, kind):
            return ToolChoice("required", (), (forced,), extras=whole)
        case {"type": str(kind)} if kind not in ("function", "custom", "allowed_tools"):
            why = f"Only {PROTOCOL_NAME} can force its {kind}. Some tool is required instead."
            losses.changed("tool_choice", why, "tool.choice")
            return ToolChoice("required", extras=whole)
        case _:
            problem = f"expected auto, none, required or an object that names tools, got {describe(choice)}"
            raise WireError(PROTOCOL_NAME, "tool_choice", problem)


def _forced(choice: Wire, wire: str) -> str:
    """The hosted tool that a choice forces; empty where it is one that clients run themselves."""
    kind = kind_of(wire)
    if kind == "mcp" and type(label := choice.get("server_label")) is str:
        return f"mcp:{label}"
    return kind if kind in ("web_search", "tool_search") else ""


def _allowed(tools: list[Any], losses: Losses) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions and the hosted tools that a choice allows."""
    names: list[str] = []
    hosted: list[str] = []
    for i, tool in enumerate(tools):
        match tool:
            case {"type": "function" | "custom", "name": str(name)}:
                names.append(name)
            case {"type": "mcp", "server_label": str(label)} if tool.get("name") is None:
                hosted.append(f"mcp:{label}")
            case {"type": str(wire)} if wire != "mcp" and (kind := kind_of(wire)) != "other":
                hosted.append(kind)
            case _:
                why = f"Only {PROTOCOL_NAME} can allow it."
                losses.dropped(f"tool_choice.tools[{i}]", why, "tool.choice")
                hosted.append("other")  # a choice that allows nothing else still restricts
    return tuple(names), tuple(hosted)


def encode_choice(request: Request, tools: list[Wire], losses: Losses) -> Wire:
    choice = request.tool_choice
    if choice is None:
        return {}
    if ours := own(choice.extras, PROTOCOL_NAME):
        return ours
    if not tools:
        if choice.mode == "required":
            losses.dropped("tool_choice", "There are no tools to choose from.", "tool.choice")
        return {}
    named = [{"type": _kind(request.tools, name), "name": name} for name in choice.names]
    if not named:
        return {"tool_choice": choice.mode}
    if len(named) == 1 and choice.mode == "required":
        return {"tool_choice": named[0]}
    if choice.mode == "none":
        return {"tool_choice": "none"}
    return {"tool_choice": {"type": "allowed_tools", "mode": choice.mode, "tools": named}}


def _kind(tools: Iterable[AnyTool], name: str) -> str:
    return next(
        (tool.kind for tool in tools if isinstance(tool, ToolDeclaration) and tool.name == name), "function"
    )
