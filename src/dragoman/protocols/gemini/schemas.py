"""Gemini's own schemas (a subset of OpenAPI 3.0, types in upper case) -> JSON Schema.

The other way is not needed: Gemini takes JSON Schema in `parametersJsonSchema` and `responseJsonSchema`.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.protocols.gemini.objects import camel
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_HINTS = frozenset({"propertyOrdering", "nullable"})  # said otherwise, or of no meaning to others
_DEEPEST = 100


def decode_schema(schema: Any, where: str, depth: int = 0) -> Wire:
    if not is_object(schema):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(schema)}")
    if depth > _DEEPEST:
        raise WireError(PROTOCOL_NAME, where[:200], "a schema nested too deeply")
    source = camel(schema)
    wire: Wire = {}
    for key, value in source.items():
        if key not in _HINTS:
            wire[_RENAMED.get(key, key)] = _decode_keyword(key, value, f"{where}.{key}", depth)
    if wire.get("type") in ("", None):
        wire.pop("type", None)
    if "example" in wire:
        wire["examples"] = [wire.pop("example")]
    if "enum" in wire:
        wire["enum"] = _decode_enum(wire["enum"], wire.get("type"))
    return _nullable(wire) if source.get("nullable") is True else wire


def json_schema(schema: Wire, where: str) -> Wire:
    """What stands in a JSON Schema field; some clients put upper-case types there all the same."""
    kind = schema.get("type")
    return decode_schema(schema, where) if isinstance(kind, str) and kind in _TYPES else schema


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
            return int(value)  # 64-bit numbers travel as strings
        case _:
            return value


def _inner(schema: Any, where: str, depth: int) -> Any:
    return schema if isinstance(schema, bool) else decode_schema(schema, where, depth + 1)


def _decode_type(value: Any) -> Any:
    """`TYPE_UNSPECIFIED` says nothing; a list of types is none of Gemini's, but clients send it."""
    if is_array(value):
        return [_decode_type(item) for item in value]
    if not isinstance(value, str):
        return value
    return "" if value == "TYPE_UNSPECIFIED" else value.lower()


def _decode_enum(values: Any, kind: Any) -> Any:
    """Gemini writes every enum value as a string, numbers too."""
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
