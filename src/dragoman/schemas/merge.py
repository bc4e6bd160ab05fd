"""Several schemas made one: what all of them say (`intersect`) and what any of them allows (`unite`).

Where two cannot hold at once the wider reading stays: a model with too few constraints still calls the tool,
one that gets impossible constraints does not (G80: bifrost#3150, pydantic-ai#6394).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from dragoman.core import jsontext
from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.schemas.walk import Report, distinct, resolve, types_of, without, words

DEEPEST_REF = 12


def intersect(one: Wire, two: Wire) -> Wire:
    """What both say."""
    out = dict(one)
    for key, value in two.items():
        out[key] = _both(key, out[key], value) if key in out else value
    if "type" in out and not out["type"]:
        del out["type"]
    return out


def _both(key: str, one: Any, two: Any) -> Any:
    """The value of a keyword that stands in both schemas; of two that cannot be joined the first one."""
    if one == two:
        return one
    if is_object(one) and is_object(two) and key in _OBJECTS:
        return _OBJECTS[key](one, two)
    if is_array(one) and is_array(two) and key in _ARRAYS:
        return _ARRAYS[key](one, two)
    return _VALUES[key](one, two) if key in _VALUES else one


def _merge_definitions(one: Wire, two: Wire) -> Wire:
    return two | one


def _merge_children(one: Wire, two: Wire) -> Wire:
    return one | {name: _narrowed(one[name], two[name]) if name in one else two[name] for name in two}


def _narrowed(one: Any, two: Any) -> Any:
    if is_object(one) and is_object(two):
        return intersect(one, two)
    if one is False or two is False:
        return False
    return two if one is True else one


def _common_values(one: list[Any], two: list[Any]) -> list[Any]:
    both = {jsontext.encode(value) for value in two}
    return [value for value in one if jsontext.encode(value) in both]


def _common_types(one: list[str], two: list[str]) -> str | list[str]:
    """Types that both allow; an integer is a number. With nothing in common no type is named."""
    common = [name for name in one if name in two]
    common += ["integer"] if "integer" not in common and {"integer", "number"} <= {*one, *two} else []
    return common[0] if len(common) == 1 else common


_Merge: TypeAlias = Callable[[Any, Any], Any]
_OBJECTS: dict[str, _Merge] = {
    **dict.fromkeys(("$defs", "definitions"), _merge_definitions),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _merge_children),
}
_ARRAYS: dict[str, _Merge] = {
    "required": lambda one, two: list(dict.fromkeys([*one, *two])),
    **dict.fromkeys(("enum", "anyOf"), lambda one, two: _common_values(one, two) or one),
}
_VALUES: dict[str, _Merge] = {
    "type": lambda one, two: _common_types(types_of({"type": one}), types_of({"type": two})),
    "description": lambda one, two: f"{one}\n{two}",
    **dict.fromkeys(("items", "additionalProperties"), _narrowed),
    **dict.fromkeys(word_set("minimum exclusiveMinimum minLength minItems minProperties minContains"), max),
    **dict.fromkeys(word_set("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains"), min),
}


def unite(base: Wire, branches: list[Wire]) -> Wire:
    """An object schema that allows what `base` with any of `branches` allows.

    Properties of `base` stay as they are, others come from any branch; what all branches require is required.
    """
    own = base.get("properties")
    properties: Wire = dict(own) if is_object(own) else {}
    offered: dict[str, list[Any]] = {}
    for branch in branches:
        declared = branch.get("properties")
        for name, child in declared.items() if is_object(declared) else ():
            if name not in properties:
                offered.setdefault(name, []).append(child)
    properties |= {name: either(schemas) for name, schemas in offered.items()}
    shared = [name for name in _required(branches[0]) if all(name in _required(each) for each in branches)]
    out: Wire = base | {"properties": properties}
    if required := list(dict.fromkeys([*_required(base), *shared])):
        out["required"] = required
    return out


def unite_objects(base: Wire, branches: list[Wire]) -> Wire:
    """`unite` with those branches that an object can match."""
    objects = [branch for branch in branches if "object" in types_of(branch) or "type" not in branch]
    return unite(base, objects) if objects else base


def either(schemas: list[Any]) -> Any:
    """A schema that allows what any of `schemas` allows."""
    schemas = distinct(schemas)
    if len(schemas) == 1:
        return schemas[0]
    listed = [_values(schema) for schema in schemas]
    if not all(listed):
        return {"anyOf": schemas}
    types = list(dict.fromkeys(name for schema in schemas for name in types_of(schema)))
    notes = dict.fromkeys(schema["description"] for schema in schemas if schema.get("description"))
    out: Wire = {"type": types[0] if len(types) == 1 else types} if types else {}
    out["enum"] = distinct([value for values in listed for value in values])
    return out | ({"description": "; ".join(notes)} if notes else {})


def _values(schema: Any) -> list[Any]:
    """The values of a schema that only lists values."""
    if not is_object(schema) or not schema.keys() <= {"type", "enum", "const", "description", "title"}:
        return []
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _required(schema: Wire) -> list[str]:
    required = schema.get("required")
    return required if is_array(required) else []


def flatten(
    schema: Wire, root: Wire, path: str, report: Report, seen: tuple[str, ...] = ()
) -> tuple[Wire, list[str]]:
    """An object schema without `$ref`, allOf, anyOf and oneOf of its own, and in words what that left out."""
    out = without(schema, "$ref", "allOf", "anyOf", "oneOf")
    notes: list[str] = []
    if isinstance(ref := schema.get("$ref"), str):
        target = resolve(root, ref)
        if is_object(target) and ref not in seen and len(seen) < DEEPEST_REF and report.may_expand():
            inner, notes = flatten(target, root, path, report, (*seen, ref))
            out = intersect(out, without(inner, "$defs", "definitions"))
        else:
            report.changed(
                f"{path}.$ref", "It points at nothing." if target is None else "It points at itself."
            )
    for keyword in ("allOf", "anyOf", "oneOf"):
        if not is_array(members := schema.get(keyword)):
            continue
        flat = [
            flatten(member, root, f"{path}.{keyword}[{index}]", report, seen)
            for index, member in enumerate(members)
            if is_object(member)
        ]
        if keyword == "allOf" or len(members) == 1:
            for member, more in flat:
                out, notes = intersect(out, member), [*notes, *more]
        else:
            out = unite_objects(out, [member for member, _ in flat])
            notes.append(words(keyword, members))
        if len(members) > 1:
            report.changed(f"{path}.{keyword}", "It was merged into one schema.")
    return out, notes
