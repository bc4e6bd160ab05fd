"""JSON Schema -> what Gemini honours in `parametersJsonSchema`.

The honoured keywords are few. The same meaning in another keyword (const as enum, an exclusive bound of an
integer) is no loss; a constraint without one goes into the description of its property, for the model.
"""

from __future__ import annotations

import math
from typing import Any

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.schemas.merge import intersect, unite
from dragoman.schemas.walk import (
    TOLD,
    Report,
    allow_null,
    is_object_schema,
    map_children,
    names,
    noted,
    types_of,
    words,
)

HONOURED = names(
    "$defs $ref type format title description enum items prefixItems minItems maxItems minimum "
    "maximum anyOf properties additionalProperties required propertyOrdering"
)
_STRUCTURE = names("type properties items prefixItems enum const required additionalProperties")
_MOST_ITEMS = 960  # beyond this Gemini refuses the request and does not say why
_ENUM = "Gemini lists strings and numbers only: it went to the description"
_WHY = "Gemini has no such keyword: it went to the description"


def to_gemini(schema: Any, path: str, report: Report) -> Wire:
    """A schema whose references are settled, in honoured keywords only."""
    if not is_object(schema):
        if schema is False:
            report.changed(path, "Gemini has no schema that allows nothing")
        return {}
    notes: list[str] = []
    out = _merge(schema, path, report, notes)
    out = _conditions(out, path, report, notes)
    if out.pop("nullable", False):
        out = allow_null(out)
    out = _values(out, path, report, notes)
    out = _bounds(out, path, report, notes)
    out = _typed(_told(out, path, report, notes))
    out = noted(map_children(out, path, lambda child, at, key: _child(child, at, key, report)), notes)
    return _pruned(out, path, report)


def _child(child: Any, path: str, keyword: str, report: Report) -> Any:
    """`additionalProperties` alone may stay true or false."""
    if keyword == "additionalProperties" and isinstance(child, bool):
        return child
    return to_gemini(child, path, report)


def _merge(schema: Wire, path: str, report: Report, notes: list[str]) -> Wire:
    """A union stands alone in its node; beside other structure it is merged into that or told."""
    out = dict(schema)
    if "allOf" in out:
        members = out.pop("allOf")
        for member in members:
            if is_object(member):
                out = intersect(out, _merge(member, path, report, notes))
        if len(members) > 1:
            report.changed(f"{path}.allOf", "merged into one schema")
    for keyword in ("anyOf", "oneOf"):
        if not is_array(branches := out.get(keyword)):
            continue
        if out.keys() & _STRUCTURE or (keyword == "oneOf" and "anyOf" in out):
            del out[keyword]
            objects = [_merge(branch, path, report, []) for branch in branches if is_object(branch)]
            objects = [branch for branch in objects if "object" in types_of(branch) or "type" not in branch]
            if is_object_schema(out) and objects:
                out = unite(out, objects)
            notes.append(words(keyword, branches))
            report.changed(f"{path}.{keyword}", "merged into one schema")
        elif keyword == "oneOf":
            out["anyOf"] = out.pop("oneOf")
            report.changed(f"{path}.oneOf", "Gemini reads oneOf as anyOf")
    return out


def _conditions(schema: Wire, path: str, report: Report, notes: list[str]) -> Wire:
    """What a condition might demand is allowed always; the condition itself is told."""
    told = {key: schema.pop(key) for key in ("if", "then", "else", "dependentSchemas") if key in schema}
    if not told:
        return schema
    named: Wire = told.get("dependentSchemas", {})
    wider = [child for child in (told.get("then"), told.get("else"), *named.values()) if is_object(child)]
    if is_object_schema(schema) and wider:
        schema = unite(schema, [*wider, {}])
    notes.append(", ".join(words(key, value) for key, value in told.items()))
    for key in told:
        report.changed(f"{path}.{key}", _WHY)
    return schema


