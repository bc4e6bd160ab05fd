"""Tool declarations, tool choice and the parallel switch <-> neutral ones.

`functions` with `function_call` are the deprecated forms of `tools` with `tool_choice`. A choice is a word or
an object that names tools; it is kept as it came beside its meaning.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, Request, ToolChoice, ToolDeclaration, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.openai import report_choice
from dragoman.protocols.openai_chat.hosted import decode_hosted, decode_search_options, encode_hosted
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, leftovers


def decode_tools(fields: Fields, losses: Losses) -> tuple[AnyTool, ...]:
    tools = _decode_tools(_take_list(fields, "tools"), losses)
    if "functions" not in fields.rest and "web_search_options" not in fields.rest:
        return tools
    found: list[AnyTool] = []
    for i, function in enumerate(_take_list(fields, "functions")):
        inner = Fields(function, f"functions[{i}]", PROTOCOL_NAME)
        found.append(_decode_function(inner, {"functions": inner.rest}, losses))
    search = fields.object("web_search_options")
    if search is not None:
        found.append(decode_search_options(search))
    return (*tools, *found)


def encode_tools(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """`tools`, `functions` and `web_search_options`, as far as there are any."""
    allowed = _allowed(request.tool_choice, profile, losses) if request.tool_choice else ()
    return _encode_tools(request.tools, losses, profile, allowed)


@cached_by_tools
def _decode_tools(tools: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([_decode_tool(tool, f"tools[{i}]", losses) for i, tool in enumerate(tools)])


@cached_by_tools
def _encode_tools(
    tools: tuple[AnyTool, ...], losses: Losses, profile: ModelProfile, allowed: tuple[str, ...]
) -> Wire:
    wire: Wire = {}
    for tool in tools:
        if allowed and isinstance(tool, ToolDeclaration) and tool.name not in allowed:
            continue
        extras = own(tool.extras, PROTOCOL_NAME)
        if isinstance(tool, HostedTool):
            wire |= encode_hosted(tool, extras, wire, profile, losses)
        elif "functions" in extras:
            wire.setdefault("functions", []).append(_encode_function(tool, extras["functions"]))
        else:
            wire.setdefault("tools", []).append(_encode_tool(tool, extras, losses))
    return wire


def _allowed(choice: ToolChoice, profile: ModelProfile, losses: Losses) -> tuple[str, ...]:
    """Names of the only tools to declare: compatible servers do not know `allowed_tools`."""
    if own(choice.extras, PROTOCOL_NAME) or profile.allowed_tools:
        return ()
    if len(choice.names) < 2 and not (choice.names and choice.mode == "auto"):
        return ()
    why = "This upstream cannot limit the choice. Only the allowed tools were sent."
    losses.changed("tool_choice", why, "tool.choice")
    return choice.names


def _take_list(fields: Fields, key: str) -> list[Any]:
    """An empty list stays in the extras."""
    return (fields.list(key) if fields.rest.get(key) != [] else None) or []


def _decode_tool(tool: Any, where: str, losses: Losses) -> AnyTool:
    fields = Fields(tool, where, PROTOCOL_NAME)
    match kind := fields.rest.get("type"):
        case None | "function":
            inner = fields.need_fields("function")
            extras = leftovers(fields, losses, _QUIET_TOOL)[PROTOCOL_NAME]
            extras["function"] = inner.rest
            return _decode_function(inner, extras, losses)
        case "custom":
            return _decode_custom(fields, losses)
        case str():
            return decode_hosted(fields, kind)
        case _:
            raise fields.wrong("type", "str", kind)


def _encode_tool(tool: ToolDeclaration, extras: Wire, losses: Losses) -> Wire:
    if tool.namespace:
        losses.dropped(f"{tool.where}.namespace", "Chat has no namespaces.", "tool.namespace")
    if tool.deferred:
        losses.changed(
            f"{tool.where}.defer_loading",
            "Chat cannot load a tool later, so it was declared now.",
            "tool.deferred",
        )
    if tool.kind == "custom":
        return {"type": "custom", **extras, "custom": _encode_custom(tool, extras.get("custom", {}))}
    if "function" not in extras:
        return {"type": "function", "function": _encode_function(tool, None)}
    return {**extras, "function": _encode_function(tool, extras["function"])}


_QUIET_TOOL = frozenset({"type"})


def _decode_function(inner: Fields, extras: Wire, losses: Losses) -> ToolDeclaration:
    """`extras` refers to `inner.rest`, so it holds what remains after the fields are taken here."""
    tool = ToolDeclaration(
        inner.need("name", str),
        inner.nonempty("description"),
        inner.object("parameters"),
        inner.take("strict", bool),
        where=inner.where.removesuffix(".function"),
        extras={PROTOCOL_NAME: extras},
    )
    leftovers(inner, losses)
    return tool


def _encode_function(tool: ToolDeclaration, rest: Wire | None) -> Wire:
    """`rest`: other fields of a declaration that came from Chat; None for one that did not."""
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if rest is None:  # servers refuse null and a tool without it (G88: new-api#6862, any-llm#1047)
        wire["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    elif tool.parameters is not None:
        wire["parameters"] = tool.parameters
    if tool.strict is not None:
        wire["strict"] = tool.strict
    return wire | (rest or {})


def _decode_custom(fields: Fields, losses: Losses) -> ToolDeclaration:
    """`format` is read and also stays in the extras, so the grammar goes back as it came."""
    inner = fields.need_fields("custom")
    grammar = None
    match inner.rest.get("format"):
        case {"type": "grammar", "grammar": {"syntax": str(syntax), "definition": str(definition)}}:
            grammar = (syntax, definition)
        case _:
            pass
    extras = leftovers(fields, losses, _QUIET_TOOL)
    extras[PROTOCOL_NAME]["custom"] = inner.rest
    name, description = inner.need("name", str), inner.nonempty("description")
    leftovers(inner, losses, frozenset({"format"}))
    return ToolDeclaration(
        name, description, kind="custom", grammar=grammar, where=fields.where, extras=extras
    )


def _encode_custom(tool: ToolDeclaration, rest: Wire) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.grammar:
        syntax, definition = tool.grammar
        wire["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return wire | rest


def decode_choice(fields: Fields, losses: Losses) -> ToolChoice | None:
    for key in ("tool_choice", "function_call"):
        if (choice := fields.any(key)) is not None:
            mode, names = _read_choice(choice, key)
            if is_object(choice):
                report_choice(choice, key, PROTOCOL_NAME, losses)
            return ToolChoice(mode, names, where=key, extras={PROTOCOL_NAME: {key: choice}})
    return None


def encode_choice(request: Request, declared: Wire, profile: ModelProfile, losses: Losses) -> Wire:
    """The choice and the parallel switch; servers refuse both without tools (G61: cc-switch#3640)."""
    choice = request.tool_choice
    if "tools" not in declared and "functions" not in declared:
        if choice and choice.mode == "required":
            losses.dropped("tool_choice", "There are no tools to choose from.", "tool.choice")
        return {}
    wire: Wire = {}
    if choice:
        wire |= own(choice.extras, PROTOCOL_NAME) or {"tool_choice": _write_choice(choice, request, profile)}
    if request.parallel is not None and "tools" in declared:
        wire["parallel_tool_calls"] = request.parallel
    return wire


def _read_choice(choice: Any, key: str) -> tuple[Any, tuple[str, ...]]:
    match choice:
        case "auto" | "none" | "required":
            return choice, ()
        case "any":  # Mistral's word for required
            return "required", ()
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": tools},
        }:
            if not is_array(tools):
                raise WireError(PROTOCOL_NAME, f"{key}.allowed_tools.tools", "expected an array")
            return mode, tuple([_named(tool, key) for tool in tools])
        case dict():
            return "required", (_named(choice, key),)
        case _:
            problem = f"expected none, auto, required or an object, got {describe(choice)}"
            raise WireError(PROTOCOL_NAME, key, problem)


def _named(choice: Any, key: str) -> str:
    """The name in `{type, function: {name}}`, in its custom twin, or in the older `{name}`."""
    match choice:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            problem = f"expected an object that names a tool, got {describe(choice)}"
            raise WireError(PROTOCOL_NAME, key, problem)


def _write_choice(choice: ToolChoice, request: Request, profile: ModelProfile) -> Any:
    if choice.names and choice.mode != "none":
        custom = {
            tool.name for tool in request.tools if isinstance(tool, ToolDeclaration) and tool.kind == "custom"
        }
        tools = [_naming(name, custom) for name in choice.names]
        if choice.mode == "required" and len(tools) == 1:
            return tools[0]
        if profile.allowed_tools:
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return profile.required_choice if choice.mode == "required" else choice.mode


def _naming(name: str, custom: set[str]) -> Wire:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}
