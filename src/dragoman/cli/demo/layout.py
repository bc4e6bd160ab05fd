"""JSON and streams in few lines: as wide as the page, broken only where they must be.

What is left out is marked: `…` ends a text that was cut.
"""

from __future__ import annotations

from typing import Any, cast

from dragoman.core import jsontext

INDENT = "  "
ROOM = 20  # columns that make it worth while to begin a value behind its brackets
LONGEST = 2  # lines that one frame of a stream may take


class Note(str):
    """A remark that stands among values, without quotes."""


def lay_out(value: Any, width: int, lead: str = "", tail: str = "") -> list[str]:
    """`value` as JSON between `lead` and `tail`, no line longer than `width`."""
    flat = f"{lead}{_flat(value)}{tail}"
    if len(flat) <= width:
        return [flat]
    match value:
        case dict():
            items = [(f"{_flat(key)}: ", item) for key, item in cast("dict[str, Any]", value).items()]
            return _lay_out_items(f"{lead}{{", items, f"}}{tail}", width)
        case list():
            items = [("", item) for item in cast("list[Any]", value)]
            return _lay_out_items(f"{lead}[", items, f"]{tail}", width)
        case _:
            return [f'{flat[: width - len(tail) - 2]}…"{tail}']


def lay_out_stream(data: bytes, width: int) -> list[str]:
    """The data of each frame, cut to a few lines; event names, which the data repeats, are left out."""
    lines = data.decode("utf-8", "replace").split("\n")
    return [piece for line in lines if line.startswith("data:") for piece in _cut(line, width)]


def _lay_out_items(lead: str, items: list[tuple[str, Any]], tail: str, width: int) -> list[str]:
    """The first item stands behind its bracket; short items share a row, long ones have their own."""
    label, first = items[0]
    behind = len(lead + label) + _needed(first, width - len(INDENT + label + tail)) <= width
    if len(items) == 1 and behind:
        return lay_out(first, width, lead + label, tail)
    rows, shared = [] if behind else [lead], False
    for position, (label, item) in enumerate(items, 1):
        start, end = "" if rows else lead, "," if position < len(items) else tail
        lines = lay_out(item, width - len(INDENT), start + label, end)
        whole = len(lines) == 1
        if whole and shared and len(rows[-1]) + 1 + len(lines[0]) <= width - len(INDENT):
            rows[-1] += f" {lines[0]}"
        else:
            rows += lines
        shared = whole
    return [rows[0], *(INDENT + row for row in rows[1:])]


def _needed(value: Any, alone: int) -> int:
    """Columns that `value` needs behind its brackets; one that fits `alone` on its row is not cut there."""
    length = len(_flat(value)) + 1
    return min(length, ROOM) if isinstance(value, dict | list) or length > alone else length


def _flat(value: Any) -> str:
    match value:
        case Note():
            return str(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "{" + ", ".join(f"{_flat(key)}: {_flat(item)}" for key, item in items) + "}"
        case list():
            return "[" + ", ".join(_flat(item) for item in cast("list[Any]", value)) + "]"
        case _:
            return jsontext.dumps(value)


def _cut(line: str, width: int) -> list[str]:
    pieces = [line[start : start + width] for start in range(0, len(line), width)]
    if len(pieces) <= LONGEST:
        return pieces
    return [*pieces[: LONGEST - 1], f"{pieces[LONGEST - 1][: width - 1]}…"]
