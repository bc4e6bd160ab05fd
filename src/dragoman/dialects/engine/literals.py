"""Literals as Python and JSON write them, read from a whole text: `{'a': [1, True]}`, `name(key="x")`.

Only literals are read and nothing is evaluated. Both spellings of the constants count; numbers keep
their lexeme; tuples and sets become arrays.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.core import jsontext
from dragoman.dialects.engine.source import Broken

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"(-?)\s*0*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])")  # also 07
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")
_STRING = re.compile(
    r'(?P<prefix>[rRuU]?)(?P<quote>"""|\'\'\'|"|\')(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)',
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"
    r"|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)",
    re.DOTALL,
)
_SIMPLE = dict(zip("ntrbfav\\'\"/", "\n\t\r\b\f\a\v\\'\"/", strict=True)) | {"\n": ""}
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_DEEPEST = 100


def read_literal(text: str) -> Any:
    """The value that `text` spells; raises Broken where it is no literal."""
    cursor = Cursor(text)
    value = cursor.value()
    cursor.finish()
    return value


class Cursor:
    """A place in a whole text."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self._depth = text, 0, 0

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def skip(self, mark: str) -> bool:
        """Consume `mark` and the white space around it, where it stands here."""
        self.space()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        self.space()
        return True

    def expect(self, mark: str) -> None:
        if not self.skip(mark):
            raise Broken(f"expected {mark} in a literal")

    def finish(self) -> None:
        self.space()
        if self.at < len(self.text):
            raise Broken("more than one literal")

    def word(self) -> str:
        found = _WORD.match(self.text, self.at)
        if not found:
            raise Broken("expected a name")
        self.at = found.end()
        return found[0]

    def value(self) -> Any:
        self.space()
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._nest(self._braces)
            case "[":
                return self._nest(lambda: self._items("]"))
            case "(":
                return self._nest(lambda: self._items(")"))
            case _:
                return self._scalar()

    def _nest(self, read: Any) -> Any:
        self.at += 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Broken("nested too deeply")
        value = read()
        self._depth -= 1
        return value

    def _items(self, end: str) -> list[Any]:
        items: list[Any] = []
        while not self.skip(end):
            items.append(self.value())
            if not self.skip(","):
                self.expect(end)
                break
        return items

    def _braces(self) -> Any:
        """A dict, or a set as an array."""
        if self.skip("}"):
            return {}
        first = self.value()
        if not self.skip(":"):
            if self.skip(","):
                return [first, *self._items("}")]
            self.expect("}")
            return [first]
        pairs = {_key(first): self.value()}
        while self.skip(",") and not self.text.startswith("}", self.at):
            key = _key(self.value())
            self.expect(":")
            pairs[key] = self.value()
        self.expect("}")
        return pairs

    def _scalar(self) -> Any:
        if found := _STRING.match(self.text, self.at):
            return self._strings(found)
        if found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            return jsontext.decode(found[1] + found[2])
        if (found := _WORD.match(self.text, self.at)) and found[0] in _CONSTANTS:
            self.at = found.end()
            return _CONSTANTS[found[0]]
        raise Broken("expected a literal")

    def _strings(self, found: re.Match[str] | None) -> str:
        """A string, or several that stand side by side."""
        parts: list[str] = []
        while found:
            text = found["text"]
            parts.append(text if found["prefix"] in ("r", "R") else unescape(text))
            self.at = found.end()
            here = self.at
            self.space()
            found = _STRING.match(self.text, self.at)
            if not found:
                self.at = here
        return "".join(parts)


def unescape(text: str) -> str:
    """Python's and JSON's escapes; an unknown one (`\\d`) stands for itself."""
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code in _SIMPLE:
        return _SIMPLE[code]
    if len(code) == 11:  # a surrogate pair, as JSON writes what lies beyond U+FFFF
        return chr(0x10000 + ((int(code[1:5], 16) - 0xD800) << 10) + (int(code[7:], 16) - 0xDC00))
    if code[0] in "uUx" and len(code) > 1:
        return _character(int(code[1:], 16))
    if code[0] in "01234567":
        return _character(int(code, 8))
    return found[0]


def _character(code: int) -> str:
    return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _key(value: Any) -> str:
    return value if isinstance(value, str) else jsontext.dumps(value)
