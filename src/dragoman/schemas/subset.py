"""JSON Schema -> the subset of keywords that a target honours (`SchemaRules.keywords`).

The same meaning in another keyword (const as enum, an exclusive bound of an integer) is no loss; a
constraint without one goes into the description of its property, for the model.
"""

from __future__ import annotations

import math
from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.core.schema_rules import SchemaRules
from dragoman.schemas.merge import either, intersect, unite, unite_objects
from dragoman.schemas.walk import (
    SPOKEN,
    Report,
    allow_null,
    is_object_schema,
    map_children,
    noted,
    types_of,
    without,
    words,
)

_STRUCTURE = word_set("type properties items prefixItems enum const required additionalProperties")


def restrict(schema: Any, path: str, report: Report, rules: SchemaRules) -> Wire:
    """A schema whose references are settled, in honoured keywords only."""
    if not is_object(schema):
        if schema is False:
            report.changed(path, f"{rules.vendor} has no schema that allows nothing.")
        return {}
    node = _Node(path, report, rules)
    out = node.merge_branches(schema)
    out = node.widen_conditions(out)
    if out.pop("nullable", False):
        out = allow_null(out)
    out = node.list_values(out)
    out = node.include_bounds(out)
    out = node.open_patterns(out)
    out = _typed(node.honour(out))
    out = map_children(out, path, lambda child, at, keyword: _child(child, at, keyword, report, rules))
    return _prune_required(noted(out, node.notes), path, report)


def _child(child: Any, path: str, keyword: str, report: Report, rules: SchemaRules) -> Any:
    """`additionalProperties` alone may stay true or false."""
    if keyword == "additionalProperties" and isinstance(child, bool):
        return child
    return restrict(child, path, report, rules)


