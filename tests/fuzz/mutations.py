"""Good input made bad: JSON values at every path, and bytes anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Path = tuple[str | int, ...]
DEEP: Any = "x"
DEEP_SCHEMA: Any = {"type": "string"}
for _ in range(200):
    DEEP = [DEEP]
    DEEP_SCHEMA = {"type": "object", "properties": {"a": DEEP_SCHEMA}}

# What a field that expects something else may hold
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324, "", " ", "x", "0",
    "null", "\x00", "\u2028", "é🎉", "\ud800", "{}", "[]", '{"a":', "a" * 70_000, [], {}, [None], [[]], [{}],
    {"": None}, {"type": None}, {"type": "x"}, [0, "x", {}], {"$ref": "#"}, DEEP, DEEP_SCHEMA,
)  # fmt: skip

# What often stands between bytes that a parser looks for
SPICE = (
    b"\n", b"\r", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"data:", b"data: ",
    b"event: ", b"data: [DONE]\n\n", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b",", b":",
    b"null", b"1e999", b"-", b"NaN", b"9" * 400, b"9" * 5000, b": ping\n\n", b"id:", b"retry: x\n",
)  # fmt: skip


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value, the whole of it first."""
    yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths(item, (*here, key))


def changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy with what stands at `path` changed."""
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], change)
    return copy


def without(value: Any, path: Path) -> Any:
    """A copy without what stands at `path`."""

    def removed(holder: Any) -> Any:
        copy = holder.copy()
        del copy[path[-1]]
        return copy

    return changed(value, path[:-1], removed)


def everywhere(value: Any) -> Iterator[Any]:
    """Each place holding each odd value, and each place missing."""
    for path in paths(value):
        for odd in ODD:
            yield changed(value, path, lambda _, odd=odd: odd)
        if path:
            yield without(value, path)


def mixed(random: Random, value: Any, donors: list[Any]) -> Any:
    """Several changes at once, some with pieces of other values."""
    for _ in range(random.randint(1, 4)):
        path = random.choice(list(paths(value)))
        match random.randrange(6):
            case 0 if path:
                value = without(value, path)
            case 1:
                value = changed(value, path, lambda old: [old])
            case 2:
                value = changed(value, path, lambda old: _twice(old))
            case 3:
                value = changed(value, path, lambda old: _renamed(random, old))
            case 4:
                donor = random.choice(donors)
                value = changed(value, path, lambda _, donor=donor: _piece(random, donor))
            case _:
                value = changed(value, path, lambda _: random.choice(ODD))
    return value


def _twice(value: Any) -> Any:
    if isinstance(value, list):
        return [*value, *value]
    return (
        value + value if isinstance(value, str) else {"type": "object", "properties": value, "items": value}
    )


def _renamed(random: Random, value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return [value, None]
    old = random.choice(list(value))
    new = random.choice([*value, "type", "id", "name", "content", "role", "", old.upper(), f"{old} "])
    return {new if key == old else key: item for key, item in value.items()}


def _piece(random: Random, value: Any) -> Any:
    for key in random.choice(list(paths(value))):
        value = value[key]
    return value


def spoiled(random: Random, data: bytes) -> bytes:
    """Bytes cut, doubled, swapped, flipped or peppered."""
    for _ in range(random.randint(1, 4)):
        at, to = sorted(random.randint(0, len(data)) for _ in range(2))
        match random.randrange(7):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:to] + data[at:to] + data[to:]
            case 3 if at < len(data):
                data = data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
            case 4:
                data = data[to:] + data[:to]
            case _:
                data = data[:at] + random.choice(SPICE) + data[at:]
    return data


def printed(value: Any) -> bytes:
    """As a careless client prints it: half a surrogate pair becomes bytes that are not UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def cut(random: Random, data: bytes) -> list[bytes]:
    """In pieces, as a network delivers them."""
    places = sorted(random.randint(0, len(data)) for _ in range(random.randrange(6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
