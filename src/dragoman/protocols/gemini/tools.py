"""Tool declarations, their schemas and tool choice <-> neutral ones.

An entry of `tools` holds many functions, or a hosted tool, or both; clients differ in how they spread
their tools over entries, so the extras of a tool hold the number of its entry.
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
from dragoman.protocols.gemini.hosted import ENTRY, HOSTED, decode_hosted, decode_mcp, encode_hosted
from dragoman.protocols.gemini.wire import (
    CALLING_MODES,
    MODES,
    PROTOCOL_NAME,
    SCHEMA_TYPES,
    camel,
    enum_name,
    inner,
    is_native,
    opened,
)
from dragoman.protocols.google import chosen_tools


def decode_tools(fields: Fields, losses: Losses) -> tuple[AnyTool, ...]:
    """An array of entries; some clients send a single entry."""
    tools = fields.any("tools") if fields.rest.get("tools") != [] else None
    entries = [tools] if is_object(tools) else tools
    if entries is None:
        return ()
    if not is_array(entries):
        raise fields.wrong("tools", "list", entries)
    return _decode_entries(entries, losses)


@cached_by_tools
def _decode_entries(entries: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([tool for i, entry in enumerate(entries) for tool in _decode_entry(entry, i, losses)])


@cached_by_tools
def encode_tools(tools: tuple[AnyTool, ...], losses: Losses, profile: ModelProfile) -> list[Wire]:
    """Native tools in the entries they came in, functions of others in one, hosted tools in one each."""
    entries: dict[int, Wire] = {}
    for number, tool in enumerate(chosen_tools(tools, profile, is_native, losses)):
        extras = own(tool.extras, PROTOCOL_NAME)
        wire = _encode_tool(tool, extras, losses)
        place = extras.get(ENTRY, _NEW if isinstance(tool, ToolDeclaration) else _NEW + 1 + number)
        _merge(entries.setdefault(place, {}), wire)
    return [entry for place, entry in entries.items() if entry or place < _NEW]


_NEW = 1 << 32  # no body has so many entries
_QUIET_ENTRY = frozenset({"functionDeclarations"})


def _decode_entry(entry: Any, number: int, losses: Losses) -> list[AnyTool]:
    fields = opened(entry, f"tools[{number}]")
    tools: list[AnyTool] = []
    for key in tuple(fields.rest):
        if key == "functionDeclarations" and fields.rest[key]:
            for i, declaration in enumerate(fields.list(key) or ()):
                tools.append(_decode_function(declaration, f"{fields.path(key)}[{i}]", number, losses))
        elif key == "mcpServers" and fields.rest[key]:
            for i, server in enumerate(fields.list(key) or ()):
                tools.append(decode_mcp(server, f"{fields.path(key)}[{i}]", number, losses))
        elif key in HOSTED and fields.rest[key] is not None:
            tools.append(decode_hosted(fields, key, number, losses))
    if fields.rest or not tools:
        native = {ENTRY: number, **fields.extras(losses, _QUIET_ENTRY)[PROTOCOL_NAME]}
        tools.append(HostedTool("other", where=fields.where, extras={PROTOCOL_NAME: native}))
    return tools


def _encode_tool(tool: AnyTool, extras: Wire, losses: Losses) -> Wire:
    if isinstance(tool, ToolDeclaration):
        return {"functionDeclarations": [_encode_function(tool, extras)]}
    if extras:
        return {key: value for key, value in extras.items() if key != ENTRY}
    return encode_hosted(tool, losses)


def _merge(entry: Wire, wire: Wire) -> None:
    for key, value in wire.items():
        if is_array(value) and is_array(known := entry.get(key)):
            known += value
        else:
            entry[key] = list(value) if is_array(value) else value


def _decode_function(declaration: Any, where: str, number: int, losses: Losses) -> ToolDeclaration:
    """A schema that is not JSON Schema is converted, and also kept in the extras as it came."""
    fields = opened(declaration, where)
    name = fields.need("name", str)
    description = fields.nonempty("description")
    native: Wire = {ENTRY: number}
    if (schema := fields.object("parametersJsonSchema")) is not None:
        parameters = json_schema(schema, f"{where}.parametersJsonSchema")
        if parameters is not schema:
            native["parametersJsonSchema"] = schema
    elif (schema := fields.object("parameters")) is not None:
        parameters, native["parameters"] = decode_schema(schema, f"{where}.parameters"), schema
    else:
        parameters = None
    native |= fields.extras(losses, quiet=frozenset({"description"}))[PROTOCOL_NAME]
    return ToolDeclaration(name, description, parameters, where=where, extras={PROTOCOL_NAME: native})


def _encode_function(tool: ToolDeclaration, extras: Wire) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if "parameters" not in extras and (tool.parameters or (extras and tool.parameters is not None)):
        wire["parametersJsonSchema"] = tool.parameters
    return wire | {key: value for key, value in extras.items() if key != ENTRY}


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
    choice.rest["mode"] = enum_name(choice.rest.get("mode"), CALLING_MODES)
    mode, names = choice.text("mode").upper(), choice.list("allowedFunctionNames") or []
    if mode not in _MODES:
        problem = f"expected AUTO, ANY, NONE or VALIDATED, got {mode!r}"
        raise WireError(PROTOCOL_NAME, choice.path("mode"), problem)
    if mode == "VALIDATED":
        why = "Other protocols have no VALIDATED. AUTO was sent, so calls need not conform to their schemas."
        losses.changed(choice.path("mode"), why, "tool.choice")
    choice.extras(losses)
    return ToolChoice(MODES.decode(mode), tuple(str(name) for name in names), extras=wire)


_MODES = frozenset({"", "MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"})


def encode_choice(request: Request, tools: list[Wire], losses: Losses) -> Wire:
    """`toolConfig`: the choice, and the other fields of a native one."""
    native = own(request.extras, PROTOCOL_NAME).get("toolConfig")
    config: Wire = dict(native) if is_object(native) else {}
    functions = any("functionDeclarations" in entry for entry in tools)
    calling = _encode_calling(request, functions, losses)
    if calling is not None:  # a native one may be empty
        config["functionCallingConfig"] = calling
    if functions and not is_native(request) and any("functionDeclarations" not in entry for entry in tools):
        config["includeServerSideToolInvocations"] = True
    if functions and request.parallel is False:
        why = "Gemini cannot be kept from calling several tools at once."
        losses.dropped("parallel", why, "setting.parallel")
    return {"toolConfig": config} if config or is_object(native) else {}


def _encode_calling(request: Request, functions: bool, losses: Losses) -> Wire | None:
    choice = request.tool_choice
    if choice and (functions or is_native(choice)):
        return _encode_mode(choice, _are_strict(request.tools))
    if functions and not is_native(request) and _are_strict(request.tools):
        return {"mode": "VALIDATED"}
    if choice and choice.mode == "required":
        losses.dropped("tool_choice", "There are no functions to choose from.", "tool.choice")
    return None


def _are_strict(tools: tuple[AnyTool, ...]) -> bool:
    return any(isinstance(tool, ToolDeclaration) and tool.strict for tool in tools)


def _encode_mode(choice: ToolChoice, strict: bool) -> Wire:
    """VALIDATED is AUTO with constrained decoding, as ANY has it; only these two take names."""
    if is_native(choice):
        return own(choice.extras, PROTOCOL_NAME)
    validated = choice.mode == "auto" and (strict or choice.names)
    wire: Wire = {"mode": "VALIDATED" if validated else MODES.encode(choice.mode)}
    if choice.names:
        wire["allowedFunctionNames"] = list(choice.names)
    return wire


# Gemini's own schemas (a subset of OpenAPI 3.0, types in upper case) -> JSON Schema. The other way is not
# needed: Gemini takes JSON Schema in `parametersJsonSchema` and `responseJsonSchema`.

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_HINTS = frozenset({"propertyOrdering", "nullable"})
_DEEPEST = 100


def decode_schema(schema: Any, where: str, depth: int = 0) -> Wire:
    """`propertyOrdering` becomes the order of the properties, in which models write them."""
    if not is_object(schema):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(schema)}")
    if depth > _DEEPEST:
        raise WireError(PROTOCOL_NAME, where[:200], "a schema nested too deeply")
    source = camel(schema)
    wire: Wire = {}
    for key, value in source.items():
        if key not in _HINTS:
            wire[_RENAMED.get(key, key)] = _decode_keyword(key, value, f"{where}.{key}", depth)
    if is_array(order := source.get("propertyOrdering")) and is_object(named := wire.get("properties")):
        wire["properties"] = {name: named[name] for name in (*order, *named) if name in named}
    if wire.get("type") in ("", None):
        wire.pop("type", None)
    if "example" in wire:
        wire["examples"] = [wire.pop("example")]
    if "enum" in wire:
        wire["enum"] = _decode_enum(wire["enum"], wire.get("type"))
    return _nullable(wire) if source.get("nullable") is True else wire


def json_schema(schema: Wire, where: str) -> Wire:
    """The schema of a JSON Schema field; some clients put Gemini's upper-case types there."""
    kind = schema.get("type")
    return decode_schema(schema, where) if enum_name(kind, SCHEMA_TYPES) in SCHEMA_TYPES else schema


