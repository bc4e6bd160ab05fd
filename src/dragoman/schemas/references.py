"""References stay where the target takes them; otherwise they are written out, with cycles cut.

Gemini takes `$ref` in `parametersJsonSchema` (its real traffic shows it) if it points into `$defs`, stands
alone in its node and closes a cycle only inside a property that is not required. A schema with any other
reference is written out as a whole (G79: litellm#28646, any-llm#1095).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.core.schema_rules import Cycles
from dragoman.schemas.merge import DEEPEST_REF, intersect
from dragoman.schemas.walk import Report, children, map_children, noted, resolve, types_of, without

_WORDS_ONLY = frozenset({"$ref", "title", "description"})


def settle_references(root: Wire, report: Report, cycles: Cycles, *, beside: bool) -> Wire:
    """`root` with references that the target takes, or none. `beside`: words may stand beside a `$ref`."""
    root = _renamed(root)
    plain = "$ref" not in root and _all_plain(root, root.get("$defs", {}), beside, "allOf")
    if plain and not _has_cycle(root, cycles):
        return root
    return without(_inlined(root, root, "", report, ()), "$defs")


def drop_broken_references(schema: Any, root: Wire, path: str, report: Report) -> Any:
    """`schema` without references that point nowhere or to another document, which nobody fetches."""
    if not is_object(schema):
        return schema
    ref = schema.get("$ref")
    if isinstance(ref, str) and _is_broken(ref, root):
        schema = without(schema, "$ref")
        report.changed(f"{path}.$ref", "It points at nothing. The description names it.")
        schema = noted(schema, [f"see {ref}"])
    return map_children(schema, path, lambda child, at, _key: drop_broken_references(child, root, at, report))


def _is_broken(ref: str, root: Wire) -> bool:
    if ref.startswith("#") and not ref.startswith("#/"):
        return False  # the root, or an anchor
    return resolve(root, ref) is None and "$id" not in root


def _renamed(schema: Any) -> Any:
    """Draft 7 says `definitions`, and puts words beside a `$ref` by an allOf with one member."""
    if not is_object(schema):
        return schema
    if is_object(old := schema.get("definitions")):
        new = schema.get("$defs")
        schema = without(schema, "definitions") | {"$defs": {**old, **new} if is_object(new) else old}
    match schema.get("allOf"):
        case [{"$ref": str(ref)}] if len(schema["allOf"][0]) == 1 and "$ref" not in schema:
            schema = {"$ref": ref} | without(schema, "allOf")
        case _:
            pass
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/definitions/"):
        schema = {**schema, "$ref": "#/$defs/" + ref.removeprefix("#/definitions/")}
    return map_children(schema, "", lambda child, _at, _under: _renamed(child))


def _all_plain(schema: Any, definitions: Wire, beside: bool, under: str) -> bool:
    """Whether every reference is a name in `$defs`, alone in its node, and not in a schema that is merged."""
    if not is_object(schema):
        return True
    if "$ref" in schema:
        alone = schema.keys() <= (_WORDS_ONLY if beside else {"$ref"})
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        return alone and under not in _MERGED and name != schema["$ref"] and name in definitions
    # a union at the root or beside other structure is merged as well
    joined = "type" in schema or "properties" in schema or under in _MERGED
    merged = ("anyOf", "oneOf") if joined else ()
    return all(
        _all_plain(child, definitions, beside, "allOf" if keyword in merged else keyword)
        for keyword, child in children(schema)
    )


_MERGED = frozenset({"allOf", "if", "then", "else", "dependentSchemas", "not"})


def _has_cycle(root: Wire, allowed: Cycles) -> bool:
    """Whether a definition leads back to itself in a way that the target refuses."""
    if allowed == "any":
        return False
    definitions = root.get("$defs")
    if not is_object(definitions):
        return False
    edges = {name: set(_targets(schema, allowed == "optional")) for name, schema in definitions.items()}
    while leaves := [name for name, targets in edges.items() if not targets & edges.keys()]:
        for name in leaves:
            del edges[name]
    return bool(edges)


def _targets(schema: Any, from_required_only: bool) -> Iterator[str]:
    """The definitions to which a schema leads, by every way or by required properties only."""
    if not is_object(schema):
        return
    if isinstance(ref := schema.get("$ref"), str):
        yield ref.removeprefix("#/$defs/")
    required = schema.get("required")
    needed: list[Any] = required if is_array(required) else []
    properties = schema.get("properties")
    for key, child in properties.items() if is_object(properties) else ():
        if key in needed or not from_required_only:
            yield from _targets(child, from_required_only)
    for _, child in children(without(schema, "properties")):
        yield from _targets(child, from_required_only)


def _inlined(schema: Any, root: Wire, path: str, report: Report, open_refs: tuple[str, ...]) -> Any:
    if not is_object(schema):
        return schema
    ref = schema.get("$ref")
    if isinstance(ref, str):
        beside, target = without(schema, "$ref"), resolve(root, ref)
        may = ref not in open_refs and len(open_refs) <= DEEPEST_REF and report.may_expand()
        if not may or not is_object(target):
            return _inlined(_cut(beside, ref, target, path, report), root, path, report, open_refs)
        return _inlined(intersect(beside, without(target, "$defs")), root, path, report, (*open_refs, ref))
    return map_children(
        without(schema, "$defs"), path, lambda child, at, _: _inlined(child, root, at, report, open_refs)
    )


def _cut(beside: Wire, ref: str, target: Any, path: str, report: Report) -> Wire:
    """What stands for a reference that cannot be written out."""
    name = ref.rsplit("/", 1)[-1]
    if target is None:
        report.changed(f"{path}.$ref", "It points at nothing. The description names it.")
        return noted(beside, [f"see {name}"])
    if not is_object(target):
        return beside
    report.changed(f"{path}.$ref", "It points at a schema around it. The description names that.")
    form = {"type": target["type"]} if types_of(target) else {}
    return noted(
        form | beside,
        [f"of the same form as {name} around it" if name != "#" else "of the same form as the whole"],
    )
