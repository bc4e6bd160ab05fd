"""Tool declarations and tool choice <-> neutral ones.

An entry of `tools` holds many functions, or a hosted tool, or both; clients differ in how they spread
their tools over entries, so each tool remembers the entry it came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, Request, Tool, ToolChoice, Wire
from dragoman.core.repeated import remembered
from dragoman.protocols.gemini import models
from dragoman.protocols.gemini.objects import inner, is_native, opened
from dragoman.protocols.gemini.schemas import decode_schema, json_schema
from dragoman.protocols.gemini.wire import HOSTED, MODES, PROTOCOL_NAME

_ENTRY = "entry"  # the extras' own key: which entry of `tools` a tool came in


def decode_tools(fields: Fields, losses: Losses) -> tuple[AnyTool, ...]:
    """An array of entries; sloppy clients send a single one."""
    tools = fields.any("tools") if fields.rest.get("tools") != [] else None
    entries = [tools] if is_object(tools) else tools
    if entries is None:
        return ()
    if not is_array(entries):
        raise fields.wrong("tools", "list", entries)
    return _decode_entries(entries, losses)


@remembered
def _decode_entries(entries: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([tool for i, entry in enumerate(entries) for tool in _decode_entry(entry, i, losses)])


@remembered
def encode_tools(tools: tuple[AnyTool, ...], losses: Losses, model: str) -> list[Wire]:
    """Native tools in the entries they came in, functions of others in one, hosted tools in one each."""
    entries: dict[int, Wire] = {}
    for number, tool in enumerate(_chosen(tools, model, losses)):
        extras = own(tool.extras, PROTOCOL_NAME)
        wire = _encode_tool(tool, extras, losses)
        place = extras.get(_ENTRY, _NEW if isinstance(tool, Tool) else _NEW + 1 + number)
        _join(entries.setdefault(place, {}), wire)
    return [entry for place, entry in entries.items() if entry or place < _NEW]


_NEW = 1 << 32  # no body has so many entries


def _decode_entry(entry: Any, number: int, losses: Losses) -> list[AnyTool]:
    fields = opened(entry, f"tools[{number}]")
    tools: list[AnyTool] = []
    for key in tuple(fields.rest):
        if key == "functionDeclarations" and fields.rest[key]:
            path = fields.path(key)
            tools += [
                _decode_function(declaration, f"{path}[{i}]", number, losses)
                for i, declaration in enumerate(fields.list(key) or ())
            ]
        elif key == "mcpServers" and fields.rest[key]:
            servers = fields.list(key) or ()
            tools += [_decode_mcp(s, f"{fields.path(key)}[{i}]", number) for i, s in enumerate(servers)]
        elif key in HOSTED and fields.rest[key] is not None:
            tools.append(_decode_hosted(fields, key, number, losses))
    if fields.rest or not tools:
        kept = {
            _ENTRY: number,
            **fields.extras(losses, quiet=frozenset({"functionDeclarations"}))[PROTOCOL_NAME],
        }
        tools.append(HostedTool("other", where=fields.where, extras={PROTOCOL_NAME: kept}))
    return tools


def _encode_tool(tool: AnyTool, extras: Wire, losses: Losses) -> Wire:
    if isinstance(tool, Tool):
        return {"functionDeclarations": [_encode_function(tool, extras)]}
    if extras:
        return {key: value for key, value in extras.items() if key != _ENTRY}
    return _encode_hosted(tool, losses)


def _join(entry: Wire, wire: Wire) -> None:
    for key, value in wire.items():
        if is_array(value) and is_array(known := entry.get(key)):
            known += value
        else:
            entry[key] = list(value) if is_array(value) else value


def _decode_function(declaration: Any, where: str, number: int, losses: Losses) -> Tool:
    """A schema that is not JSON Schema is read as one, and kept as it came."""
    fields = opened(declaration, where)
    name = fields.need("name", str)
    description = fields.nonempty("description")
    kept: Wire = {_ENTRY: number}
    if (schema := fields.object("parametersJsonSchema")) is not None:
        parameters = json_schema(schema, f"{where}.parametersJsonSchema")
        if parameters is not schema:
            kept["parametersJsonSchema"] = schema
    elif (schema := fields.object("parameters")) is not None:
        parameters, kept["parameters"] = decode_schema(schema, f"{where}.parameters"), schema
    else:
        parameters = None
    kept |= fields.extras(losses, quiet=frozenset({"description"}))[PROTOCOL_NAME]
    return Tool(name, description, parameters, where=where, extras={PROTOCOL_NAME: kept})


def _encode_function(tool: Tool, extras: Wire) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if "parameters" not in extras and (tool.parameters or (extras and tool.parameters is not None)):
        wire["parametersJsonSchema"] = tool.parameters
    return wire | {key: value for key, value in extras.items() if key != _ENTRY}


def _decode_hosted(fields: Fields, key: str, number: int, losses: Losses) -> HostedTool:
    """The declaration stays whole in the extras; the settings say it in neutral words."""
    value = fields.any(key)
    tool = opened(value, fields.path(key))
    settings: Wire = {}
    if HOSTED[key] == "web_search" and (domains := tool.list("excludeDomains")):
        settings["blocked_domains"] = domains
    tool.extras(losses)
    kept = {_ENTRY: number, key: value}
    return HostedTool(HOSTED[key], settings=settings, where=tool.where, extras={PROTOCOL_NAME: kept})


def _encode_hosted(tool: HostedTool, losses: Losses) -> Wire:
    if tool.kind == "mcp":
        return _encode_mcp(tool, losses)
    if tool.kind not in _WRITTEN:
        losses.dropped(tool.where, f"Gemini has no hosted {tool.kind} tool that another's could become")
        return {}
    for setting, value in tool.settings.items():
        if value:
            spelled = _SPELLED.get(setting, setting)
            losses.dropped(f"{tool.where}.{spelled}", f"Gemini's {tool.kind} has no such setting")
    if tool.kind == "computer":
        losses.changed(tool.where, "Gemini's computer tool has actions of its own")
        return {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
    return {_WRITTEN[tool.kind]: {}}


# By every client that has them
_SPELLED = {"context_size": "search_context_size", "location": "user_location"}
_WRITTEN = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
    "maps": "googleMaps",
    "computer": "computerUse",
}


def _decode_mcp(server: Any, where: str, number: int) -> HostedTool:
    fields = opened(server, where)
    settings: Wire = {}
    if label := fields.text("name"):
        settings["label"] = label
    if transport := inner(fields, "streamableHttpTransport"):
        settings |= {key: transport.rest[key] for key in ("url", "headers") if transport.rest.get(key)}
    kept: Wire = {_ENTRY: number, "mcpServers": [server]}
    return HostedTool("mcp", label, settings, where=where, extras={PROTOCOL_NAME: kept})


def _encode_mcp(tool: HostedTool, losses: Losses) -> Wire:
    settings = tool.settings
    if not settings.get("url"):
        losses.dropped(tool.where, "Gemini needs the URL of an MCP server")
        return {}
    if settings.get("allowed"):
        losses.dropped(f"{tool.where}.allowed", "Gemini cannot restrict the tools of an MCP server")
    transport = {key: settings[key] for key in ("url", "headers") if settings.get(key)}
    return {"mcpServers": [{"name": settings.get("label") or "mcp", "streamableHttpTransport": transport}]}


def _chosen(tools: tuple[AnyTool, ...], model: str, losses: Losses) -> Iterable[AnyTool]:
    """Before Gemini 3 functions and hosted tools exclude each other: the client's functions stay (G89)."""
    if models.is_current(model) or not any(isinstance(tool, Tool) for tool in tools):
        return tools
    for tool in tools:
        if isinstance(tool, HostedTool) and not is_native(tool):
            losses.dropped(tool.where, "the model takes no hosted tools beside functions")
    return [tool for tool in tools if isinstance(tool, Tool) or is_native(tool)]


