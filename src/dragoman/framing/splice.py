"""Deltas of server-sent events that pass from one protocol to another without being decoded.

Most events of a reply continue a part, and two of them differ in nothing but their text and in fields that
mean nothing (`Codec.varying`). So one is translated; what stands around its text on both sides is its frame,
and the texts of the next ones are put into the client's frame.

    learning  an event that only continues a part -> splicing  (its frame is known)
    splicing  the same frame                      -> splicing
              the same frame, a special text      -> splicing  (this event is translated)
              any other event                     -> learning
    learning  `_TRIES` frames that never repeat   -> given up  (until the next part starts)

Decoder, stages and encoder do not see the spliced events. Before they get the next one they are fed the last
of them with all the texts, and what they make of it is thrown away: one delta means to them what many mean.
The law (`tests/laws/test_splice_laws.py`): the bytes are those of the translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter, methodcaller

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.events import Event, EventStage, PartDelta, PartStart
from dragoman.framing.sse import on_one_line

Translate = Callable[[bytes], tuple[Sequence[Event], list[bytes]]]
Hole = tuple[bytes, Callable[[bytes, int], re.Match[bytes] | None]]  # what stands before it, what fills it

_TRIES = 8
_HELD, _FLOWS = attrgetter("held"), methodcaller("flows")
_SPECIAL: Callable[[EventStage], re.Pattern[str] | None] = attrgetter("special")
_WINDOW, _KEY = 16_384, 16  # bytes that are split at once, and at what: a short search is a quick one
_SHORT = 4096  # bytes of an event that is held back until it is whole
_QUOTE, _BACKSLASH, _LINE_ENDS = 34, 92, b"\r\n"
_ENDS = b"\n\n", b"\r\n\r\n"  # of an event; Google's servers send the second
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ANY = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*')
_any_at = _ANY.match
_any = _ANY.fullmatch
_PLAIN = re.compile(rb'[ !#-\[\]-~]*(?:\\["\\nrt][ !#-\[\]-~]*)*')  # ASCII as our encoder writes it
_plain_at = _PLAIN.match
_plain = _PLAIN.fullmatch
_FILLS = {
    "number": re.compile(rb"0|[1-9][0-9]{0,15}").match,
    "padding": re.compile(rb"[A-Za-z0-9]*").match,
}


class DeltaSplice:
    """`translate` decodes and encodes bytes, with these stages between; `skip` advances the numbers of an
    encoder that counts its events."""

    _tries = _TRIES
    _end = b""  # of the events of this stream
    _between = False  # the last byte that came ended an event
    _begun = False  # something went out; what goes out first may say more than later events, such as a role
    _known = False  # the frame of an event that continued the part that is open
    _ready = False  # it is known, nothing is held, and deltas of the part pass all stages unchanged
    _is_simple = False  # the frames have no holes, and no stage examines the texts
    _simple = False  # ready, and the frames are simple
    _special: re.Pattern[bytes] | None = None  # finds texts that a stage examines
    _holes_before: tuple[Hole, ...] = ()
    _before = b""  # what stands before the text of the upstream's event, from the last hole on
    _holes_after: tuple[Hole, ...] = ()
    _after = b""
    _opening = _closing = b""  # of the client's event
    _joint = b""  # between two texts; empty where the client gets nothing yet
    _middle = b""  # between the text and the number of an event
    _number: int | None = None  # of the client's last event, where they are numbered
    _key = b""  # the end of what stands before a text: a search for all of it would take longer
    _head = b""  # what stands before the key
    _tail = b""  # what stands between a text and the next key
    _frame_size = 0  # bytes of an upstream's event without its text
    # In which event, and where in it, the last text between holes stands: begin, start, stop, end
    _last = b"", 0, 0, 0, 0
    _rest = b""  # the beginning of an event, held back so that nobody has to catch up for it

    def __init__(
        self,
        upstream: Codec,
        client: Codec,
        translate: Translate,
        stages: Sequence[EventStage],
        skip: Callable[[int], None] | None,
    ) -> None:
        self._text_of, self._varying, self._numbered = upstream.delta_text, upstream.varying, client.numbered
        self._translate, self._stages, self._skip = translate, stages, skip
        self._spliced: list[bytes] = []  # texts that decoder, stages and encoder do not know of

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._simple:
            text = data.removeprefix(self._before).removesuffix(self._after)
            if text and len(text) + self._frame_size == len(data) and _is_plain(text):  # one event
                self._spliced.append(text)
                if self._number is None:
                    return b"".join((self._opening, text, self._closing))
                self._number += 1
                return b"%b%b%b%d%b" % (self._opening, text, self._middle, self._number, self._closing)
        return self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Any number of events, of any kind."""
        out: list[bytes] = []
        at = 0
        while True:
            framed = False
            while self._ready and not framed:
                spliced, to, framed = self._splice(data, at)
                if to == at:
                    break
                at = to
                if at == len(data) and not out:
                    return spliced
                out.append(spliced)
            if at == len(data):
                return b"".join(out)
            end = self._event_end(data, at)
            if self._known and len(data) - at < _SHORT and data[-1] not in _LINE_ENDS and end == len(data):
                self._rest = data[at:]
                return b"".join(out)
            out.append(self._translated(data[at:end], framed))
            at = end

    def finish(self) -> list[bytes]:
        """No more bytes will come."""
        self.catch_up()
        return self._translate(self._rest)[1] if self._rest else []

    def catch_up(self) -> None:
        """Tell decoder, stages and encoder what was spliced."""
        if self._spliced:
            texts, before, after = self._spliced, self._before, self._after
            if self._holes_before or self._holes_after:
                data, begin, start, stop, end = self._last
                before, after = data[begin:start], data[stop:end]
            self._spliced, self._tries = [], _TRIES
            self._translate(b"".join((before, *texts, after)))
            if self._skip and self._number is not None:
                self._skip(len(texts) - 1)

    def _splice(self, data: bytes, at: int) -> tuple[bytes, int, bool]:
        """The client's events for those from `at` on that have the known frame, where the last of these ends,
        and whether the next one has the frame too. Perhaps not all: the rest is for the next call."""
        split = self._split_holes if self._holes_before or self._holes_after else self._split
        texts, at, framed = split(data, at)
        if not texts:
            return b"", at, framed
        self._spliced += texts
        return self._written(texts), at, framed

    def _split(self, data: bytes, at: int) -> tuple[list[bytes], int, bool]:
        """The texts of events without holes: what stands between two of them is always the same."""
        head, *pieces = data[at : at + _WINDOW].split(self._key)
        if not pieces or head != self._head:
            return [], at, False
        last, found, _ = pieces.pop().partition(self._after)
        tail = self._tail
        texts = [piece.removesuffix(tail) for piece in pieces]
        size = sum(map(len, texts))
        is_same_frame = sum(map(len, pieces)) - size == len(pieces) * len(tail)
        if found:
            texts.append(last)
            size += len(last)
        joined, special = b" ".join(texts), self._special.search if self._special else None
        if is_same_frame and all(texts) and _is_plain(joined) and not (special and special(joined)):
            return texts, at + len(texts) * self._frame_size + size, False
        if not is_same_frame:
            del texts[[piece.endswith(tail) for piece in pieces].index(False) :]
        return self._take(texts, at)

    def _take(self, texts: list[bytes], at: int) -> tuple[list[bytes], int, bool]:
        """The first of `texts`, up to one that has to be translated."""
        special = self._special.search if self._special else None
        spliced: list[bytes] = []
        for text in texts:
            if not text or not _any(text):  # this is no text: the event has another frame
                return spliced, at, False
            spelled = text if _is_plain(text) else _respelled(text)
            if spelled is None or (special and special(spelled)):
                return spliced, at, True
            spliced.append(spelled)
            at += self._frame_size + len(text)
        return spliced, at, False

    def _split_holes(self, data: bytes, at: int) -> tuple[list[bytes], int, bool]:
        """The texts of events in which other things differ, too."""
        before, after, size = self._before, self._after, len(data)
        holes_before, holes_after, text_at = self._holes_before, self._holes_after, _plain_at
        special = self._special.search if self._special else None
        texts: list[bytes] = []
        while at < size:
            start = _past(holes_before, data, at) if holes_before else at
            if start < 0 or not data.startswith(before, start):
                break
            start += len(before)
            stop = end = text_at(data, start).end()  # pyright: ignore[reportOptionalMemberAccess] - b"" matches
            if holes_after:
                end = _past(holes_after, data, stop)
            if end < 0 or start == stop or not data.startswith(after, end):
                if text_at is _any_at:
                    break
                text_at = _any_at
                continue
            text: bytes | None = data[start:stop]
            if text_at is _any_at:
                text, text_at = _respelled(text), _plain_at
            if text is None or (special and special(text)):
                return texts, at, True
            texts.append(text)
            self._last = data, at, start, stop, end + len(after)
            at = end + len(after)
        return texts, at, False

    def _written(self, texts: list[bytes]) -> bytes:
        """The client's events with these texts."""
        if self._number is None:
            return b"%b%b%b" % (self._opening, self._joint.join(texts), self._closing) if self._joint else b""
        opening, middle, closing, first = self._opening, self._middle, self._closing, self._number + 1
        self._number += len(texts)
        return b"".join(
            [b"%b%b%b%d%b" % (opening, text, middle, n, closing) for n, text in enumerate(texts, first)]
        )

    def _event_end(self, data: bytes, at: int) -> int:
        if not self._end:
            self._end = _ENDS[_ENDS[1] in data]
        end = data.find(self._end, at) if self._known or self._tries else -1
        return end + len(self._end) if end >= 0 else len(data)

    def _translated(self, data: bytes, framed: bool) -> bytes:
        """`framed`: it has the known frame."""
        self.catch_up()
        whole, held = self._between, sum(map(_HELD, self._stages))
        events, pieces = self._translate(data)
        out = b"".join(pieces)
        self._between, self._ready, self._simple = data.endswith(_ENDS), False, False
        if not events and not self._between:  # half an event changes nothing
            return out
        self._forget(framed, events)
        if self._number is not None:
            self._number += len(pieces)
        begins = bool(pieces) and not self._begun
        self._begun |= begins
        if self._between and all(map(_FLOWS, self._stages)):
            alone = len(events) == 1 or (not events and sum(map(_HELD, self._stages)) != held)
            if alone and whole and self._tries and not (framed or begins):
                self._tries -= 1
                self._known |= len(pieces) < 2 and self._learn(data, events, out)
            self._ready = self._known
            self._simple = self._known and self._is_simple
        return out

    def _forget(self, framed: bool, events: Sequence[Event]) -> None:
        """Another frame may mean another section of the part, on which the next text depends."""
        if not framed or not all(map(_continues, events)):
            self._known = False
            if PartStart in map(type, events):
                self._tries = _TRIES

    def _learn(self, data: bytes, events: Sequence[Event], out: bytes) -> bool:
        """Find the frames around a text in an event and in what became of it; there are no events, and `out`
        is empty, where it is held back."""
        event = events[0] if events else None
        text = event.text if type(event) is PartDelta else ""
        if not text and not out:
            text = self._text_of(jsontext.decode_object(data[data.find(b"{") :]) or {})
        quoted = jsontext.encode(text)
        opening, _, closing = out.partition(quoted)
        if not text or (out and out.count(quoted) != 1):
            return False
        number = re.search(rb"%b:(\d+)" % self._numbered, closing) if self._numbered else None
        if out and self._numbered and not number:
            return False
        place = self._place(data, text, quoted)
        if not place:
            return False
        self._keep_frame(data[: place[0]], data[place[1] :])
        self._opening, self._closing, self._number = opening + b'"', b'"' + closing, None
        self._joint = self._closing + self._opening if out else b""
        self._is_simple = bool(out) and not (self._holes_before or self._holes_after or self._special)
        if number:
            self._middle, self._closing = b'"' + closing[: number.start(1)], closing[number.end(1) :]
            self._number = int(number[1])
        return True

    def _keep_frame(self, before: bytes, after: bytes) -> None:
        """What stands around the text of an upstream's event."""
        self._holes_before, self._before = self._holes(before)
        self._holes_after, self._after = self._holes(after)
        key = self._before[-_KEY:]
        self._key = key if (self._after + self._before).count(key) == 1 else self._before
        self._head = self._before.removesuffix(self._key)
        self._tail, self._frame_size = self._after + self._head, len(self._before) + len(self._after)
        self._special = _examined(tuple(filter(None, map(_SPECIAL, self._stages))))

    def _place(self, data: bytes, text: str, quoted: bytes) -> tuple[int, int] | None:
        """Where in an event its text stands."""
        at = data.find(quoted)
        if at >= 0 and self._is_place(data, at + len(quoted) - 1, text):
            return at + 1, at + len(quoted) - 1
        for found in _STRING.finditer(data):  # the upstream spells it in another way, or several times
            if _spells(found[0], quoted) and self._is_place(data, found.end() - 1, text):
                return found.start() + 1, found.end() - 1
        return None

    def _is_place(self, data: bytes, stop: int, text: str) -> bool:
        """Whether the text of an event ends at `stop`: a longer one at its place must be read as its text."""
        event = jsontext.decode_object(b"%bx%b" % (data[data.find(b"{") : stop], data[stop:]))
        return event is not None and self._text_of(event) == f"{text}x"

    def _holes(self, side: bytes) -> tuple[tuple[Hole, ...], bytes]:
        """The fields of `side` that may differ from event to event, and what stands behind the last one."""
        holes: list[Hole] = []
        at = 0
        for found in self._varying.finditer(side) if self._varying else ():
            kind = found.lastgroup or ""
            holes.append((side[at : found.start(kind)], _FILLS[kind]))
            at = found.end(kind)
        return tuple(holes), side[at:]


