"""Arguments that a tool's schema allows, taken from the words that ask for them where a name says how.

Each node of the schema offers candidates, the most sensible first; the first one that a real validator
accepts is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import jsonschema_rs

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Tool, Wire
from dragoman.demo.leaves import command, numbers, texts
from dragoman.demo.patterns import matching
from dragoman.demo.ways import kinds_of, ways_through

_DEEPEST = 12
_EFFORT = 300  # values in all: what a schema allows may take for ever to find
_TRIED = 24  # candidates of one node
_RUNS = "tools.exec_command"  # what scripts of Codex's `exec` call


def arguments(tool: Tool, wish: str) -> str:
    """JSON text, or the wish itself for a freeform tool."""
    if _RUNS in tool.description:  # it takes a script, however it was declared
        wish = f"const said = await {_RUNS}({{cmd: {jsontext.dumps(command(wish))}}}); text(said.output)"
    if tool.kind == "custom":
        return wish.strip()
    schema = tool.parameters or {}
    made = Maker(schema, wish).best("", schema)
    return jsontext.dumps(made if is_object(made) else {})


def answer(schema: Wire, wish: str) -> str:
    """JSON text that the schema of an answer allows."""
    return jsontext.dumps(Maker(schema, wish).best("", schema))


class Maker:
    """Makes values for the schema `root` and what is inside it."""

    def __init__(self, root: Wire, wish: str) -> None:
        self._root, self._wish, self._left = root, wish, _EFFORT
        self._shared = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}

    def best(self, name: str, schema: Any, depth: int = 0) -> Any:
        """The first candidate that the schema accepts; the first of all where none does."""
        self._left -= 1
        if self._left < 0:
            return None
        first, accepts = None, self._validator(schema)
        for index, value in enumerate(islice(self._candidates(name, schema, depth), _TRIED)):
            if accepts(value):
                return value
            first = first if index else value
        return first

    def _validator(self, schema: Any) -> Callable[[Any], bool]:
        whole = schema if schema is self._root else {**self._shared, "allOf": [schema]}
        try:
            return jsonschema_rs.validator_for(whole).is_valid
        except ValueError:  # not a schema at all: anything goes
            return _anything

    def _candidates(self, name: str, schema: Any, depth: int) -> Iterator[Any]:
        if depth > _DEEPEST or schema is False:
            return
        for way in ways_through(self._resolved(schema), self._resolved):
            if "const" in way:
                yield way["const"]
            elif is_array(options := way.get("enum")) and options:
                yield from sorted(options, key=lambda option: str(option).lower() not in self._wish.lower())
            else:
                for kind in kinds_of(way):
                    yield from self._of_kind(kind, name, way, depth)

    def _of_kind(self, kind: str, name: str, schema: Wire, depth: int) -> Iterable[Any]:
        match kind:
            case "object":
                return self._objects(schema, depth)
            case "array":
                return self._arrays(name, schema, depth)
            case "integer" | "number":
                return numbers(schema, whole=kind == "integer")
            case "boolean":
                return (False, True)
            case "null":
                return (None,)
            case _:
                return texts(name.lower(), schema, self._wish)

    def _objects(self, schema: Wire, depth: int) -> Iterator[Wire]:
        """With what is required; then with more, where a schema asks for that in some other way."""
        known = _object(schema.get("properties"))
        names = [str(name) for name in _array(schema.get("required"))]

        def made(names: Iterable[str]) -> Wire:
            return {name: self.best(name, _schema_of(name, known, schema), depth + 1) for name in names}

        first = made(names)
        yield first
        optional = [name for name in known if name not in first]
        for count in range(1, min(len(optional), 8) + 1):
            yield {**first, **made(optional[:count])}
        for name in optional[1:8]:
            yield {**first, **made([name])}
        spare = _spare_names(schema)
        for count in range(1, len(spare) + 1):
            yield {**first, **made(spare[:count])}

    def _arrays(self, name: str, schema: Wire, depth: int) -> Iterator[list[Any]]:
        items = schema.get("items", {})
        if name in ("command", "cmd", "args") and kinds_of(self._resolved(items)) == ["string"]:
            yield ["bash", "-lc", command(self._wish)]
        fixed = _array(schema.get("prefixItems")) or _array(items)
        rest = schema.get("additionalItems", {}) if is_array(items) else items
        rest = schema["contains"] if is_object(schema.get("contains")) else rest
        head = [self.best(name, each, depth + 1) for each in fixed]
        accepts = self._validator(rest)
        tail = [value for value in islice(self._candidates(name, rest, depth + 1), _TRIED) if accepts(value)]
        least = int(schema.get("minItems") or 0)
        for count in (max(least, 1), least, least + 1):
            yield head + _filled(tail, count - len(head), bool(schema.get("uniqueItems")))

    def _resolved(self, schema: Any) -> Wire:
        """Local references, followed a few steps, with what stands beside them; {} where there is nothing."""
        beside: Wire = {}
        for _ in range(8):
            if not is_object(schema):
                return beside
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return {**schema, **beside}
            beside = {**{key: value for key, value in schema.items() if key != "$ref"}, **beside}
            schema = self._found(reference.lstrip("#").strip("/"))
        return beside

    def _found(self, pointer: str) -> Any:
        found: Any = self._root
        for step in pointer.split("/") if pointer else ():
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if is_object(found) else None
        return found


def _anything(value: Any) -> bool:
    return True


def _object(value: Any) -> Wire:
    return value if is_object(value) else {}


def _array(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _schema_of(name: str, known: Wire, schema: Wire) -> Any:
    """The schema of a property, declared by its name, by a pattern, or for all others."""
    if name in known:
        return known[name]
    for pattern, inner in _object(schema.get("patternProperties")).items():
        if re.search(pattern, name):
            return inner
    return schema.get("additionalProperties", {})


def _spare_names(schema: Wire) -> list[str]:
    """Names for properties that nobody declared by name."""
    patterns = list(_object(schema.get("patternProperties")))
    asked = _object(schema.get("propertyNames")).get("pattern")
    if isinstance(asked, str):
        patterns = [asked]
    if not patterns:
        return [f"more_{number}" for number in range(1, 5)]
    return list(dict.fromkeys(text for length in range(1, 9) if (text := matching(patterns[0], length))))


def _filled(found: list[Any], count: int, unique: bool) -> list[Any]:
    if count <= 0 or not found:
        return []
    if not unique:
        return [found[0]] * count
    return list({jsontext.dumps(value): value for value in found}.values())[:count]
