"""Functions and JSON Schemas as TypeScript, the way gpt-oss is told about its tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Tool, Wire
from dragoman.dialects.engine.values import Schema, kinds_of, resolved

_KINDS = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_DEEPEST = 8


def declare_function(tool: Tool) -> str:
    root = tool.parameters or {}
    comment = "".join(f"// {line}\n" for line in tool.description.splitlines())
    taken = f"_: {_object(root, root, 0)}" if root.get("properties") else ""
    return f"{comment}type {tool.name} = ({taken}) => any;"


def _type(schema: Schema, root: Wire, depth: int) -> str:
    found = resolved(schema, root)
    if depth > _DEEPEST:
        return "any"
    if values := found.get("enum") or ([found["const"]] if "const" in found else None):
        return " | ".join(jsontext.dumps(value) for value in cast(list[Any], values))
    if options := found.get("anyOf") or found.get("oneOf"):
        return " | ".join(
            dict.fromkeys(_type(option, root, depth + 1) for option in cast(list[Any], options))
        )
    kinds = [_kind(kind, found, root, depth) for kind in kinds_of(found)]
    return " | ".join(dict.fromkeys(kinds)) or "any"


def _kind(kind: str, schema: Wire, root: Wire, depth: int) -> str:
    if kind == "array":
        inner = _type(schema.get("items"), root, depth + 1)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        return _object(schema, root, depth) if schema.get("properties") else "object"
    return _KINDS.get(kind, "any")


def _object(schema: Wire, root: Wire, depth: int) -> str:
    return "{\n" + "".join(_fields(schema, root, depth)) + "}"


def _fields(schema: Wire, root: Wire, depth: int) -> Iterator[str]:
    required = cast(list[str], schema.get("required") or [])
    for name, inner in cast(Wire, schema.get("properties") or {}).items():
        found = resolved(inner, root)
        yield from (f"// {line}\n" for line in str(found.get("description") or "").splitlines())
        default = f" // default: {jsontext.dumps(found['default'])}" if "default" in found else ""
        yield f"{name}{'' if name in required else '?'}: {_type(inner, root, depth + 1)},{default}\n"