def _values(schema: Wire, path: str, report: Report, notes: list[str]) -> Wire:
    """Gemini lists strings or numbers, of one kind; `arguments.repair` gives the others back as they were."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "enum" not in schema:
        return schema
    values, types = schema.pop("enum"), set(types_of(schema))
    listed = [value for value in values if value is not None]
    if any(is_array(value) or is_object(value) for value in listed) or not listed:
        notes.append(words("enum", values))
        report.changed(f"{path}.enum", _ENUM)
        return schema
    if all(isinstance(value, bool) for value in listed) and types <= {"boolean", "null"}:
        if len(set(listed)) == 1:
            notes.append(words("const", listed[0]))
            report.changed(f"{path}.enum", _ENUM)
        kind = "boolean"
    else:
        kind, schema["enum"] = _alike(listed, types - {"null"})
    nullable = "null" in types or (not types and len(listed) < len(values))
    return {"type": [kind, "null"] if nullable else kind, **{k: v for k, v in schema.items() if k != "type"}}


def _alike(values: list[Any], types: set[str]) -> tuple[str, list[Any]]:
    """The type and the values, all text or all numbers."""
    if types and types <= {"integer", "number"}:
        numbers = [_number(value) for value in values]
        if None not in numbers:
            return ("number" if "number" in types else "integer"), numbers
    if not types & {"string"} and all(_number(value) is value for value in values):
        return ("integer" if all(isinstance(value, int) for value in values) else "number"), values
    return "string", [value if isinstance(value, str) else jsontext.dumps(value) for value in values]


def _number(value: Any) -> int | float | None:
    """The number that `value` is or spells."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    try:
        read = jsontext.decode(value)
    except ValueError:
        return None
    return read if isinstance(read, int | float) and not isinstance(read, bool) else None


def _bounds(schema: Wire, path: str, report: Report, notes: list[str]) -> Wire:
    whole = set(types_of(schema)) - {"null"} == {"integer"}
    for inclusive, exclusive, tighter in (
        ("minimum", "exclusiveMinimum", max),
        ("maximum", "exclusiveMaximum", min),
    ):
        if exclusive not in schema:
            continue
        limit = schema.pop(exclusive)
        if whole and math.isfinite(limit):
            limit = math.floor(limit) + 1 if tighter is max else math.ceil(limit) - 1
        else:
            notes.append(words(exclusive, limit))
            report.changed(f"{path}.{exclusive}", f"Gemini has {inclusive} only: it went to the description")
        schema[inclusive] = tighter(limit, schema.get(inclusive, limit))
    if schema.get("maxItems", 0) > _MOST_ITEMS:
        notes.append(words("maxItems", schema.pop("maxItems")))
        report.changed(f"{path}.maxItems", "Gemini refuses lists of that length: it went to the description")
    return schema


def _told(schema: Wire, path: str, report: Report, notes: list[str]) -> Wire:
    """Keywords that Gemini does not honour go into the notes, annotations go away."""
    out: Wire = {}
    for key, value in schema.items():
        word = {"example": "examples", "enumNames": "enumDescriptions"}.get(key, key)
        if key in HONOURED:
            out[key] = value
        elif word not in TOLD or value is None:
            report.annotation(key)
        elif value is not False or word == "default":
            notes.append(words(word, value))
            report.changed(f"{path}.{key}", _WHY)
    return out


def _typed(schema: Wire) -> Wire:
    """Structure says its type, and an array what its items are."""
    if "type" not in schema and "anyOf" not in schema:
        if "properties" in schema:
            schema = {"type": "object", **schema}
        elif "items" in schema or "prefixItems" in schema:
            schema = {"type": "array", **schema}
    if "array" in types_of(schema) and "items" not in schema and "prefixItems" not in schema:
        schema = {**schema, "items": {}}
    return schema


def _pruned(schema: Wire, path: str, report: Report) -> Wire:
    if "required" not in schema:
        return schema
    properties = schema.get("properties", {})
    kept = [name for name in schema["required"] if name in properties]
    if len(kept) == len(schema["required"]):
        return schema
    missing = [name for name in schema["required"] if name not in properties]
    report.dropped(f"{path}.required", f"no such property: {', '.join(missing)}")
    rest = {key: value for key, value in schema.items() if key != "required"}
    if not properties:
        return noted(rest, [words("required", missing)])
    return {**rest, "required": kept} if kept else rest
