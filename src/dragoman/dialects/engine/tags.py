"""Calls as tags with parameters in tags: `<function=NAME> <parameter=KEY>value</parameter> </function>`.

No such dialect escapes anything, so a value may hold the very tag that ends it. The end is the first
closing tag after which the call goes on as it should: another parameter, or the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.grammar import Sink
from dragoman.dialects.engine.source import LONGEST_NAME, Broken, Reader, Source

_HEAD = re.compile(r"[^<>\n]*")
Head = Callable[[Source], Reader[tuple[str, str]]]


class Form(Struct, frozen=True):
    """How the parameters of a call are written, and what ends the call.

    `head` reads what follows `opens` up to the value: (what it read, the name or nothing). In `closes`
    {} stands for the name. `framed`: one newline on each side of a value is not part of it. `lost`: what
    in a value shows that its closing tag was forgotten; its group, if any, names a parameter. `typed` says
    of a head whether its value is JSON, text, or (None) what the schema says.
    """

    opens: str
    head: Head
    closes: str
    ends: tuple[str, ...]
    framed: bool = True
    gap: re.Pattern[str] = re.compile(r"\s*")  # what may stand between tags
    lost: re.Pattern[str] | None = None
    typed: Callable[[str], bool | None] | None = None


class Strictness(Struct, frozen=True):
    """`known`: only declared parameters begin with a tag, any other tag is part of a value.

    `loose`: a value without its closing tag ends where the next parameter or the end of the call stands.
    `distinct`: a parameter that is given twice makes the call no call.
    """

    known: bool = False
    loose: bool = False
    distinct: bool = False


LENIENT = Strictness()
PLAIN = re.compile(r"([^\s/=\"'](?:[^=\"']*[^\s/=\"'])?)")
EQUALS = re.compile(r"\s*=\s*[\"']?(.+?)[\"']?\s*")
ATTRIBUTE = re.compile(r"""\s+name\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s"'=/]+))(?:\s[^<>]*)?/?""")


def head(pattern: re.Pattern[str]) -> Head:
    """The rest of a tag, up to and with its `>`; the name is the group of `pattern` that matched."""

    def read(source: Source) -> Reader[tuple[str, str]]:
        text = yield from source.run(_HEAD, 0)
        closed = yield from source.skip(">")
        found = pattern.fullmatch(text) if closed and len(text) <= LONGEST_NAME + 16 else None
        return text + closed, found[found.lastindex or 0] if found else ""

    return read


def read_parameters(
    source: Source, tool: str, form: Form, declared: Declared, sink: Sink, strictness: Strictness = LENIENT
) -> Reader[str]:
    """The parameters and the end of the call, consumed: its arguments as JSON text."""
    values: dict[str, Any] = {}
    known = declared.parameters(tool) if strictness.known else None
    yield from source.run(form.gap, 0)
    ended, read, name = yield from _following(source, form, known)
    if not ended and not name:
        raise Broken(f"expected {form.opens} or {form.ends[0]}")
    source.named = f"a call of {tool}"
    while name:
        if name in values:
            if strictness.distinct:
                raise Broken(f"{name} is given twice")
            sink.changed(f"a call of {tool} gives {name} twice; the last counts")
        text, after, following = yield from _value(source, name, form, known, strictness)
        if form.lost and not strictness.loose and _lost(text, form.lost, {*values, name}, declared, tool):
            raise Broken(f"{form.closes.replace('{}', name)} is missing")
        json = form.typed(read) if form.typed else None
        values[name] = declared.read(tool, name, text, framed=form.framed, json=json)
        read, name = after, following
    return jsontext.dumps(values)


def _value(
    source: Source, name: str, form: Form, known: Wire | None, strictness: Strictness
) -> Reader[tuple[str, str, str]]:
    """The text of a value; the head and the name of the parameter that follows it."""
    closes = form.closes.replace("{}", name)
    stops = (closes, form.opens, *form.ends) if strictness.loose else (closes,)
    parts: list[str] = []
    while True:
        text, stop = yield from source.until_any(*stops)
        parts.append(text)
        gap = ""
        if stop == closes:
            gap = yield from source.run(form.gap, 0)
        else:
            source.at -= len(stop)
        ended, read, following = yield from _following(source, form, known)
        if ended or following:
            return "".join(parts), read, following
        parts += (closes, gap, read) if stop == closes else (read,)


def _following(source: Source, form: Form, known: Wire | None) -> Reader[tuple[bool, str, str]]:
    """Whether the call ends here; else what was read, and the name of a parameter where it was one."""
    if (yield from source.skip(*form.ends)):
        return True, "", ""
    if (yield from source.next("</")) or not (yield from source.skip(form.opens)):
        return False, "", ""
    text, name = yield from form.head(source)
    if known is not None and name not in known:
        name = ""
    return False, form.opens + text, name


def _lost(text: str, pattern: re.Pattern[str], given: set[str], declared: Declared, tool: str) -> bool:
    known = declared.parameters(tool)
    return any(
        found.lastindex is None or (found[found.lastindex] in known and found[found.lastindex] not in given)
        for found in pattern.finditer(text)
    )