class _Node:
    """One schema on its way. `notes` are the constraints that go to its description."""

    def __init__(self, path: str, report: Report, rules: SchemaRules) -> None:
        self.path, self.report, self.rules = path, report, rules
        self.notes: list[str] = []

    def _described(self, keyword: str, value: Any, why: str = "") -> None:
        """The constraint goes to the description."""
        self.notes.append(words(keyword, value))
        self._report(keyword, why)

    def _report(self, keyword: str, why: str = "") -> None:
        why = why or f"{self.rules.vendor} has no such keyword."
        self.report.changed(f"{self.path}.{keyword}", f"{why} The description says it in words.")

    def merge_branches(self, schema: Wire) -> Wire:
        """A union stands alone in its node; beside other structure it is merged into that or described."""
        out = self._merge_all(schema) if "allOf" in schema else dict(schema)
        for keyword in ("anyOf", "oneOf"):
            if not is_array(branches := out.get(keyword)):
                continue
            if out.keys() & _STRUCTURE or (keyword == "oneOf" and "anyOf" in out):
                out = self._merge_union(without(out, keyword), keyword, branches)
            elif keyword == "oneOf":
                out["anyOf"] = out.pop("oneOf")
                self.report.changed(f"{self.path}.oneOf", f"{self.rules.vendor} reads oneOf as anyOf.")
        return out

    def _merge_all(self, schema: Wire) -> Wire:
        out = without(schema, "allOf")
        members = schema["allOf"]
        for member in members:
            if is_object(member):
                out = intersect(out, self.merge_branches(member))
        if len(members) > 1:
            self.report.changed(f"{self.path}.allOf", "It was merged into one schema.")
        return out

    def _merge_union(self, schema: Wire, keyword: str, branches: list[Any]) -> Wire:
        # the notes of a branch are not needed: the whole union is described
        inner = _Node(self.path, self.report, self.rules)
        merged = [inner.merge_branches(branch) for branch in branches if is_object(branch)]
        self.notes.append(words(keyword, branches))
        self.report.changed(f"{self.path}.{keyword}", "It was merged into one schema.")
        return unite_objects(schema, merged) if is_object_schema(schema) else schema

    def widen_conditions(self, schema: Wire) -> Wire:
        """What a condition might demand is allowed always; the condition itself is described."""
        keys = ("if", "then", "else", "dependentSchemas")
        conditions = {key: schema.pop(key) for key in keys if key in schema}
        if not conditions:
            return schema
        dependent: Wire = conditions.get("dependentSchemas", {})
        wider = [conditions.get("then"), conditions.get("else"), *dependent.values()]
        wider = [child for child in wider if is_object(child)]
        if is_object_schema(schema) and wider:
            schema = unite(schema, [*wider, {}])
        self.notes.append(", ".join(words(key, value) for key, value in conditions.items()))
        for key in conditions:
            self._report(key)
        return schema

    def list_values(self, schema: Wire) -> Wire:
        """An enum of strings or of numbers; `arguments.repair` gives other values back as they were.

        Gemini refuses numbers in an enum of another type (G78: weave#65).
        """
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
        if "enum" not in schema:
            return schema
        why = f"{self.rules.vendor} lists strings and numbers only."
        values, types = schema.pop("enum"), set(types_of(schema))
        listed = [value for value in values if value is not None]
        if any(is_array(value) or is_object(value) for value in listed) or not listed:
            self._described("enum", values, why)
            return schema
        if all(isinstance(value, bool) for value in listed) and types <= {"boolean", "null"}:
            if len(set(listed)) == 1:
                self.notes.append(words("const", listed[0]))
                self._report("enum", why)
            kind = "boolean"
        else:
            kind, schema["enum"] = _of_one_type(listed, types - {"null"})
        nullable = "null" in types or (not types and len(listed) < len(values))
        schema.pop("type", None)
        return {"type": [kind, "null"] if nullable else kind, **schema}

    def include_bounds(self, schema: Wire) -> Wire:
        """Exclusive bounds as inclusive ones, and lists no longer than the target allows."""
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
                self._described(exclusive, limit, f"{self.rules.vendor} has {inclusive} only.")
            schema[inclusive] = tighter(limit, schema.get(inclusive, limit))
        largest = self.rules.largest_max_items
        if largest is not None and schema.get("maxItems", 0) > largest:
            why = f"{self.rules.vendor} refuses lists of that length."
            self._described("maxItems", schema.pop("maxItems"), why)
        return schema

    def open_patterns(self, schema: Wire) -> Wire:
        """Properties by pattern become further properties: beside `additionalProperties: false` the map would
        have to be empty."""
        patterns, further = schema.get("patternProperties"), schema.get("additionalProperties", True)
        if "patternProperties" in (self.rules.keywords or ()) or not is_object(patterns) or further is True:
            return schema
        allowed = [*patterns.values(), *([further] if is_object(further) else [])]
        return {**schema, "additionalProperties": either(allowed)} if allowed else schema

    def honour(self, schema: Wire) -> Wire:
        """Other keywords than the honoured ones go into the notes, annotations go away."""
        out: Wire = {}
        for key, value in schema.items():
            word = {"example": "examples", "enumNames": "enumDescriptions"}.get(key, key)
            if key in (self.rules.keywords or ()):
                out[key] = value
            elif word not in SPOKEN or value is None:
                self.report.annotation(key)
            elif value is not False or word == "default":
                self.notes.append(words(word, value))
                self._report(key)
        return out


def _of_one_type(values: list[Any], types: set[str]) -> tuple[str, list[Any]]:
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


def _typed(schema: Wire) -> Wire:
    """Structure names its type, and an array what its items are."""
    if "type" not in schema and "anyOf" not in schema:
        if "properties" in schema:
            schema = {"type": "object", **schema}
        elif "items" in schema or "prefixItems" in schema:
            schema = {"type": "array", **schema}
    if "array" in types_of(schema) and "items" not in schema and "prefixItems" not in schema:
        schema = {**schema, "items": {}}
    return schema


def _prune_required(schema: Wire, path: str, report: Report) -> Wire:
    """`required` without names that no property has; without any properties it goes to the description."""
    if "required" not in schema:
        return schema
    properties = schema.get("properties", {})
    present = [name for name in schema["required"] if name in properties]
    missing = [name for name in schema["required"] if name not in properties]
    if not missing:
        return schema
    report.dropped(f"{path}.required", f"There is no such property: {', '.join(missing)}.")
    rest = without(schema, "required")
    if not properties:
        return noted(rest, [words("required", missing)])
    return {**rest, "required": present} if present else rest
