"""Any value that a client sent as a schema -> valid JSON Schema (draft 2020-12), which every target demands.

Spellings of the same thing (Gemini's upper-case types, Python's type names, keywords of older drafts, a null
for an absent keyword) are no loss; what is no schema is repaired as far as its meaning is plain, and
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.core.fields import describe, word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.schemas.walk import (
    BRANCHES,
    MANY,
    NAMED,
    ONE,
    Report,
    map_children,
    noted,
    types_of,
    without,
    words,
)

DEEPEST = 40  # nobody's tool nests deeper, and providers stop far earlier
_TYPES = dict.fromkeys(("string", "number", "integer", "boolean", "object", "array", "null"))
_OTHER_SPELLINGS = {
    "string": "str text char",
    "number": "float double decimal",
    "integer": "int long short bigint",
    "boolean": "bool",
    "object": "dict map hashmap",
    "array": "list arraylist tuple set",
    "null": "none",
}
_SPELLINGS = {spelled: name for name in _TYPES for spelled in (name, *_OTHER_SPELLINGS[name].split())}
# The numbers of Gemini's Type enum, as protobuf clients send them
_NUMBERED = dict(enumerate(("string", "number", "integer", "boolean", "array", "object", "null"), start=1))
_ANYTHING = frozenset({"any", "unknown", ""})
_TEXT = word_set("$ref $id $schema $comment $anchor title description format pattern")
_NUMBER = word_set("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
_COUNT = word_set("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains")
_FLAG = frozenset(["uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"])
_WHOLE = frozenset({*NAMED, "dependentRequired"})
_KNOWN = frozenset(
    {*_TEXT, *_NUMBER, *_COUNT, *_FLAG, *_WHOLE, *MANY, *ONE, "enum", "required", "type", "examples"}
)


def tidy(schema: Any, path: str, report: Report, depth: int = 0) -> Any:
    """A valid schema: an object, or the boolean that was given."""
    if isinstance(schema, bool):
        return schema
    if not is_object(schema):
        return _no_schema(schema, path, report)
    if depth > DEEPEST:
        report.dropped(path, "It is nested too deeply.")
        return {}
    shaped = _shaped(_from_older_drafts(schema, path, report), path, report)
    spelled = _spell_types(shaped, path, report)

    def visit(child: Any, at: str, _keyword: str) -> Any:
        return tidy(child, at, report, depth + 1)

    return map_children(spelled, path, visit)


def prune_all_required(schema: Any, path: str, report: Report, under: str = "") -> Any:
    """`prune_required` in the whole schema. A branch may require what only the schema around it declares."""
    if not is_object(schema):
        return schema
    pruned = schema if under in BRANCHES else prune_required(schema, path, report)
    return map_children(pruned, path, lambda child, at, key: prune_all_required(child, at, report, key))


def prune_required(schema: Wire, path: str, report: Report) -> Wire:
    """`required` without names that no property has, where the properties are all in sight.

    Gemini and xAI refuse such a name, also behind Chat and Responses (G81: weave#451, cc-switch#5315).
    Claude takes it (probelabs/probe#569).
    """
    properties, required = schema.get("properties"), schema.get("required")
    composed = any(key in schema for key in ("$ref", "anyOf", "oneOf", "allOf"))
    if not required or not is_object(properties) or composed:
        return schema
    missing = [name for name in required if name not in properties]
    if not missing:
        return schema
    report.dropped(f"{path}.required", f"There is no such property: {', '.join(missing)}.")
    return {**schema, "required": [name for name in required if name in properties]}


def _no_schema(value: Any, path: str, report: Report) -> Wire:
    if value == [] or value is None:  # PHP prints an empty object so; null is no constraint
        return {}
    report.changed(path, f"A schema is an object. This is {describe(value)}.")
    if not isinstance(value, str):
        return {}
    spelled = _SPELLINGS.get(value.lower())
    return {"type": spelled} if spelled else {"description": value}


def _from_older_drafts(schema: Wire, path: str, report: Report) -> Wire:
    """Draft 3: required is a flag of the property. 4: exclusiveMinimum is a flag. 7: tuples, dependencies."""
    out = _list_required(schema)
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(flag), bool):
            out = dict(out)
            if out.pop(flag) and bound in out:
                out[flag] = out.pop(bound)
    if is_array(out.get("items")):
        out = _from_tuple(out)
    if "dependencies" in out:
        out = _split_dependencies(out)
    if isinstance(out.get("required"), bool):
        report.changed(f"{path}.required", "It belongs in the list of the object around it.")
        out = without(out, "required")
    return out


def _list_required(schema: Wire) -> Wire:
    properties, listed = schema.get("properties"), schema.get("required")
    if not is_object(properties):
        return schema
    asking = [
        name for name, child in properties.items() if is_object(child) and child.get("required") is True
    ]
    if not asking:
        return schema
    named = [*(listed if is_array(listed) else []), *asking]
    return {**schema, "required": list(dict.fromkeys(str(name) for name in named))}


def _from_tuple(schema: Wire) -> Wire:
    out, items = without(schema, "items", "additionalItems"), schema["items"]
    if items and "prefixItems" not in out:
        out["prefixItems"] = items
    if "additionalItems" in schema:
        out["items"] = schema["additionalItems"]
    return out


def _split_dependencies(schema: Wire) -> Wire:
    out, given = without(schema, "dependencies"), schema["dependencies"]
    dependencies: Wire = given if is_object(given) else {}
    lists = {name: value for name, value in dependencies.items() if is_array(value)}
    others = {name: value for name, value in dependencies.items() if not is_array(value)}
    out |= {"dependentRequired": lists} if lists else {}
    out |= {"dependentSchemas": others} if others else {}
    return out


def _shaped(schema: Wire, path: str, report: Report) -> Wire:
    """`schema` without keywords whose value cannot mean anything."""
    wrong = [key for key, value in schema.items() if key in _KNOWN and not _fits(key, value)]
    if not wrong:
        return schema
    out = dict(schema)
    for key in wrong:
        value = out.pop(key)
        if value is None or value == {}:
            continue
        if key == "required" and isinstance(value, str):
            out[key] = [value]
        elif key == "required" and is_array(value):
            out[key] = list(dict.fromkeys(name for name in value if isinstance(name, str)))
        elif key == "examples":
            out[key] = [value]
            continue
        elif key in _WHOLE and value == []:
            out[key] = {}
            continue
        report.changed(f"{path}.{key}", f"JSON Schema has no meaning for {describe(value)} here.")
    return out


def _fits(key: str, value: Any) -> bool:
    fits = _FITTING.get(key)
    return fits(value) if fits else value is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value % 1 == 0


def _are_names(value: Any) -> bool:
    """Different ones, and nothing but names."""
    names = value if is_array(value) else [None]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


# What the value of a keyword must be to mean anything; of the others anything but null
_FITTING: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys((*MANY, "enum"), lambda value: is_array(value) and bool(value)),
    **dict.fromkeys(_WHOLE, is_object),
    **dict.fromkeys(_COUNT, _is_count),
    **dict.fromkeys(_NUMBER, _is_number),
    **dict.fromkeys(_FLAG, lambda value: isinstance(value, bool)),
    **dict.fromkeys(_TEXT, lambda value: isinstance(value, str)),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": lambda value: is_object(value) and all(map(_are_names, value.values())),
    "required": _are_names,
    "examples": is_array,
}


def _spell_types(schema: Wire, path: str, report: Report) -> Wire:
    if "type" not in schema:
        return schema
    given: list[Any] = list(types_of(schema))
    if all(isinstance(name, str) and name in _TYPES for name in given) and 0 < len(set(given)) == len(given):
        return schema
    given = [_NUMBERED.get(name, name) if type(name) is int else name for name in given]
    words_given = [name.lower() for name in given if isinstance(name, str)]
    known = dict.fromkeys(_SPELLINGS[name] for name in words_given if name in _SPELLINGS)
    unknown = [
        name for name in given if not isinstance(name, str) or name.lower() not in {*_SPELLINGS, *_ANYTHING}
    ]
    out = without(schema, "type")
    if known and _ANYTHING.isdisjoint(words_given):
        out = {"type": list(known) if is_array(schema["type"]) else next(iter(known)), **out}
    if not unknown:
        return out
    report.changed(f"{path}.type", f"JSON Schema has no type {unknown[0]!r}. The description names it.")
    return noted(out, [words("type", unknown[0] if len(unknown) == 1 else unknown)])