@lru_cache(256)
def _examined(specials: tuple[re.Pattern[str], ...]) -> re.Pattern[bytes] | None:
    """Finds in the UTF-8 of a JSON string the characters of these classes, and every escape: stages look for
    line breaks, too."""
    if not specials:
        return None
    return re.compile(b"|".join([rb"\\", *(special.pattern.encode() for special in specials)]))


def _past(holes: tuple[Hole, ...], data: bytes, at: int) -> int:
    """Where the last of these holes ends; -1 where they do not stand at `at`."""
    for literal, fill in holes:
        found = fill(data, at + len(literal)) if data.startswith(literal, at) else None
        if found is None:
            return -1
        at = found.end()
    return at


def _is_plain(text: bytes) -> bool:
    """Whether our encoder writes a text as it is spelled."""
    if _BACKSLASH in text:
        return _plain(text) is not None
    try:
        return _QUOTE not in text and text.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _continues(event: Event) -> bool:
    return type(event) is PartDelta and event.state is None and event.citation is None


def _respelled(spelled: bytes) -> bytes | None:
    """A text as our encoder writes it; None where it is malformed."""
    try:
        text = jsontext.decode(b'"%b"' % spelled)
    except ValueError:
        return None
    return on_one_line(jsontext.encode(text))[1:-1]


def _spells(string: bytes, quoted: bytes) -> bool:
    """Whether a JSON string says the same as one of ours."""
    if string == quoted or b"\\" not in string:
        return string == quoted
    try:
        return jsontext.encode(jsontext.decode(string)) == quoted
    except ValueError:
        return False
