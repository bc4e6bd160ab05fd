"""Calls as Python writes them: `get_weather(city="Paris", days=2)`. Nothing is ever evaluated."""

from __future__ import annotations

import re
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.literals import Cursor
from dragoman.dialects.engine.payloads import PYTHON, bracketed
from dragoman.dialects.engine.source import Broken, Reader, Source

_NAME = re.compile(r"[\w.\-]*")
_KEY = re.compile(r"[^\W\d][\w.\-]*")
Written = tuple[str, str]  # name, arguments


def read_callable(source: Source, known: Declared | None = None) -> Reader[Written]:
    """One call, consumed. Only keyword arguments have names, so only they count. `known`: of these tools."""
    name = yield from source.run(_NAME)
    if not name or (known is not None and name not in known):
        raise Broken("no call of a tool")
    yield from source.expect("(")
    text = yield from bracketed(source, PYTHON, begun="(")
    return name, jsontext.dumps(_arguments(Cursor(text)))


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
        f"{key}={literal(value)}" if _KEY.fullmatch(key) else f"**{literal({key: value})}"
        for key, value in arguments.items()
    ]
    return f"{name}({', '.join(given)})"


def literal(value: Any) -> str:
    """A value as Python writes it; strings as JSON does, which Python reads too."""
    match value:
        case True:
            return "True"
        case False:
            return "False"
        case None:
            return "None"
        case list():
            return f"[{', '.join(literal(item) for item in cast(list[Any], value))}]"
        case dict():
            pairs = cast(Wire, value).items()
            return "{" + ", ".join(f"{jsontext.dumps(key)}: {literal(item)}" for key, item in pairs) + "}"
        case _:
            return jsontext.dumps(value)
