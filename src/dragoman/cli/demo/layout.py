"""JSON and streams in few lines: as wide as the page, broken only where they must be.

What is left out is marked: `…` ends a text that was cut.
"""

from __future__ import annotations

from typing import Any, cast

from dragoman.core import jsontext

INDENT = "  "
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
    """The data of each frame, cut to a few lines; event names, which the data repeats, are left out.

    So are fields that are as in the first frame.
    """
    lines = data.decode("utf-8", "replace").split("\n")
    frames = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    first = jsontext.decode_object(frames[0]) if frames else None
    later = [_without(frame, first or {}) for frame in frames[1:]]
    return [piece for frame in (*frames[:1], *later) for piece in _cut(f"data: {frame}", width)]


def _without(frame: str, first: dict[str, Any]) -> str:
    fields = jsontext.decode_object(frame)
    new = {key: value for key, value in (fields or {}).items() if key not in first or first[key] != value}
    if fields is None or len(new) == len(fields):
        return frame
    return f"{{…,{jsontext.dumps(new)[1:]}"


def _lay_out_items(lead: str, items: list[tuple[str, Any]], tail: str, width: int) -> list[str]:
    """The first item stands behind its bracket; short items share a row, long ones have their own."""
    label, first = items[0]
    inside = width - len(INDENT)
    if len(items) == 1 and _fits_behind(lead + label, first, tail, width, inside - len(label)):
        return lay_out(first, width, lead + label, tail)
    behind = len(items) > 1 and _fits_behind(lead + label, first, ",", inside, inside - len(label))
    rows, shared = [] if behind else [lead], False
    for position, (label, item) in enumerate(items, 1):
        start, end = "" if rows else lead, "," if position < len(items) else tail
        lines = lay_out(item, inside, start + label, end)
        whole = len(lines) == 1
        if whole and shared and len(rows[-1]) + 1 + len(lines[0]) <= inside:
            rows[-1] += f" {lines[0]}"
        else:
            rows += lines
        shared = whole
    return [rows[0], *(INDENT + row for row in rows[1:])]


def _fits_behind(lead: str, value: Any, tail: str, width: int, alone: int) -> bool:
    """A long value needs half the page behind its brackets; one that fits `alone` on a row is not cut."""
    length = len(_flat(value)) + len(tail)
    if isinstance(value, dict | list) or length > alone:
        length = min(length, alone // 2)
    return len(lead) + length <= width


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
