"""The declared tools, and what the text of a parameter means by their JSON Schemas.

Text dialects carry strings; the schema says what each was meant to be. A conversion happens only
where it is lossless (G120: vllm#37831, opencode#7513): what does not read as the declared type stays the
string that it is, a string stays to the byte, one framing newline on each side aside (G118: vllm#48846,
sglang#20543), and an unknown parameter is a string. A parameter that is declared without a type takes
anything: what is JSON is read as JSON.
Entities such as `&lt;` are never decoded: no dialect escapes (G119: vllm#45025, cline#7385).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.jsontext import spaced
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, ToolCall, ToolDeclaration, Wire
from dragoman.dialects.engine.literals import read_literal
from dragoman.dialects.engine.source import Broken
from dragoman.schemas.walk import resolved

_INPUT: Wire = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


class DeclaredTools:
    """Functions by name. A freeform tool is a function with one string, `input`."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self.tools: tuple[ToolDeclaration, ...] = tuple(
            as_function(tool) for tool in tools if isinstance(tool, ToolDeclaration)
        )
        self._schemas: dict[str, Wire] = {tool.name: tool.parameters or {} for tool in self.tools}

    def __contains__(self, name: str) -> bool:
        return name in self._schemas

    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def parameters(self, tool: str) -> Wire:
        """The declared parameters by name, each with its schema."""
        properties = self._schemas.get(tool, {}).get("properties")
        return cast(Wire, properties) if isinstance(properties, dict) else {}

    def required(self, tool: str) -> list[str]:
        required = self._schemas.get(tool, {}).get("required")
        return cast(list[str], required) if isinstance(required, list) else []

    def read(
        self, tool: str, parameter: str, text: str, *, framed: bool = True, json: bool | None = None
    ) -> Any:
        """The value that `text` spells for this parameter. `json`: whether it is JSON, if the text says."""
        if json is not None:
            return jsontext.decode(text) if json and jsontext.is_complete(text) else text
        return read_value(text, self.schema(tool, parameter), self._schemas.get(tool, {}), framed=framed)

    def write(self, tool: str, arguments: Wire) -> dict[str, str]:
        """The arguments as text, each so that `read` reads it."""
        root = self._schemas.get(tool, {})
        return {name: write_value(it, self.schema(tool, name), root) for name, it in arguments.items()}

    def schema(self, tool: str, parameter: str) -> Schema:
        root = self._schemas.get(tool, {})
        return property_of(root, parameter, root)


@cached_by_tools
def declare(tools: Iterable[AnyTool], losses: Losses) -> DeclaredTools:
    return DeclaredTools(tools)


def as_function(tool: ToolDeclaration) -> ToolDeclaration:
    return tool if tool.kind == "function" else replace(tool, kind="function", parameters=_INPUT)


def arguments_of(call: ToolCall) -> Wire:
    """The arguments as an object. What is none travels inside one, so that nothing is lost."""
    if call.kind == "custom":
        return {"input": call.arguments}
    if not call.arguments.strip():
        return {}
    found = jsontext.decode_object(call.arguments)
    return {"_raw_arguments": call.arguments} if found is None else found


Schema = Any  # a JSON Schema: an object, true or false
_NOT_THIS = object()
_ALIASES = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "str": "string",
    "none": "null",
}
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DEEPEST = 16


def read_value(text: str, schema: Schema, root: Wire, *, framed: bool = True, depth: int = 0) -> Any:
    """The value that `text` spells for a parameter with this schema.

    `framed`: one newline on each side is not part of a string.
    """
    branches = list(_branches(schema, root))
    exact = strip_frame(text) if framed else text
    bare = text.strip()
    for member in (member for branch in branches for member in _members(branch)):
        if member in (exact, bare) if isinstance(member, str) else bare == jsontext.dumps(member):
            return member
    kinds = {kind for branch in branches for kind in kinds_of(branch)}
    for kind, read in _READERS.items():
        if kind in kinds and (value := read(bare, Place(branches, root, depth))) is not _NOT_THIS:
            return value
    if takes_anything(schema, root) and jsontext.is_complete(bare):
        return jsontext.decode(bare)
    return exact


def write_value(value: Any, schema: Schema, root: Wire) -> str:
    """How a value is written so that `read_value` reads it: a string as it is, anything else as JSON.

    For a parameter that takes anything, a string that looks like JSON stands in quotes.
    """
    if not isinstance(value, str):
        return spaced(value)
    ambiguous = takes_anything(schema, root) and jsontext.is_complete(value.strip())
    return jsontext.dumps(value) if ambiguous else value


def takes_anything(schema: Schema, root: Wire) -> bool:
    """Whether a parameter is declared without saying what it takes."""
    branches = list(_branches(schema, root))
    return schema is not None and not any(kinds_of(branch) or _members(branch) for branch in branches)


class Place(Struct, frozen=True):
    """Where in a schema a value stands: the alternatives it may follow, and how deep they lie."""

    branches: list[Wire]
    root: Wire
    depth: int

    @property
    def takes_text(self) -> bool:
        return any("string" in kinds_of(branch) for branch in self.branches)

    def read(self, text: str, schema: Schema) -> Any:
        return read_value(text, schema, self.root, depth=self.depth + 1)


