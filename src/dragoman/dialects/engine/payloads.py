"""Calls as JSON: an object or an array of them between markers, read while it arrives."""

from __future__ import annotations

import re
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.grammar import Grammar, Sink, literal
from dragoman.dialects.engine.literals import read_literal
from dragoman.dialects.engine.source import Broken, Reader, Source

Named = tuple[str, str, str]  # name, arguments, id


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
_CONTROL = re.compile(r"[\x00-\x1f]")


def bracketed(source: Source, notation: Notation = JSON, begun: str = "") -> Reader[str]:
    """One value in brackets, as it is written. Brackets inside strings do not count.

    `begun`: its opening bracket and what else of it was read already.
    """
    if not begun:
        begun = yield from source.expect("{", "[")
    parts = [begun]
    depth, quote, escaped = sum(begun.count(bracket) for bracket in "{[("), "", False
    source.named = source.named or "a call"
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
                if char == quote:
                    quote = ""
                else:
                    escaped = True
            elif char in notation.quotes:
                quote = char
            elif char in "{[(":
                depth += 1
            elif char in "}])":
                depth -= 1
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


def decoded(text: str, notation: Notation = JSON) -> Any:
    """The value that `text` spells. Raw line breaks inside strings are read as they stand."""
    try:
        return jsontext.decode(text)
    except ValueError as error:
        if notation is not JSON:
            return read_literal(text)
        try:
            return jsontext.decode(_STRING.sub(_escaped, text))
        except ValueError:
            raise Broken(str(error)) from None


def _escaped(found: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", found[0])


def named_calls(value: Any, *, bare: bool = False) -> list[Named]:
    """The object or each object in the array. `bare`: no marker says that it is a call, so it must."""
    values = cast(list[Any], value) if isinstance(value, list) else [value]
    if not values:
        raise Broken("no call in it")
    return [_named_call(each, bare) for each in values]


def _named_call(value: Any, bare: bool) -> Named:
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


def tagged(opens: str, closes: str, notation: Notation = JSON) -> Grammar:
    """`<tool_call> {"name": …, "arguments": {…}} </tool_call>`: the end marker may be missing."""

    def read(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
        yield from source.expect(opens)
        yield from source.space()
        text = yield from bracketed(source, notation)
        put(named_calls(decoded(text, notation)), sink)
        if not (yield from source.close(closes)):
            source.reset()

    return Grammar(literal(opens), read)


def put(calls: list[Named], sink: Sink) -> None:
    for name, arguments, id in calls:
        sink.call(name, arguments, id)