def decode_choice(fields: Fields, losses: Losses) -> ToolChoice | None:
    """Only the choice is taken out of `toolConfig`; the rest of it is left."""
    value = fields.rest.get("toolConfig")
    if value is None:
        return None
    config = opened(value, "toolConfig")
    choice = inner(config, "functionCallingConfig")
    if config.rest or choice is None:
        fields.rest["toolConfig"] = config.rest.copy()
    else:
        del fields.rest["toolConfig"]
    config.extras(losses, quiet=frozenset({"includeServerSideToolInvocations"}))
    if choice is None:
        return None
    wire = {PROTOCOL_NAME: choice.rest.copy()}
    mode, names = choice.text("mode").upper(), choice.list("allowedFunctionNames") or []
    if mode not in _MODES:
        raise WireError(
            PROTOCOL_NAME, choice.path("mode"), f"expected AUTO, ANY, NONE or VALIDATED, got {mode!r}"
        )
    if mode == "VALIDATED":
        losses.changed(
            choice.path("mode"), "VALIDATED is AUTO elsewhere: calls are not held to their schemas"
        )
    choice.extras(losses)
    return ToolChoice(MODES.decode(mode), tuple(str(name) for name in names), extras=wire)


_MODES = frozenset({"", "MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"})


def encode_choice(request: Request, tools: list[Wire], losses: Losses) -> Wire:
    """`toolConfig`: the choice, and what a native one says beside it."""
    kept = own(request.extras, PROTOCOL_NAME).get("toolConfig")
    config: Wire = dict(kept) if is_object(kept) else {}
    functions = any("functionDeclarations" in entry for entry in tools)
    if request.tool_choice and (functions or is_native(request.tool_choice)):
        config["functionCallingConfig"] = _encode_mode(request.tool_choice)
    elif request.tool_choice and request.tool_choice.mode == "required":
        losses.dropped("tool_choice", "there are no functions to choose from")
    if functions and not is_native(request) and any("functionDeclarations" not in entry for entry in tools):
        config["includeServerSideToolInvocations"] = True
    if functions and request.parallel is False:
        losses.dropped("parallel", "Gemini cannot be kept from calling several tools at once")
    strict = next((tool for tool in request.tools if isinstance(tool, Tool) and tool.strict), None)
    if strict:
        losses.dropped(f"{strict.where}.strict", "Gemini does not hold calls to their schemas")
    return {"toolConfig": config} if config or is_object(kept) else {}


def _encode_mode(choice: ToolChoice) -> Wire:
    """Only ANY and VALIDATED take names."""
    if is_native(choice):
        return own(choice.extras, PROTOCOL_NAME)
    if not choice.names:
        return {"mode": MODES.encode(choice.mode)}
    return {
        "mode": "VALIDATED" if choice.mode == "auto" else MODES.encode(choice.mode),
        "allowedFunctionNames": list(choice.names),
    }