def strip_frame(text: str) -> str:
    """`text` without one newline at either end."""
    newline = "\r\n" if text.startswith("\r\n") else "\n"
    return text.removeprefix(newline).removesuffix(newline)


def kinds_of(schema: Wire) -> tuple[str, ...]:
    """The JSON types that a schema without branches allows; none where it does not say."""
    declared = schema.get("type")
    names = cast(list[Any], declared) if isinstance(declared, list) else [declared]
    kinds = [_ALIASES.get(name.lower(), name.lower()) for name in names if isinstance(name, str)]
    if not kinds and isinstance(schema.get("properties"), dict):
        kinds = ["object"]
    elif not kinds and "items" in schema:
        kinds = ["array"]
    if schema.get("nullable") is True:
        kinds.append("null")
    return tuple(kinds)


def property_of(schema: Schema, name: str, root: Wire) -> Schema:
    """The schema of a property, or None where it is not declared."""
    for branch in _branches(schema, root):
        properties = branch.get("properties")
        if isinstance(properties, dict) and name in properties:
            return cast(Wire, properties)[name]
    for branch in _branches(schema, root):
        if isinstance(extra := branch.get("additionalProperties"), dict):
            return cast(Wire, extra)
    return None


def _branches(schema: Schema, root: Wire, depth: int = 0) -> Iterator[Wire]:
    """Every alternative that a value of this schema may follow."""
    found = resolved(schema, root)
    if not found or depth > _DEEPEST:
        return
    yield found
    for word in ("anyOf", "oneOf", "allOf"):
        options = found.get(word)
        for option in cast(list[Any], options) if isinstance(options, list) else ():
            yield from _branches(option, root, depth + 1)


def _members(schema: Wire) -> list[Any]:
    """What an enum or a const allows, strings first."""
    listed = schema.get("enum")
    members = list(cast(list[Any], listed)) if isinstance(listed, list) else []
    if "const" in schema:
        members.append(schema["const"])
    return sorted(members, key=lambda member: not isinstance(member, str))


def _read_null(text: str, place: Place) -> Any:
    return None if text == "null" or (text == "None" and not place.takes_text) else _NOT_THIS


def _read_boolean(text: str, place: Place) -> Any:
    return {"true": True, "false": False}.get(text.lower(), _NOT_THIS)


def _read_integer(text: str, place: Place) -> Any:
    if _INTEGER.fullmatch(text):
        return jsontext.decode(text)
    value = _read_number(text, place)
    return value if isinstance(value, float) and value.is_integer() else _NOT_THIS


def _read_number(text: str, place: Place) -> Any:
    return jsontext.decode(text) if _NUMBER.fullmatch(text) else _NOT_THIS


def _read_array(text: str, place: Place) -> Any:
    if not text and not place.takes_text:  # an element without items
        return []
    if isinstance(value := _decode(text), list):
        return cast(list[Any], value)
    found = children(text) if place.depth < _DEEPEST else None
    if not found or any(name != "item" for name, _ in found):
        return _NOT_THIS
    items = next((branch["items"] for branch in place.branches if "items" in branch), None)
    return [place.read(inner, items) for _, inner in found]


def _read_object(text: str, place: Place) -> Any:
    if not text and not place.takes_text:
        return {}
    if isinstance(value := _decode(text), dict):
        return cast(Wire, value)
    found = children(text) if place.depth < _DEEPEST else None
    if not found or len(dict(found)) < len(found):
        return _NOT_THIS
    whole: Wire = {"anyOf": place.branches}
    return {name: place.read(inner, property_of(whole, name, place.root)) for name, inner in found}


_READERS = {
    "null": _read_null,
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "array": _read_array,
    "object": _read_object,
}


def _decode(text: str) -> Any:
    """An array or object as JSON, or as Python prints it."""
    if text[:1] not in ("{", "[", "("):
        return _NOT_THIS
    for read in (jsontext.decode, read_literal, _decode_twice):
        try:
            return read(text)
        except (ValueError, Broken):
            continue
    return _NOT_THIS


def _decode_twice(text: str) -> Any:
    """JSON whose quotes were escaped once too often: [{\\"id\\": 1}]."""
    return jsontext.decode(jsontext.decode(f'"{text}"'))


_TAG = re.compile(r"\s*<([^\s<>/]+)>")


def children(text: str) -> list[tuple[str, str]] | None:
    """`<a>…</a> <b>…</b>` as pairs; None where anything else stands between them."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while found := _TAG.match(text, at):
        end = _closing(text, found[1], found.end())
        if end < 0:
            return None
        pairs.append((found[1], text[found.end() : end]))
        at = end + len(found[1]) + 3
    return None if text[at:].strip() else pairs


def _closing(text: str, name: str, at: int) -> int:
    """Where the tag that was opened before `at` closes; the same tag may stand inside it."""
    depth = 1
    for found in re.compile(f"<(/?){re.escape(name)}>").finditer(text, at):
        depth += -1 if found[1] else 1
        if depth == 0:
            return found.start()
    return -1