def _decode_keyword(key: str, value: Any, where: str, depth: int) -> Any:
    match key:
        case "type":
            return _decode_type(value)
        case "properties" | "defs" | "$defs" if is_object(value):
            return {name: _inner(item, f"{where}.{name}", depth) for name, item in value.items()}
        case "items" | "additionalProperties":
            return _inner(value, where, depth)
        case "anyOf" | "oneOf" | "allOf" | "prefixItems" if is_array(value):
            return [_inner(item, f"{where}[{i}]", depth) for i, item in enumerate(value)]
        case _ if key in _COUNTS and isinstance(value, str) and value.isdecimal():
            return int(value)  # protobuf JSON writes 64-bit numbers as strings
        case _:
            return value


def _inner(schema: Any, where: str, depth: int) -> Any:
    return schema if isinstance(schema, bool) else decode_schema(schema, where, depth + 1)


def _decode_type(value: Any) -> Any:
    """`TYPE_UNSPECIFIED` is no type; a list of types is not Gemini's, but clients send it."""
    if is_array(value):
        return [_decode_type(item) for item in value]
    value = enum_name(value, SCHEMA_TYPES)
    if not isinstance(value, str):
        return value
    return "" if value == "TYPE_UNSPECIFIED" else value.lower()


def _decode_enum(values: Any, kind: Any) -> Any:
    """Gemini writes every enum value as a string, numbers too (G78: weave#952)."""
    if kind not in ("integer", "number") or not is_array(values):
        return values
    return [int(v) if isinstance(v, str) and v.lstrip("-").isdecimal() else v for v in values]


def _nullable(wire: Wire) -> Wire:
    kind = wire.get("type")
    if isinstance(kind, str):
        wire["type"] = [kind, "null"]
    if is_array(enum := wire.get("enum")) and None not in enum:
        wire["enum"] = [*enum, None]
    if is_array(options := wire.get("anyOf")):
        wire["anyOf"] = [*options, {"type": "null"}]
    return wire
