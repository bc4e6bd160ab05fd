"""The value that a growing JSON text spells so far.

States of the scanner, character by character:

    before the root → between tokens ⇄ in a string (⇄ in an escape) → after the root

`_safe` is where the text may be cut so that closing the open containers makes it valid JSON: behind a value
that is complete, or behind an opening bracket. A string that is a value is shown while it grows; a number or
a literal once its end is seen, because 12 may become 123.
"""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext

_CLOSING = {"{": "}", "[": "]"}


class PartialJson:
    def __init__(self) -> None:
        self._text = ""
        self._open: list[str] = []  # the containers that are open, outermost first
        self._safe = 0
        self._in_string = self._is_key = self._after_colon = self._ended = False
        self._escape = -1  # where an unfinished escape begins

    def feed(self, text: str) -> None:
        if not self._text:  # text before the root, such as a code fence, is left out
            found = [at for at in (text.find("{"), text.find("[")) if at >= 0]
            text = text[min(found) :] if found else ""
        start = len(self._text)
        self._text += text
        for position, character in enumerate(text, start):
            if self._ended:
                return
            if self._in_string:
                self._string(character, position)
            else:
                self._token(character, position)

    def value(self) -> Any:
        """An object or an array; None where nothing has begun, or where the text is not JSON."""
        if self._in_string and not self._is_key:
            text = self._text[: self._escape if self._escape >= 0 else None] + '"'
        else:
            text = self._text[: self._safe]
        try:
            return jsontext.decode(text + "".join(_CLOSING[each] for each in reversed(self._open)))
        except ValueError:
            return None

    def _string(self, character: str, position: int) -> None:
        if self._escape >= 0:
            length = 6 if self._text[self._escape + 1] == "u" else 2
            if position - self._escape + 1 == length:
                self._escape = -1
        elif character == "\\":
            self._escape = position
        elif character == '"':
            self._in_string = False
            if not self._is_key:
                self._safe = position + 1

    def _token(self, character: str, position: int) -> None:
        match character:
            case '"':
                self._in_string = True
                self._is_key = self._open[-1:] == ["{"] and not self._after_colon
            case "{" | "[":
                self._open.append(character)
                self._after_colon, self._safe = False, position + 1
            case "}" | "]" if self._open:
                self._open.pop()
                self._after_colon, self._safe = False, position + 1
                self._ended = not self._open
            case ",":
                self._after_colon, self._safe = False, position
            case ":":
                self._after_colon = True
            case _:
                pass
