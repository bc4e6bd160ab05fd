"""Tool declarations and tool choice <-> neutral ones.

Web search is not a tool here but a setting of the request, and `functions` with `function_call` are
the ancestors of `tools` with `tool_choice`.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedKind, HostedTool, Request, Tool, Wire
from dragoman.core.repeated import remembered
from dragoman.protocols.openai_chat import models
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, leftovers

_HOSTED: dict[str, HostedKind] = {
    "openrouter:web_search": "web_search",
    "web_search": "web_search",
    "browser_search": "web_search",
    "code_interpreter": "code_execution",
}


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
        found.append(_decode_search(search))
    return (*tools, *found)


def encode_tools(request: Request, losses: Losses) -> Wire:
    """`tools`, `functions` and `web_search_options`, as far as there are any."""
    return _encode_tools(request.tools, losses, request.model, _allowed(request, losses))


@remembered
def _decode_tools(tools: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([_decode_tool(tool, f"tools[{i}]", losses) for i, tool in enumerate(tools)])


@remembered
def _encode_tools(tools: tuple[AnyTool, ...], losses: Losses, model: str, allowed: tuple[str, ...]) -> Wire:
    wire: Wire = {}
    for tool in tools:
        if allowed and isinstance(tool, Tool) and tool.name not in allowed:
            continue
        extras = own(tool.extras, PROTOCOL_NAME)
        if isinstance(tool, HostedTool):
            wire |= _encode_hosted(tool, extras, wire, model, losses)
        elif "functions" in extras:
            wire.setdefault("functions", []).append(_encode_function(tool, extras["functions"]))
        else:
            wire.setdefault("tools", []).append(_encode_tool(tool, extras, losses))
    return wire


def _allowed(request: Request, losses: Losses) -> tuple[str, ...]:
    """Compatible servers cannot name a subset, so the tools outside it stay at home."""
    choice = request.tool_choice
    if choice is None or own(choice.extras, PROTOCOL_NAME) or models.knows_openai_fields(request.model):
        return ()
    if len(choice.names) < 2 and not (choice.names and choice.mode == "auto"):
        return ()
    losses.changed("tool_choice", "this upstream cannot name a subset: only the allowed tools are sent")
    return choice.names


def _take_list(fields: Fields, key: str) -> list[Any]:
    """An empty list stays among the leftovers."""
    return (fields.list(key) if fields.rest.get(key) != [] else None) or []


def _decode_tool(tool: Any, where: str, losses: Losses) -> AnyTool:
    fields = Fields(tool, where, PROTOCOL_NAME)
    match kind := fields.rest.get("type"):
        case None | "function":
            inner = fields.fields("function")
            if inner is None:
                raise WireError(PROTOCOL_NAME, f"{where}.function", "expected an object, got nothing")
            extras = leftovers(fields, losses, _QUIET_TOOL)[PROTOCOL_NAME]
            extras["function"] = inner.rest
            return _decode_function(inner, extras, losses)
        case "custom":
            return _decode_custom(fields, losses)
        case str():
            name = tool.get("name")
            return HostedTool(
                _HOSTED.get(kind, "other"),
                name if type(name) is str else "",
                where=where,
                extras={PROTOCOL_NAME: fields.rest},
            )
        case _:
            raise fields.wrong("type", "str", kind)


_QUIET_TOOL = frozenset({"type"})


def _decode_function(inner: Fields, extras: Wire, losses: Losses) -> Tool:
    """`extras` holds what is left of `inner`, as it is taken apart here."""
    tool = Tool(
        inner.need("name", str),
        inner.nonempty("description"),
        inner.object("parameters"),
        inner.take("strict", bool),
        where=inner.where.removesuffix(".function"),
        extras={PROTOCOL_NAME: extras},
    )
    leftovers(inner, losses)
    return tool


def _encode_function(tool: Tool, rest: Wire | None) -> Wire:
    """`rest` is what the declaration had beside the fields we know; None: it is not one of ours."""
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if rest is None:
        wire["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    elif tool.parameters is not None:
        wire["parameters"] = tool.parameters
    if tool.strict is not None:
        wire["strict"] = tool.strict
    return wire | (rest or {})


def _decode_custom(fields: Fields, losses: Losses) -> Tool:
    """The format is read and also kept: the grammar goes back as it was written."""
    inner = fields.fields("custom")
    if inner is None:
        raise WireError(PROTOCOL_NAME, fields.path("custom"), "expected an object, got nothing")
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
    return Tool(name, description, kind="custom", grammar=grammar, where=fields.where, extras=extras)


def _encode_custom(tool: Tool, rest: Wire) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.grammar:
        syntax, definition = tool.grammar
        wire["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return wire | rest


def _encode_tool(tool: Tool, extras: Wire, losses: Losses) -> Wire:
    if tool.namespace:
        losses.dropped(f"{tool.where}.namespace", "Chat has no namespaces")
    if tool.deferred:
        losses.changed(f"{tool.where}.defer_loading", "Chat loads every tool at once")
    if tool.kind == "custom":
        return {"type": "custom", **extras, "custom": _encode_custom(tool, extras.get("custom", {}))}
    if "function" not in extras:
        return {"type": "function", "function": _encode_function(tool, None)}
    return {**extras, "function": _encode_function(tool, extras["function"])}


def _decode_search(options: Wire) -> HostedTool:
    settings: dict[str, Any] = {}
    if size := options.get("search_context_size"):
        settings["context_size"] = size
    location = options.get("user_location")
    place = location.get("approximate") if is_object(location) else None
    if is_object(place):
        settings["location"] = {key: value for key, value in place.items() if value}
    extras = {PROTOCOL_NAME: {"web_search_options": options}}
    return HostedTool("web_search", "", settings, where="web_search_options", extras=extras)


def _encode_hosted(tool: HostedTool, extras: Wire, wire: Wire, model: str, losses: Losses) -> Wire:
    """What `tool` adds to the request."""
    if "web_search_options" in extras:
        return extras
    if extras:
        return {"tools": [*wire.get("tools", ()), extras]}
    if tool.kind != "web_search":
        losses.dropped(tool.where, f"Chat has no hosted {tool.kind} tool")
        return {}
    if not models.takes_web_search(model):
        losses.dropped(tool.where, "only the search models take web search on Chat")
        return {}
    return {"web_search_options": _encode_search(tool, losses)}


def _encode_search(tool: HostedTool, losses: Losses) -> Wire:
    options: Wire = {}
    for key, value in tool.settings.items():
        match key:
            case "context_size":
                options["search_context_size"] = value
            case "location":
                options["user_location"] = {"type": "approximate", "approximate": value}
            case _ if value:
                losses.dropped(f"{tool.where}.{key}", "Chat's web search has no such setting")
            case _:
                pass
    return options
