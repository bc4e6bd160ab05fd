"""Arguments that a tool's schema allows, taken from the words that ask for them where a name says how.

Each node of the schema offers candidates, the most sensible first; the first one that a real validator
accepts is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import ceil
from typing import Any

import jsonschema_rs

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import ToolDeclaration, Wire
from dragoman.schemas.merge import intersect
from dragoman.schemas.walk import resolved

# What a prompt names: a file, a place
PATH = re.compile(r"(?<![\w/.])(/[\w./-]*\w|[\w-]+(?:/[\w.-]*\w)+|[\w-]+\.[a-z]{1,5})\b")
COMMAND = re.compile(r"\b(?:run|execute)\b(?:[^`\n]*`([^`]+)`|[^:]*:\s*(.+))", re.IGNORECASE)
PLACE = re.compile(r"\b(?:in|for|of|at)\s+([A-Z]\w*(?:\s[A-Z]\w*)?)")
_DEEPEST = 12
_EFFORT = 300  # values in all: what a schema allows may take for ever to find
_TRIED = 24  # candidates of one node
_RUNS = "tools.exec_command"  # what scripts of Codex's `exec` call


def arguments(tool: ToolDeclaration, wish: str) -> str:
    """JSON text, or the wish itself for a freeform tool."""
    if _RUNS in tool.description:  # it takes a script, however it was declared
        wish = f"const said = await {_RUNS}({{cmd: {jsontext.dumps(command(wish))}}}); text(said.output)"
    if tool.kind == "custom":
        return wish.strip()
    schema = tool.parameters or {}
    made = ValueGenerator(schema, wish).best("", schema)
    return jsontext.dumps(made if is_object(made) else {})


def answer(schema: Wire, wish: str) -> str:
    """JSON text that the schema of an answer allows."""
    return jsontext.dumps(ValueGenerator(schema, wish).best("", schema))


class ValueGenerator:
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
            return lambda value: True

    def _candidates(self, name: str, schema: Any, depth: int) -> Iterator[Any]:
        if depth > _DEEPEST or schema is False:
            return
        for way in ways_through(self._resolve(schema), self._resolve):
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

        def make(names: Iterable[str]) -> Wire:
            return {name: self.best(name, _schema_of(name, known, schema), depth + 1) for name in names}

        first = make(names)
        yield first
        optional = [name for name in known if name not in first]
        for count in range(1, min(len(optional), 8) + 1):
            yield {**first, **make(optional[:count])}
        for name in optional[1:8]:
            yield {**first, **make([name])}
        spare = _spare_names(schema)
        for count in range(1, len(spare) + 1):
            yield {**first, **make(spare[:count])}

    def _arrays(self, name: str, schema: Wire, depth: int) -> Iterator[list[Any]]:
        items = schema.get("items", {})
        if name in ("command", "cmd", "args") and kinds_of(self._resolve(items)) == ["string"]:
            yield ["bash", "-lc", command(self._wish)]
        fixed = _array(schema.get("prefixItems")) or _array(items)
        rest = schema.get("additionalItems", {}) if is_array(items) else items
        rest = schema["contains"] if is_object(schema.get("contains")) else rest
        head = [self.best(name, each, depth + 1) for each in fixed]
        accepts = self._validator(rest)
        tail = [value for value in islice(self._candidates(name, rest, depth + 1), _TRIED) if accepts(value)]
        least = int(schema.get("minItems") or 0)
        for count in (max(least, 1), least, least + 1):
            yield head + _fill(tail, count - len(head), bool(schema.get("uniqueItems")))

    def _resolve(self, schema: Any) -> Wire:
        return resolved(schema, self._root)


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
    pattern = _object(schema.get("propertyNames")).get("pattern")
    if isinstance(pattern, str):
        patterns = [pattern]
    if not patterns:
        return [f"more_{number}" for number in range(1, 5)]
    return list(dict.fromkeys(islice(matching(patterns[0]), 8)))


def _fill(found: list[Any], count: int, unique: bool) -> list[Any]:
    if count <= 0 or not found:
        return []
    if not unique:
        return [found[0]] * count
    return list({jsontext.dumps(value): value for value in found}.values())[:count]


_FORKS = ("allOf", "anyOf", "oneOf", "if", "then", "else")
_TYPE_BY_KEYWORD = {
    **dict.fromkeys(("properties", "required", "minProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems"), "array"),
    **dict.fromkeys(("minimum", "multipleOf"), "number"),
}
_ANY = ["string", "integer", "object", "array", "boolean", "null"]


def ways_through(schema: Wire, resolve: Callable[[Any], Wire], depth: int = 0) -> Iterator[Wire]:
    """`resolve` follows references."""
    if depth > 6 or not any(key in schema for key in _FORKS):
        yield schema
        return
    base = {key: value for key, value in schema.items() if key not in _FORKS}
    for part in schema.get("allOf") or ():
        base = intersect(base, resolve(part))
    ways = [base]
    for options in (schema.get("anyOf"), schema.get("oneOf")):
        if is_array(options) and options:
            ways = [intersect(way, resolve(option)) for way in ways for option in options]
    if "if" in schema:
        ways = _by_condition(schema, ways, resolve)
    for way in ways:
        yield from ways_through(way, resolve, depth + 1)


def _by_condition(schema: Wire, ways: list[Wire], resolve: Callable[[Any], Wire]) -> list[Wire]:
    """Each way twice: with the condition met, and without."""
    met, then, otherwise = (resolve(schema.get(key, {})) for key in ("if", "then", "else"))
    met_ways = [intersect(intersect(way, met), then) for way in ways]
    return met_ways + [intersect(way, otherwise) for way in ways]


def kinds_of(schema: Wire) -> list[str]:
    """The types that a schema allows, null last."""
    declared = schema.get("type")
    if is_array(declared):
        return sorted((str(kind).lower() for kind in declared), key=lambda kind: kind == "null")
    if declared:
        return [str(declared).lower()]
    implied = [kind for key, kind in _TYPE_BY_KEYWORD.items() if key in schema]
    return implied[:1] or (_ANY if "not" in schema else ["string"])


_FORMATS = {
    "date": "2026-11-15",
    "date-time": "2026-11-15T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
    "byte": "ZGVtbw==",
}


def numbers(schema: Wire, whole: bool) -> Iterator[int | float]:
    step = _number(schema.get("multipleOf")) or 1
    lowest = _bound(schema, "minimum", "exclusiveMinimum", step)
    highest = _bound(schema, "maximum", "exclusiveMaximum", -step)
    usual = 1 if lowest is None or lowest <= 1 else lowest
    wanted = [_number(schema.get("default")), usual, lowest, highest, 0, -1]
    for number in wanted:
        if number is not None:
            aligned = ceil(number / step) * step
            yield int(aligned) if whole else aligned
            yield number
    if lowest is not None and highest is not None:
        yield (lowest + highest) / 2


def _bound(schema: Wire, plain: str, exclusive: str, step: int | float) -> int | float | None:
    """The bound itself may be excluded, by a number of its own or (until draft 4) by a flag."""
    value, limit = _number(schema.get(plain)), _number(schema.get(exclusive))
    if limit is not None:
        return limit + step
    return value + step if value is not None and schema.get(exclusive) is True else value


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def texts(name: str, schema: Wire, wish: str) -> Iterator[str]:
    shortest, longest = int(schema.get("minLength") or 0), schema.get("maxLength")
    words = _words_for(name, wish)
    given = [*_array(schema.get("examples")), schema.get("default")]
    if "pattern" in schema:  # what a schema offers itself is likeliest to match
        yield from (text for text in given if isinstance(text, str))
    for text in (_FORMATS.get(str(schema.get("format")), words), words):
        yield text.ljust(shortest, "x")[:longest]
    if isinstance(pattern := schema.get("pattern"), str):
        yield from islice(matching(pattern, shortest), 2)
    for number in range(2, 8):
        yield f"{number} {words}".ljust(shortest, "x")[:longest]


def _words_for(name: str, wish: str) -> str:
    """The words of the wish that fit a property of this name."""
    path, place = PATH.search(wish), PLACE.search(wish)
    if any(word in name for word in ("command", "cmd", "script")):
        return command(wish)
    if any(word in name for word in ("path", "file", "dir")):
        return path[1] if path else "README.md"
    if any(word in name for word in ("city", "location", "place", "country", "tz", "zone")):
        return place[1] if place else "Paris"
    return wish.strip(" ?.!\n") or "demo"


def command(wish: str) -> str:
    """What was asked, behind "run" or "execute": a command in backticks or after a colon; else a listing."""
    asked = COMMAND.search(wish)
    return (asked[1] or asked[2]).strip() if asked else "ls"


_SAMPLES = ("latest", "v1.0", "1.0.0", "demo-1", "demo@example.com", "https://example.com/", "#a0b1c2")
_PREFIX = re.compile(r"\^?([\w/:@#-]*)")


def matching(pattern: str, shortest: int = 0) -> Iterator[str]:
    """Texts that match a pattern, as far as they are found by trying.

    Tried are common identifiers, and runs of one character behind the literal beginning of the pattern.
    There is no generator behind it: a pattern such as ^[A-Z]{3}-\\d{4}$ gets a text that does not match,
    unless its schema has examples.
    """
    try:
        matches = jsonschema_rs.validator_for({"type": "string", "pattern": pattern}).is_valid
    except ValueError:
        return
    beginning = _PREFIX.match(pattern)
    runs = (
        begin + character * length
        for begin in dict.fromkeys(["", beginning[1] if beginning else ""])
        for character in "a0A -"
        for length in range(shortest + 10)
    )
    yield from (
        text for text in (*_SAMPLES, *_FORMATS.values(), *runs) if len(text) >= shortest and matches(text)
    )
