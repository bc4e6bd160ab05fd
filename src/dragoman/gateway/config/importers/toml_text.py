"""A configuration as TOML text; the standard library only reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(sections: Mapping[str, Any]) -> str:
    """`sections` maps the name of a table to its keys; tables of tables (`providers`) are written apart."""
    written: list[str] = []
    for name, section in sections.items():
        if not section:
            continue
        if name in ("providers", "keys"):
            written += [_section(f"{name}.{_key(inner)}", table) for inner, table in section.items()]
        else:
            written.append(_section(name, section))
    return "\n".join(written)


def _section(name: str, table: Mapping[str, Any]) -> str:
    rows = [f"{_key(key)} = {_value(value)}\n" for key, value in table.items()]
    return f"[{name}]\n" + "".join(rows)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return jsontext.dumps(value).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case _ if is_array(value):
            return "[" + ", ".join(map(_value, value)) + "]"
        case _ if is_object(value):
            return (
                "{ " + ", ".join(f"{_key(str(key))} = {_value(each)}" for key, each in value.items()) + " }"
            )
        case _:
            return _value(str(value))
