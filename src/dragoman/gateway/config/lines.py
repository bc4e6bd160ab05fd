"""On which line of a TOML file a key stands; the parser of the standard library does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\s*({_KEYS})\s*\]")
_ENTRY = re.compile(rf"\s*({_KEYS})\s*=")


def line_of(text: str, where: Path) -> int:
    """The line of `where`, or of the innermost table around it that has one; 0 where nothing of it stands."""
    lines = dict[Path, int]()
    for path, number in _keys(text):
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], number)
    return next((lines[where[:length]] for length in range(len(where), 0, -1) if where[:length] in lines), 0)


def _keys(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEADER.match(line):
            table = _path(found[1])
            yield table, number
        elif found := _ENTRY.match(line):
            yield (*table, *_path(found[1])), number


def _path(keys: str) -> Path:
    """Quotes and escapes are left to the parser: `a."b.c"` is ("a", "b.c")."""
    value: Any = tomllib.loads(f"{keys} = 0")
    path: list[str] = []
    while isinstance(value, dict):
        ((key, value),) = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - TOML
        path.append(str(key))  # pyright: ignore[reportUnknownArgumentType] - TOML
    return tuple(path)
