"""Numbers and texts that a schema allows, the most sensible first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Any

from dragoman.core.model import Wire
from dragoman.demo.patterns import matching
from dragoman.demo.wishes import PATH, PLACE

_FORMATS = {
    "date": "2026-11-15",
    "date-time": "2026-11-15T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
    "byte": "ZGVtbw==",
}


def numbers(schema: Wire, whole: bool) -> Iterator[int | float]:
    step = _number(schema.get("multipleOf")) or 1
    lowest = _bound(schema, "minimum", "exclusiveMinimum", step)
    highest = _bound(schema, "maximum", "exclusiveMaximum", -step)
    wanted = [
        _number(schema.get("default")),
        1 if lowest is None or lowest <= 1 else lowest,
        lowest,
        highest,
        0,
        -1,
    ]
    for number in wanted:
        if number is not None:
            aligned = ceil(number / step) * step
            yield int(aligned) if whole else aligned
            yield number
    if lowest is not None and highest is not None:
        yield (lowest + highest) / 2


def _bound(schema: Wire, plain: str, exclusive: str, step: int | float) -> int | float | None:
    """The bound itself may be excluded, by a number of its own or (until draft 4) by a flag."""
    value, limit = _number(schema.get(plain)), _number(schema.get(exclusive))
    if limit is not None:
        return limit + step
    return value + step if value is not None and schema.get(exclusive) is True else value


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def texts(name: str, schema: Wire, wish: str) -> Iterator[str]:
    shortest, longest = int(schema.get("minLength") or 0), schema.get("maxLength")
    said = _said(name, wish)
    for text in (_FORMATS.get(str(schema.get("format")), said), said):
        yield text.ljust(shortest, "x")[:longest]
    pattern = schema.get("pattern")
    for length in (shortest, shortest + 1) if isinstance(pattern, str) else ():
        if text := matching(str(pattern), length):
            yield text
    for number in range(2, 8):
        yield f"{number} {said}".ljust(shortest, "x")[:longest]


def _said(name: str, wish: str) -> str:
    """What the wish says about a property of this name."""
    path, place = PATH.search(wish), PLACE.search(wish)
    if any(word in name for word in ("command", "cmd", "script")):
        return command(wish)
    if any(word in name for word in ("path", "file", "dir")):
        return path[1] if path else "README.md"
    if any(word in name for word in ("city", "location", "place", "country", "tz", "zone")):
        return place[1] if place else "Paris"
    return wish.strip(" ?.!\n") or "demo"


def command(wish: str) -> str:
    """Harmless, and what was asked: a command in backticks or after a colon, else a listing."""
    quoted = re.search(r"`([^`]+)`", wish) or re.search(
        r"\b(?:run|execute)\b[^:]*:\s*(.+)", wish, re.IGNORECASE
    )
    return quoted[1].strip() if quoted else "ls"
