"""Server-sent events: bytes <-> frames, to the full grammar and in linear time.

Only CR, LF and CRLF end a line (str.splitlines also splits on U+2028), so everything stays bytes
until an event is complete, and a character cut in two by the network is never seen in halves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing

_LINE_END = re.compile(rb"\r\n|\r|\n")
_CR, _LF = b"\r\n"  # to look for a byte is several times as fast as to look for bytes


class Decoder:
    """Bytes in any pieces -> frames. Comments and fields other than `event` and `data` are passed over."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._event = b""
        self._data: list[bytes] = []
        self._begun = False
        self._idle = False  # between two events, with nothing held

    def feed(self, item: bytes, /) -> Sequence[Frame]:
        if self._idle and item.endswith(b"\n\n") and _CR not in item:  # one event at a time, as servers send
            end = len(item) - 2
            if item.startswith(b"data: ") and item.find(b"\n") == end:
                return (Frame("", item[6:end]),)
            if item.startswith(b"event: "):
                cut = item.find(b"\n") + 1
                if item.startswith(b"data: ", cut) and item.find(b"\n", cut) == end:
                    return (Frame(item[7 : cut - 1].decode("utf-8", "replace"), item[cut + 6 : end]),)
        frames = self._cut(item)
        self._idle = not (self._pieces or self._data or self._event) and self._begun
        return frames

    def _cut(self, item: bytes) -> list[Frame]:
        if _LF not in item and _CR not in item:
            if item:
                self._pieces.append(item)
            return []
        if self._pieces:
            self._pieces.append(item)
            item = b"".join(self._pieces)
            self._pieces.clear()
        if not self._begun:
            self._begun = True
            item = item.removeprefix(b"\xef\xbb\xbf")
        if _CR in item:
            if item.endswith(b"\r"):  # the LF that belongs to it may still come
                item = item[:-1]
                self._pieces.append(b"\r")
            item = item.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = item.split(b"\n")
        if last:
            self._pieces.insert(0, last)
        return self._read(lines)

    def close(self) -> list[Frame]:
        """A last event whose blank line never came still counts, as every SDK counts it."""
        rest = b"".join(self._pieces).rstrip(b"\r")
        self._pieces.clear()
        return self._read([rest, b""] if rest else [b""])

    def _read(self, lines: Iterable[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            if not line:
                if self._data:
                    name = self._event.decode("utf-8", "replace")
                    for data in self._data if len(self._data) == 1 else _texts(self._data):
                        frames.append(Frame(name, data))
                    self._data = []
                self._event = b""
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(b"event:"):
                self._event = line[6:].removeprefix(b" ")
            elif line == b"data":
                self._data.append(b"")
        return frames


def whole_events(data: bytes) -> list[Frame]:
    """The frames of events that are complete; of the last one too, if its lines end in CR."""
    decoder = Decoder()
    return [*decoder.feed(data), *decoder.close()]


def _texts(lines: list[bytes]) -> list[bytes]:
    """One text of several lines; where each line is an object, only the blank lines between were left out."""
    if all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return lines
    return [b"\n".join(lines)]


class Encoder:
    """Frames -> bytes; a frame without data is a comment's worth of silence: a blank line."""

    def feed(self, frame: Frame, /) -> tuple[bytes]:
        event, data = frame.event, frame.data
        if type(data) is not bytes:
            data = jsontext.encode(data)
            if not data.isascii():
                data = on_one_line(data)
        elif _LF in data or _CR in data:  # JSON of another framing that is printed over several lines
            data = b"\ndata: ".join(_LINE_END.split(data))
        if event:
            return (b"event: %b\ndata: %b\n\n" % (event.encode(), data),)
        return (b"data: %b\n\n" % data,)

    def close(self) -> tuple[()]:
        return ()


SSE = Framing(Decoder, Encoder)


_ENDS = b"\n\n", b"\r\n\r\n", b"\r\r"


def last_event_end(data: bytes) -> int:
    """Where the last whole event in `data` ends; 0 where none does."""
    if data.endswith(_ENDS):
        return len(data)
    return max([at + len(end) for end in _ENDS if (at := data.rfind(end)) >= 0], default=0)


def bounds(events: bytes, at: int) -> tuple[int, int]:
    """Where the event at that byte begins and ends; with others around it where lines end in several ways."""
    end = b"\n\n" if b"\r" not in events else b"\r\n\r\n" if b"\r\n\r\n" in events else b"\r\r"
    before, after = events.rfind(end, 0, at), events.find(end, at)
    return before + len(end) if before >= 0 else 0, after + len(end) if after >= 0 else len(events)


# Readers that cut lines as Python cuts strings (google-genai) would cut these characters too; in JSON they
# only stand inside of strings, where an escape says the same
_CUT = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\u0085".encode(), b"\\u0085"),
)


def on_one_line(data: bytes) -> bytes:
    """JSON without the characters that such readers cut at."""
    for character, escape in _CUT:
        if character[-1] in data and character in data:  # a single byte is found much faster
            data = data.replace(character, escape)
    return data
