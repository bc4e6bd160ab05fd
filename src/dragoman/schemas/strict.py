"""JSON Schema -> what a strict mode takes (`StrictRules`), and the explicit form that OpenAI always takes.

Strict mode closes every object. OpenAI's also wants every property required: an optional one becomes
nullable, and `arguments.repair` takes the nulls away again on the way back (G82: weave#343, weave#829).
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_object
from dragoman.core.model import Wire
from dragoman.core.schema_rules import StrictRules
from dragoman.schemas.merge import flatten
from dragoman.schemas.tidy import prune_required
from dragoman.schemas.walk import (
    SPOKEN,
    Report,
    allow_null,
    children,
    is_object_schema,
    map_children,
    noted,
    types_of,
    without,
    words,
)

_LOOKS_AROUND = ("(?=", "(?!", "(?<")
_REFUSED = word_set("oneOf allOf not if then else dependentRequired dependentSchemas patternProperties")


def explicit(schema: Any) -> Any:
    """Arrays say what their items are, null is a type, true is spelled {}: OpenAI demands the first two.

    llama.cpp refuses the whole request for one `true` (mezmo/aura#358).
    """
    if not is_object(schema):
        return {} if schema is True else schema
    out = map_children(schema, "", lambda child, _at, _key: explicit(child))
    if "nullable" in out:
        nullable = out.pop("nullable")
        out = allow_null(out) if nullable else out
    if out.get("items") is True or ("array" in types_of(out) and "items" not in out):
        out["items"] = {}
    return out


def is_strict(schema: Any) -> bool:
    """Whether `schema` meets the rules of OpenAI's strict mode already."""
    if not is_object(schema):
        return False
    strict = not schema.keys() & _REFUSED and "nullable" not in schema
    if is_object_schema(schema):
        properties: Wire = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        strict = strict and schema.get("additionalProperties") is False and properties.keys() <= set(required)
    return strict and all(is_strict(child) for _, child in children(schema))


def tighten(schema: Any, path: str, report: Report, mode: StrictRules, vendor: str) -> Wire:
    """A schema whose references are settled, in what the strict mode of `vendor` takes."""
    if not is_object(schema):
        return {}
    notes: list[str] = []
    out = schema
    if "allOf" in out or (is_object_schema(out) and ("anyOf" in out or "oneOf" in out)):
        out, notes = flatten(out, {}, path, report)
    out = dict(out)
    if "oneOf" in out and "anyOf" not in out:
        out["anyOf"] = out.pop("oneOf")
        report.changed(f"{path}.oneOf", f"{vendor}'s strict mode has anyOf only.")
    if out.pop("nullable", False):
        out = allow_null(out)
    out = _honoured(out, path, report, notes, mode, vendor)
    if "array" in types_of(out) and "items" not in out and "prefixItems" not in out:
        out["items"] = {}
    out = map_children(out, path, lambda child, at, _: tighten(child, at, report, mode, vendor))
    if is_object_schema(out):
        out = _closed(out, mode)
    return _ref_alone(noted(prune_required(out, path, report), notes))


def _honoured(
    schema: Wire, path: str, report: Report, notes: list[str], mode: StrictRules, vendor: str
) -> Wire:
    """Keywords that the strict mode refuses go into the notes, annotations go away."""
    out: Wire = {}
    for key, value in schema.items():
        if key in mode.keywords or _honours(key, value, mode):
            out[key] = value
        elif key == "additionalProperties":
            report.changed(f"{path}.{key}", "Strict mode allows declared properties only.")
        elif key not in SPOKEN or value is None:
            report.annotation(key)
        elif value is not False or key == "default":
            notes.append(words(key, value))
            report.changed(
                f"{path}.{key}", f"{vendor}'s strict mode refuses it. The description says it in words."
            )
    return out


def _honours(key: str, value: Any, mode: StrictRules) -> bool:
    """Keywords that are taken with some values only."""
    match key:
        case "format":
            return value in mode.formats
        case "pattern":
            return not any(look in value for look in _LOOKS_AROUND)
        case "minItems":
            return mode.largest_min_items is None or value <= mode.largest_min_items
        case "additionalProperties":
            return value is False
        case _:
            return False


def _closed(schema: Wire, mode: StrictRules) -> Wire:
    properties: Wire = schema.get("properties", {})
    required: list[str] = [name for name in schema.get("required", []) if name in properties]
    if mode.all_required:
        properties = {
            name: child if name in required else allow_null(child) for name, child in properties.items()
        }
        required = list(properties)
    schema = schema | {"properties": properties, "additionalProperties": False}
    if required or mode.all_required:
        return schema | {"required": required}
    return without(schema, "required")


def _ref_alone(schema: Wire) -> Wire:
    """Nothing may stand beside `$ref`, but something may stand beside anyOf."""
    if "$ref" not in schema or len(schema) == 1:
        return schema
    return {"anyOf": [{"$ref": schema["$ref"]}], **without(schema, "$ref")}


def is_expressible(schema: Any) -> bool:
    """Whether strict mode can express all that `schema` allows: no open objects, a type for every value."""
    if not is_object(schema):
        return False
    typed = bool(schema.keys() & {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})
    closed = schema.get("additionalProperties", False) is False and "patternProperties" not in schema
    if "object" in types_of(schema):
        closed = closed and ("properties" in schema or schema.get("additionalProperties") is False)
    if "array" in types_of(schema):
        typed = typed and ("items" in schema or "prefixItems" in schema)
    return typed and closed and all(is_expressible(child) for _, child in children(schema))
