"""What every walk over a JSON Schema shares: where subschemas stand, how references resolve, the report.

A path inside a schema begins with a dot (`.properties.size`), so that it can be appended to the place of
the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from dragoman.core import jsontext
from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import LossKind
from dragoman.core.model import Wire

ONE = word_set(
    "items additionalItems additionalProperties not if then else contains propertyNames "
    "unevaluatedItems unevaluatedProperties contentSchema"
)
MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
BRANCHES = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"})
LONGEST_NOTE = 2000
MOST_EXPANSIONS = 500
_MOST_STEPS = 16  # references that lead to references

Finding = tuple[LossKind, str, str, str]  # kind, path inside the schema, reason, topic of the loss
Visit = Callable[[Any, str, str], Any]  # (subschema, its path, the keyword it stands under) -> subschema


class Report:
    """The losses of one schema by path inside it, so that a cached result can be reported anywhere."""

    __slots__ = ("_annotations", "_budget", "_findings")

    def __init__(self) -> None:
        self._budget = MOST_EXPANSIONS
        self._findings: dict[Finding, None] = {}
        self._annotations: dict[str, None] = {}

    def changed(self, path: str, why: str) -> None:
        self._findings["changed", path, why, "tool.schema"] = None

    def dropped(self, path: str, why: str) -> None:
        self._findings["dropped", path, why, "tool.schema"] = None

    def annotation(self, keyword: str) -> None:
        """A keyword that constrains nothing was left out: all of them are one loss."""
        self._annotations[keyword] = None

    def may_expand(self) -> bool:
        """Whether one more reference may be expanded: a few nested ones can spell out an endless schema."""
        self._budget -= 1
        return self._budget >= 0

    def findings(self) -> tuple[Finding, ...]:
        if not self._annotations:
            return tuple(self._findings)
        why = f"The target does not take these annotations: {', '.join(self._annotations)}."
        return (*self._findings, ("dropped", "", why, "tool.schema.annotation"))


def map_children(schema: Wire, path: str, visit: Visit) -> Wire:
    """`schema` with every subschema replaced by what `visit` makes of it."""
    out: Wire = {}
    for key, value in schema.items():
        at = f"{path}.{key}"
        if key in NAMED and is_object(value):
            out[key] = {name: visit(child, f"{at}.{name}", key) for name, child in value.items()}
        elif key in MANY and is_array(value):
            out[key] = [visit(child, f"{at}[{index}]", key) for index, child in enumerate(value)]
        elif key in ONE and not isinstance(value, bool):
            out[key] = visit(value, at, key)
        else:
            out[key] = value
    return out


def children(schema: Wire) -> list[tuple[str, Any]]:
    """Every subschema, with the keyword that it stands under."""
    found: list[tuple[str, Any]] = []
    map_children(schema, "", lambda child, _at, keyword: found.append((keyword, child)))
    return found


def without(schema: Wire, *keywords: str) -> Wire:
    return {key: value for key, value in schema.items() if key not in keywords}


def distinct(values: list[Any]) -> list[Any]:
    """`values`, each once; true and 1 are not the same."""
    once: dict[bytes, Any] = {}
    for value in values:
        once.setdefault(jsontext.encode(value), value)
    return list(once.values())


def types_of(schema: Wire) -> list[str]:
    """The types that `schema` names, none where it names none."""
    given = schema.get("type")
    return given if is_array(given) else [] if given is None else [given]


def is_object_schema(schema: Wire) -> bool:
    return "object" in types_of(schema) or ("type" not in schema and "properties" in schema)


def resolve(root: Wire, ref: str) -> Any:
    """What a reference inside `root` points at, or None where it points nowhere."""
    if ref != "#" and not ref.startswith("#/"):
        return None
    value: Any = root
    for step in ref[2:].split("/") if len(ref) > 1 else ():
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if is_object(value) and name in value:
            value = value[name]
        elif is_array(value) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def resolved(schema: Any, root: Wire) -> Wire:
    """`schema` with its own `$ref` followed inside `root`; keywords beside a reference override it."""
    beside: Wire = {}
    for _ in range(_MOST_STEPS):
        if not is_object(schema):
            return beside
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            return {**schema, **beside} if beside else schema
        beside = {**without(schema, "$ref"), **beside}
        schema = resolve(root, ref)
    return beside


# Notes: what a target cannot say as a keyword goes into the description.

_WORDS = {
    "default": "default: {}",
    "examples": "examples: {}",
    "pattern": "pattern: {}",
    "format": "format: {}",
    "minLength": "length at least {}",
    "maxLength": "length at most {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minItems": "number of items at least {}",
    "maxItems": "number of items at most {}",
    "uniqueItems": "no item twice",
    "minProperties": "number of properties at least {}",
    "maxProperties": "number of properties at most {}",
    "contains": "contains an item such as {}",
    "minContains": "at least {} of them",
    "maxContains": "at most {} of them",
    "unevaluatedProperties": "further properties: {}",
    "unevaluatedItems": "further items: {}",
    "propertyNames": "property names: {}",
    "patternProperties": "properties by pattern of their name: {}",
    "additionalProperties": "further properties: {}",
    "dependentRequired": "what properties require: {}",
    "enum": "one of {}",
    "const": "always {}",
    "not": "not {}",
    "anyOf": "at least one of these must hold: {}",
    "oneOf": "exactly one of these must hold: {}",
    "allOf": "all of these must hold: {}",
    "required": "required: {}",
    "if": "if {}",
    "then": "then {}",
    "else": "else {}",
    "dependentSchemas": "what properties require: {}",
    "enumDescriptions": "meaning of the values: {}",
    "deprecated": "deprecated",
}
SPOKEN = _WORDS.keys()  # keywords that can be expressed in words


def words(keyword: str, value: Any) -> str:
    """A constraint in words."""
    spelled = value if isinstance(value, str) else jsontext.dumps(value)
    if len(spelled) > LONGEST_NOTE:
        spelled = spelled[:LONGEST_NOTE] + "…"
    return _WORDS.get(keyword, keyword + ": {}").replace("{}", spelled)


def noted(schema: Wire, notes: list[str]) -> Wire:
    """`schema` with `notes` at the end of its description."""
    if not notes:
        return schema
    text = "; ".join(notes)
    description = schema.get("description")
    text = f"{description} ({text})" if isinstance(description, str) and description else text
    return {**schema, "description": text}


# Null


def allows_null(schema: Any) -> bool:
    """Whether null fits, as far as the node itself shows."""
    if not is_object(schema):
        return schema is not False
    if "$ref" in schema or ("type" in schema and "null" not in types_of(schema)):
        return False
    if ("enum" in schema and None not in schema["enum"]) or schema.get("const", None) is not None:
        return False
    return all(
        any(allows_null(branch) for branch in schema[key])
        for key in ("anyOf", "oneOf")
        if is_array(schema.get(key))
    )


def allow_null(schema: Wire) -> Wire:
    """`schema`, with null allowed as well."""
    if allows_null(schema):
        return schema
    if "$ref" in schema:
        return {"anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}], **without(schema, "$ref")}
    out = dict(schema)
    if "type" in out:
        out["type"] = [*types_of(out), *([] if "null" in types_of(out) else ["null"])]
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if "enum" in out and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    for key in ("anyOf", "oneOf"):
        if is_array(out.get(key)) and not any(allows_null(branch) for branch in out[key]):
            out[key] = [*out[key], {"type": "null"}]
    return out
