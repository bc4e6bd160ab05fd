"""A short text that a regular expression matches: enough for the patterns that schemas have."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

_parse = import_module("re._parser").parse  # the standard library's own parser, which it does not export
_ALPHABET = "a0A _-./:@#bcdefgh123456789"
_MOST = 64


def matching(pattern: str, shortest: int = 0) -> str | None:
    """A text of at least `shortest` characters that `pattern` matches, or None where none was found."""
    try:
        tree, expression = _parse(pattern), re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    for more in range(_MOST):
        text = _spell(tree, more, {})
        if len(text) >= shortest and expression.search(text):
            return text
    return None


def _spell(tree: Any, more: int, groups: dict[int, str]) -> str:
    return "".join(_one(str(kind), detail, more, groups) for kind, detail in tree)


def _one(kind: str, detail: Any, more: int, groups: dict[int, str]) -> str:
    match kind:
        case "LITERAL":
            return chr(detail)
        case "NOT_LITERAL":
            return next(letter for letter in _ALPHABET if letter != chr(detail))
        case "ANY":
            return "a"
        case "IN":
            return _member(detail)
        case "BRANCH":
            return _spell(detail[1][0], more, groups)
        case "SUBPATTERN":
            text = _spell(detail[3], more, groups)
            if detail[0] is not None:
                groups[detail[0]] = text
            return text
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = detail
            times = min(int(least) + more, int(most), int(least) + _MOST)
            return "".join(_spell(inner, more, groups) for _ in range(times))
        case "GROUPREF":
            return groups.get(detail, "")
        case _:  # anchors and assertions take no room
            return ""


def _member(options: Any) -> str:
    kinds = [(str(kind), detail) for kind, detail in options]
    if kinds[0][0] != "NEGATE":
        return _first(*kinds[0])
    return next((letter for letter in _ALPHABET if not any(_holds(*each, letter) for each in kinds[1:])), "")


def _first(kind: str, detail: Any) -> str:
    if kind == "CATEGORY":
        return next(letter for letter in _ALPHABET if _holds(kind, detail, letter))
    return chr(detail if kind == "LITERAL" else detail[0])


def _holds(kind: str, detail: Any, letter: str) -> bool:
    match kind:
        case "LITERAL":
            return chr(detail) == letter
        case "RANGE":
            return detail[0] <= ord(letter) <= detail[1]
        case _:
            name = str(detail).removeprefix("CATEGORY_").lower()
            held = {
                "digit": letter.isdigit(),
                "space": letter.isspace(),
                "word": letter.isalnum() or letter == "_",
            }
            return not held.get(name[4:], False) if name.startswith("not_") else held.get(name, False)
