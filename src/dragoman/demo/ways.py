"""A schema with alternatives -> the schemas without any that it stands for, one way through after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire

_FORKS = ("allOf", "anyOf", "oneOf", "if", "then", "else")
_TELLING = {
    "properties": "object",
    "required": "object",
    "minProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "minimum": "number",
    "multipleOf": "number",
}
_ANY = ["string", "integer", "object", "array", "boolean", "null"]


def ways_through(schema: Wire, resolve: Callable[[Any], Wire], depth: int = 0) -> Iterator[Wire]:
    """`resolve` follows references."""
    if depth > 6 or not any(key in schema for key in _FORKS):
        yield schema
        return
    base = {key: value for key, value in schema.items() if key not in _FORKS}
    for part in schema.get("allOf") or ():
        base = _merged(base, resolve(part))
    ways = [base]
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if is_array(options) and options:
            ways = [_merged(way, resolve(option)) for way in ways for option in options]
    if "if" in schema:
        met, then, otherwise = (resolve(schema.get(key, {})) for key in ("if", "then", "else"))
        ways = [
            *(_merged(_merged(way, met), then) for way in ways),
            *(_merged(way, otherwise) for way in ways),
        ]
    for way in ways:
        yield from ways_through(way, resolve, depth + 1)


def kinds_of(schema: Wire) -> list[str]:
    """The types that a schema allows, null last."""
    said = schema.get("type")
    if is_array(said):
        return sorted((str(kind).lower() for kind in said), key=lambda kind: kind == "null")
    if said:
        return [str(said).lower()]
    told = [kind for key, kind in _TELLING.items() if key in schema]
    return told[:1] or (_ANY if "not" in schema else ["string"])


def _merged(base: Wire, more: Wire) -> Wire:
    """Both at once: properties and requirements add up, of everything else the later one counts."""
    merged = {**base, **more}
    first, second = base.get("properties"), more.get("properties")
    if is_object(first) and is_object(second):
        both = {name: _merged(first[name], second[name]) for name in first if _both(first, second, name)}
        merged["properties"] = {**first, **second, **both}
    needed, also = base.get("required"), more.get("required")
    if is_array(needed) and is_array(also):
        merged["required"] = [*needed, *(name for name in also if name not in needed)]
    return merged


def _both(first: Wire, second: Wire, name: str) -> bool:
    return is_object(first.get(name)) and is_object(second.get(name))
