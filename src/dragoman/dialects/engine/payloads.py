"""Calls as JSON, `{"name": …, "arguments": {…}}`, and as Python writes them, `get_weather(city="Paris")`.

A payload is read while it arrives; it is parsed when it is whole. Nothing is ever evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with
from dragoman.dialects.engine.literals import Cursor, read_literal
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

NamedCall = tuple[str, str, str]  # name, arguments, id
_NAME = re.compile(r"[\w.\-]*")
_KEY = re.compile(r"[^\W\d][\w.\-]*")


class Notation:
    """What may stand between brackets, as one run: `plain` characters and whole strings in these `quotes`."""

    def __init__(self, plain: str, quotes: str) -> None:
        strings = [_STRING_IN.format(quote) for quote in quotes]
        self.between = re.compile(f"(?:{'|'.join([f'[{plain}]++', *strings])})*", re.DOTALL)
        self.quotes = quotes


# Groups are not possessive: Python 3.11.0 to 3.11.4 match such groups wrongly
_STRING_IN = r"{0}[^{0}\\]*+(?:\\.[^{0}\\]*+)*{0}"
_STRING = re.compile(_STRING_IN.format('"'), re.DOTALL)
JSON = Notation(r"\s\d:,.+\-eEtrufalsn", '"')
PYTHON = Notation(r"\s\w:,.+\-=", "\"'")  # JSON too: a superset
_INSIDE = {quote: re.compile(rf"[^{quote}\\]*") for quote in PYTHON.quotes}
_DEPTH = dict.fromkeys("{[(", 1) | dict.fromkeys("}])", -1)
_CONTROL = re.compile(r"[\x00-\x1f]")


def read_bracketed(source: Source, notation: Notation = JSON, begun: str = "") -> Reader[str]:
    """One value in brackets, as it is written. Brackets inside strings do not count.

    `begun`: its opening bracket and what else of it was read already.
    """
    if not begun:
        begun = yield from source.expect("{", "[")
    parts = [begun]
    depth, quote, escaped = sum(map(begun.count, "{[(")), "", False
    source.named = source.named or "A call"
    while True:
        window, start = source.window, source.at
        at = start
        while at < len(window):
            if escaped:
                at, escaped = at + 1, False
                continue
            pattern = _INSIDE[quote] if quote else notation.between
            found = pattern.match(window, at)
            at = found.end() if found else at
            if at == len(window):
                break
            char = window[at]
            at += 1
            if quote:
                escaped = char != quote  # else a backslash
                quote = quote if escaped else ""
            elif char in notation.quotes:
                quote = char
            elif char in _DEPTH:
                depth += _DEPTH[char]
                if depth == 0:
                    source.at = at
                    parts.append(window[start:at])
                    return "".join(parts)
            else:
                source.at = at - 1
                raise Broken(f"{char!r} where a value should stand")
        parts.append(window[start:])
        source.at = len(window)
        if not (yield from source.more()):
            raise Broken("the reply ends inside it")


def decode_value(text: str, notation: Notation = JSON) -> Any:
    """The value that `text` spells. Raw line breaks inside strings are read as they stand."""
    try:
        return jsontext.decode(text)
    except ValueError as error:
        if notation is not JSON:
            return read_literal(text)
        try:
            return jsontext.decode(_STRING.sub(lambda string: _CONTROL.sub(_escape, string[0]), text))
        except ValueError:
            raise Broken(str(error)) from None


def _escape(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"


def read_named_calls(value: Any, *, bare: bool = False) -> list[NamedCall]:
    """The object or each object in the array. `bare`: no marker says that it is a call, so it must."""
    values = cast(list[Any], value) if isinstance(value, list) else [value]
    if not values:
        raise Broken("no call in it")
    return [_read_named_call(each, bare) for each in values]


def _read_named_call(value: Any, bare: bool) -> NamedCall:
    call = cast(Wire, value) if isinstance(value, dict) else {}
    if isinstance(inner := call.get("function"), dict):
        call = {**call, **cast(Wire, inner)}
    name, id = call.get("name"), call.get("id", "")
    if not isinstance(name, str) or not name:
        raise Broken("it has no name")
    keys = [key for key in ("arguments", "parameters") if key in call]
    if bare and not keys:
        raise Broken("it has no arguments")
    return name, object_text(call[keys[0]] if keys else None), id if isinstance(id, str) else ""


def object_text(value: Any) -> str:
    """Arguments as compact JSON; models also write none at all, or an object inside a string."""
    if isinstance(value, str):
        value = jsontext.decode_object(value) if value.strip() else {}
        if value is None:
            raise Broken("its arguments are no object")
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise Broken("its arguments are no object")
    return jsontext.dumps(value)


def make_tagged(opens: str, closes: str, notation: Notation = JSON) -> CallGrammar:
    """`<tool_call> {"name": …, "arguments": {…}} </tool_call>`: the end marker may be missing."""

    def read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
        value = _json_between(source, opens, closes)
        if value is not None:
            put(read_named_calls(value), sink)
            source.at = source.window.index(closes, source.at) + len(closes)
            return
        yield from source.expect(opens)
        yield from source.space()
        text = yield from read_bracketed(source, notation)
        put(read_named_calls(decode_value(text, notation)), sink)
        if not (yield from source.close(closes)):
            source.reset()

    return CallGrammar(opens_with(opens), read)


def _json_between(source: Source, opens: str, closes: str) -> Any:
    """The value between the markers, consumed up to its end, where it is JSON and has arrived with both; None
    otherwise. It is the value that `bracketed` and `decoded` would read."""
    found = source.between(opens, closes)
    if found is None:
        return None
    start, end = found
    text = source.window[start:end]
    try:
        value = jsontext.decode(text)
    except ValueError:
        return None
    if not isinstance(value, dict | list):
        return None
    source.at = start + len(text.rstrip())
    source.named = source.named or "A call"
    return cast(Wire | list[Any], value)


def read_block(source: Source, call: str, read_call: Callable[[], Reader[None]], closes: str) -> Reader[None]:
    """Calls that begin with `call`, at least one, and what closes their block, which may be missing."""
    called = False
    yield from source.space()
    while (yield from source.skip(call)):
        yield from read_call()
        called = True
        yield from source.space()
    if not called:
        raise Broken("a block without calls")
    if not (yield from source.close(closes)):
        source.reset()


def end_fence(source: Source) -> Reader[None]:
    """The end of a code block and of the reply: any other code block quotes the call."""
    yield from source.space()
    yield from source.expect("```")
    yield from source.space()
    if not (yield from source.is_exhausted()):
        raise Broken("a code block with text after it")


def put(calls: list[NamedCall], sink: Sink) -> None:
    for name, arguments, id in calls:
        sink.call(name, arguments, id)


def read_callable(source: Source, known: DeclaredTools | None = None) -> Reader[NamedCall]:
    """One call, consumed. Only keyword arguments have names, so only they count. `known`: of these tools."""
    name = yield from source.run(_NAME)
    if not name or (known is not None and name not in known):
        raise Broken("no call of a tool")
    yield from source.expect("(")
    text = yield from read_bracketed(source, PYTHON, begun="(")
    return name, jsontext.dumps(_arguments(Cursor(text))), ""


def _arguments(cursor: Cursor) -> Wire:
    arguments: Wire = {}
    cursor.expect("(")
    while not cursor.skip(")"):
        if cursor.skip("**"):
            more = cursor.value()
            if not isinstance(more, dict):
                raise Broken("** before something else than a dict")
            arguments.update(cast(Wire, more))
        else:
            key = cursor.word()
            cursor.expect("=")
            arguments[key] = cursor.value()
        if not cursor.skip(","):
            cursor.expect(")")
            break
    cursor.finish()
    return arguments


def write_callable(name: str, arguments: Wire) -> str:
    """A key that Python would not take as a keyword goes into `**{…}`."""
    given = [
        f"{key}={python_literal(value)}" if _KEY.fullmatch(key) else f"**{python_literal({key: value})}"
        for key, value in arguments.items()
    ]
    return f"{name}({', '.join(given)})"


def python_literal(value: Any) -> str:
    """A value as Python writes it; strings as JSON does, which Python reads too."""
    match value:
        case bool() | None:
            return str(value)
        case list():
            return f"[{', '.join(python_literal(item) for item in cast(list[Any], value))}]"
        case dict():
            pairs = cast(Wire, value).items()
            return (
                "{" + ", ".join(f"{jsontext.dumps(key)}: {python_literal(item)}" for key, item in pairs) + "}"
            )
        case _:
            return jsontext.dumps(value)
