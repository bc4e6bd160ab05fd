"""A streamed JSON array of objects: bytes <-> frames. Gemini streams so without `alt=sse`.

Only brackets and quotes are examined, so an object is cut out in linear time; its content is not checked
here.
"""

from __future__ import annotations

import re
from typing import Literal

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing
from dragoman.core.errors import WireError

_BRACKET_OR_QUOTE = re.compile(rb'["{}\[\]]')
_QUOTE_OR_ESCAPE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"

# where between the objects we are
_Place = Literal["start", "first", "next", "after", "end"]
_EXPECTED: dict[_Place, str] = {
    "start": "an array of objects",
    "first": "an object or the end of the array",
    "next": "an object",
    "after": "a comma or the end of the array",
    "end": "nothing more",
}


class Decoder:
    """Bytes in any pieces -> a frame for each object. One object without an array around it counts too."""

    def __init__(self) -> None:
        self._place: _Place = "start"
        self._depth = 0  # of brackets; 0 is between objects
        self._in_string = False
        self._escaped = False
        self._pieces: list[bytes] = []

    def feed(self, item: bytes, /) -> list[Frame]:
        frames: list[Frame] = []
        at = begin = 0
        while at < len(item):
            if not self._depth:
                begin, at = at, self._between(item, at)
                continue
            at = self._inside(item, at)
            if not self._depth:
                self._pieces.append(item[begin:at])
                frames.append(Frame("", b"".join(self._pieces)))
                self._pieces.clear()
        if self._depth:
            self._pieces.append(item[begin:])
        return frames

    def close(self) -> tuple[()]:
        """An object that was cut yields nothing; the decoder of the frames reports the missing end."""
        return ()

    def _between(self, item: bytes, at: int) -> int:
        """Past one byte of white space, of what stands between objects, or of the next object."""
        char = item[at : at + 1]
        match self._place, char:
            case _ if char in _SPACE or (self._place == "start" and char in b"\xef\xbb\xbf"):
                return at + 1
            case "start", b"[":
                self._place = "first"
            case (("start" | "first" | "next"), b"{"):
                self._place, self._depth = ("end" if self._place == "start" else "after"), 1
            case "after", b",":
                self._place = "next"
            case (("first" | "after"), b"]"):
                self._place = "end"
            case _:
                raise WireError("gemini", "stream", f"expected {_EXPECTED[self._place]}, got {_shown(char)}")
        return at + 1

    def _inside(self, item: bytes, at: int) -> int:
        """To the end of the object, or of the bytes at hand."""
        while at < len(item):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_QUOTE_OR_ESCAPE if self._in_string else _BRACKET_OR_QUOTE).search(item, at)
            if found is None:
                return len(item)
            at = found.end()
            match found[0]:
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    self._escaped = True
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if not self._depth:
                        return at
        return at


class Encoder:
    """Frames -> the bytes of one array, as Google's servers space it."""

    def __init__(self) -> None:
        self._before = b"["

    def feed(self, frame: Frame, /) -> tuple[bytes]:
        data = frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data)
        before, self._before = self._before, b",\r\n"
        return (before + data,)

    def close(self) -> tuple[bytes]:
        return (b"[]" if self._before == b"[" else b"]",)


JSON_ARRAY = Framing(Decoder, Encoder, content_type="application/json", keep_alive=b"\n")


def _shown(char: bytes) -> str:
    return repr(char.decode("latin-1"))
