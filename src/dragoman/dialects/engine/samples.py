"""What a declaration tells about a parameter: its type in words, and a value for a usage example."""

from __future__ import annotations

from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.values import Schema, kinds_of, resolved

# name, lower case and without underscores -> (in short, where the description says more than two words)
_SAMPLES: dict[str, tuple[Any, Any]] = {
    "filepath": ("/path/to/file", "/path/to/file.js"),
    "path": ("/path/to/file", "/path/to/file.js"),
    "command": ("npm install", "npm install axios"),
    "description": ("Install dependencies", "Install axios package for HTTP requests"),
    "content": ("console.log('Hello World');", "console.log('Hello World');"),
    "offset": (10, 10),
    "limit": (50, 50),
    "timeout": (30000, 30000),
}
_WRITTEN = "/src/app.js"  # a tool with a path and a content writes this file
_BY_KIND: dict[str, Any] = {"string": "value", "number": 10, "integer": 10, "boolean": True, "null": None}


def describe(schema: Schema, root: Wire) -> str:
    """`string - What it is for`, with whatever else the schema says."""
    found = resolved(schema, root)
    about = str(found.get("description") or "")
    rest = {
        key: value for key, value in found.items() if key not in ("type", "description", "title", "$schema")
    }
    known = f"{about} JSON Schema: {jsontext.dumps(rest)}".strip() if rest else about
    kind = " or ".join(kinds_of(found)) or "any"
    return f"{kind} - {known}" if known else kind


def sample(name: str, parameters: Wire, root: Wire) -> Any:
    """A value for the usage example, the same every time."""
    schema = resolved(parameters[name], root)
    given = _given(schema)
    if given:
        return given[0]
    kinds = kinds_of(schema)
    plain = name.lower().replace("_", "")
    short, full = _SAMPLES.get(plain, (None, None))
    if _fits(short, kinds):
        if plain in ("filepath", "path") and "content" in parameters:
            return _WRITTEN
        return full if len(str(schema.get("description", "")).split()) > 2 else short
    return _by_kind(kinds[0] if kinds else "string", schema, root)


def _given(schema: Wire) -> list[Any]:
    """What the schema itself offers as an example."""
    for key in ("examples", "enum"):
        if isinstance(values := schema.get(key), list) and values:
            return cast(list[Any], values)
    return [schema[key] for key in ("const", "default") if schema.get(key) is not None]


def _fits(value: Any, kinds: tuple[str, ...]) -> bool:
    if value is None:
        return False
    return not kinds or bool(
        {"string"} & {*kinds} if isinstance(value, str) else {"number", "integer"} & {*kinds}
    )


def _by_kind(kind: str, schema: Wire, root: Wire, depth: int = 0) -> Any:
    if kind == "array":
        return [_nested(schema.get("items"), root, depth)]
    if kind == "object":
        properties = cast(Wire, schema.get("properties") or {})
        return {name: _nested(inner, root, depth) for name, inner in properties.items()}
    return _BY_KIND.get(kind, "value")


def _nested(schema: Schema, root: Wire, depth: int) -> Any:
    found = resolved(schema, root)
    if given := _given(found):
        return given[0]
    kinds = kinds_of(found)
    return _by_kind(kinds[0] if kinds and depth < 4 else "string", found, root, depth + 1)
