"""harmony: messages on channels (gpt-oss). A call is a message to a function on the commentary channel.

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather
    <|constrain|>json<|message|>{"city":"Paris"}<|call|>

(in one line). What stands on the analysis channel is reasoning; commentary to nobody and the final
channel are text, and so is text without a channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.fields import word_set
from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration, Wire
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, Think, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult
from dragoman.dialects.engine.payloads import decode_value, object_text, read_bracketed
from dragoman.dialects.engine.source import Broken, Reader, Source, any_of, overlap
from dragoman.dialects.engine.values import DeclaredTools, Schema, kinds_of
from dragoman.schemas.walk import SPOKEN, resolved, words

_KINDS = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_DEEPEST = 8
_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_STOPS = (*_ENDS, _START, _CHANNEL)
_WORDS = re.compile(r"[^<>\n]*")
_TO = re.compile(r"\bto=(?:functions\.)?(\S+)")
_DECLARED = """\
# Valid channels: analysis, commentary, final. Channel must be included for every message.
Calls to these tools must go to the commentary channel: 'functions'. Write a call as
<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{{"key": "value"}}<|call|>

# Tools

## functions

namespace functions {{

{tools}

}} // namespace functions"""


class Harmony(Dialect, frozen=True, kw_only=True):
    think: Think | None = None
    gap: str = ""

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        opening = opens_with(_START, _CHANNEL)
        return (CallGrammar(opening, _read_call), CallGrammar(opening, _read_message, leaks=False))

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n\n".join(declare_function(tool) for tool in tools))

    def describe_keywords(self, tool: ToolDeclaration) -> list[str]:
        root = tool.parameters or {}
        found = [*(keyword for keyword, _ in _notes(root, root)), *_find_keywords(root, root)]
        return [keyword for keyword in found if keyword]

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return f"{_START}assistant".join(_call(call) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(
            f"{_START}functions.{result.call.name} to=assistant{_CHANNEL}commentary"
            f"{_MESSAGE}{result.text}<|end|>"
            for result in results
        )

    def write_reasoning(self, text: str) -> str:
        return f"{_CHANNEL}analysis{_MESSAGE}{text}<|end|>"


def _call(call: EarlierCall) -> str:
    head = f"{_CHANNEL}commentary to=functions.{call.name} {_CONSTRAIN}json"
    return f"{head}{_MESSAGE}{spaced(call.arguments)}<|call|>"


def _read_call(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    head = yield from _head(source)
    to = _TO.search(head)
    if not to:
        raise Broken("no call")
    source.named = f"A call of {to[1]}"
    yield from source.space()
    if (yield from source.next(*_ENDS)):
        sink.call(to[1], "{}")
    else:
        sink.call(to[1], object_text(decode_value((yield from read_bracketed(source)))))
    yield from source.space()
    if not (yield from source.skip(*_ENDS)):
        source.reset()


def _read_message(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    head = yield from _head(source)
    if _TO.search(head):
        raise Broken("a call")
    yield from _body(source, sink.reasoning if head.split()[:1] == ["analysis"] else sink.text)


def _head(source: Source) -> Reader[str]:
    """Channel and recipient, up to and with `<|message|>`."""
    role = ""
    if (yield from source.skip(_START)):
        role = yield from source.run(_WORDS)
    channel = (yield from source.run(_WORDS)) if (yield from source.skip(_CHANNEL)) else ""
    if (yield from source.skip(_CONSTRAIN)):
        yield from source.run(_WORDS)
    yield from source.expect(_MESSAGE)
    return f"{channel} {role}"


def _body(source: Source, say: Callable[[str], None]) -> Reader[None]:
    """The text of a message, as it comes, up to its end."""
    while True:
        found = any_of(_STOPS).search(source.window, source.at)
        safe = len(source.window) - max(overlap(source.window, source.at, stop) for stop in _STOPS)
        start, source.at = source.at, found.start() if found else safe
        if source.at > start:
            say(source.window[start : source.at])
        if found:
            source.at = found.end() if found[0] in _ENDS else found.start()
            return
        if not (yield from source.more()):
            if source.at < len(source.window):
                rest, source.at = source.window[source.at :], len(source.window)
                say(rest)
            return


# Functions and JSON Schemas as TypeScript, the way gpt-oss is shown its tools


def declare_function(tool: ToolDeclaration) -> str:
    root = tool.parameters or {}
    notes = [note for _, note in _notes(root, root)]
    comment = "".join(f"// {line}\n" for line in [*tool.description.splitlines(), *notes])
    taken = f"_: {_object(root, root, 0)}" if root.get("properties") else ""
    return f"{comment}type {tool.name} = ({taken}) => any;"


def _type(schema: Schema, root: Wire, depth: int) -> str:
    found = resolved(schema, root)
    if depth > _DEEPEST:
        return "any"
    if values := found.get("enum") or ([found["const"]] if "const" in found else None):
        return " | ".join(jsontext.dumps(value) for value in cast(list[Any], values))
    if options := found.get("anyOf") or found.get("oneOf"):
        return " | ".join(
            dict.fromkeys(_type(option, root, depth + 1) for option in cast(list[Any], options))
        )
    kinds = [_kind(kind, found, root, depth) for kind in kinds_of(found)]
    return " | ".join(dict.fromkeys(kinds)) or "any"


def _kind(kind: str, schema: Wire, root: Wire, depth: int) -> str:
    if kind == "array":
        inner = _type(schema.get("items"), root, depth + 1)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        return _object(schema, root, depth) if schema.get("properties") else "object"
    return _KINDS.get(kind, "any")


def _object(schema: Wire, root: Wire, depth: int) -> str:
    return "{\n" + "".join(_fields(schema, root, depth)) + "}"


def _fields(schema: Wire, root: Wire, depth: int) -> Iterator[str]:
    required = cast(list[str], schema.get("required") or [])
    for name, inner in cast(Wire, schema.get("properties") or {}).items():
        found = resolved(inner, root)
        yield from (f"// {line}\n" for line in str(found.get("description") or "").splitlines())
        yield from (f"// {note}\n" for _, note in _notes(found, root, depth + 1))
        default = f" // default: {jsontext.dumps(found['default'])}" if "default" in found else ""
        yield f"{name}{'' if name in required else '?'}: {_type(inner, root, depth + 1)},{default}\n"


# What a type does not show, in words


def _notes(schema: Schema, root: Wire, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Keywords and notes of a value and of what it is made of, up to the properties of objects."""
    found = resolved(schema, root)
    for keyword, value in found.items():
        says = not isinstance(value, bool | None) or (value is True and keyword in _SWITCHES)
        if keyword in _UNSHOWN and says:
            yield keyword, words(keyword, value)
    for label, inner in _inside(found) if depth < _DEEPEST else ():
        if about := resolved(inner, root).get("description"):
            yield "", f"{label}{' '.join(str(about).split())}"
        yield from ((keyword, f"{label}{note}") for keyword, note in _notes(inner, root, depth + 1))


def _find_keywords(schema: Schema, root: Wire, depth: int = 0) -> Iterator[str]:
    """The keywords of all notes at properties."""
    found = resolved(schema, root)
    for inner in cast(Wire, found.get("properties") or {}).values() if depth < _DEEPEST else ():
        yield from (keyword for keyword, _ in _notes(inner, root, depth + 1))
        yield from _find_keywords(inner, root, depth + 1)
    for _, inner in _inside(found) if depth < _DEEPEST else ():
        yield from _find_keywords(inner, root, depth + 1)


def _inside(found: Wire) -> Iterator[tuple[str, Schema]]:
    """The items of an array, and the options of a union."""
    if "items" in found:
        yield "items: ", found["items"]
    for option in cast(list[Any], found.get("anyOf") or found.get("oneOf") or ()):
        yield "", option


_SWITCHES = frozenset({"uniqueItems", "deprecated"})
_UNSHOWN = {*SPOKEN, "prefixItems"} - word_set("enum const anyOf oneOf required default")
DIALECT = Harmony(name="harmony")
