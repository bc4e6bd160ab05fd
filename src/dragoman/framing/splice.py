"""Text of server-sent events that passes from one protocol to another without being decoded.

Most events of a reply continue a text, and two of them differ in nothing but that text. So one is translated;
what stands around its text on both sides is its frame, and the texts of the next ones are put into it.

    learning  an event that only continues a text -> splicing  (its frame is known)
    splicing  the same frame, plain text          -> splicing
              the same frame, another text        -> splicing  (this event is translated)
              any other event                     -> learning
    learning  `_TRIES` frames that never repeat   -> given up  (all is translated)

A text is plain where its spelling is what our encoder would write: no escapes but the usual ones, valid
UTF-8, none of the characters that `sse.Encoder` escapes. The law: the bytes are those of the translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dragoman.core import jsontext
from dragoman.core.events import Event, PartDelta

Translate = Callable[[bytes], tuple[Sequence[Event], list[bytes]]]

_TRIES = 8
_END = b"\n\n"
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*(?:\\["\\nrt][^"\\\x00-\x1f]*)*')
_CUT_BY_READERS = re.compile("[\u0085\u2028\u2029]")


class TextSplice:
    """`marks` stand before the text in an event of either side. `translate` decodes and encodes bytes as
    they are, `flows` tells whether a text is open whose deltas pass unchanged, `count` gets the number of
    characters that passed, where the encoder needs it."""

    def __init__(
        self,
        marks: tuple[bytes, bytes],
        translate: Translate,
        flows: Callable[[], bool],
        count: Callable[[int], None] | None,
    ) -> None:
        self._marks, self._translate, self._flows, self._count = marks, translate, flows, count
        self._tries = _TRIES
        self._between = False  # the last byte that came ended an event
        self._known = False  # splicing
        self._before = self._after = b""  # around the text of the upstream's event
        self._opening = self._closing = b""  # around that of the client's

    def feed(self, data: bytes) -> bytes:
        if self._known and self._between and data.startswith(self._before) and data.endswith(self._after):
            out = self._spliced([data[len(self._before) : -len(self._after)]])
            if out is not None:
                return out
        return self._feed_events(data)

    def _feed_events(self, data: bytes) -> bytes:
        """Several events, or one that cannot be spliced."""
        if not self._tries:
            self._known = False
            return b"".join(self._translate(data)[1])
        out: list[bytes] = []
        if not self._between:  # the rest of an event
            cut = data.find(_END) + 2
            if cut < 2:
                return self._translated(data)
            out.append(self._translated(data[:cut], whole=False))
            data = data[cut:]
        *events, rest = data.split(_END)
        place = 0
        while place < len(events):
            texts = self._texts(events, place) if self._known else []
            spliced = self._spliced(texts) if texts else None
            if spliced is None:
                out.append(self._translated(events[place] + _END))
                place += 1
            else:
                out.append(spliced)
                place += len(texts)
        if rest:
            out.append(self._translated(rest))
        return b"".join(out)

    def _texts(self, events: list[bytes], place: int) -> list[bytes]:
        """The texts of the events from `place` on, as far as they have the known frame."""
        before, after = self._before, self._after[:-2]
        start, end = len(before), -len(after)
        texts: list[bytes] = []
        for event in events[place:]:
            if not (event.startswith(before) and event.endswith(after)):
                break
            texts.append(event[start:end])
        return texts

    def _spliced(self, texts: list[bytes]) -> bytes | None:
        """The client's events with these texts; None where one of them is not plain."""
        joined = texts[0] if len(texts) == 1 else b" ".join(texts)
        if not _PLAIN.fullmatch(joined) or b"" in texts:
            return None
        length = len(joined)
        if not joined.isascii():
            try:
                text = joined.decode()
            except UnicodeDecodeError:
                return None
            if _CUT_BY_READERS.search(text):
                return None
            length = len(text)
        if self._count:
            escapes = joined.replace(b"\\\\", b"\\").count(b"\\") if b"\\" in joined else 0
            self._count(length - escapes - len(texts) + 1)
        self._tries = _TRIES
        if len(texts) == 1:
            return b"%b%b%b" % (self._opening, joined, self._closing)
        return b"%b%b%b" % (self._opening, (self._closing + self._opening).join(texts), self._closing)

    def _translated(self, data: bytes, whole: bool = True) -> bytes:
        """`whole`: it does not begin inside an event."""
        events, out = self._translate(data)
        self._between = data.endswith(_END)
        event = events[0] if len(events) == 1 else None
        is_text = type(event) is PartDelta and event.text and event.state is None and event.citation is None
        if not is_text or not self._flows():
            self._known = self._known and not events and not self._between  # half an event changes nothing
        elif whole and not self._known and self._between and len(out) == 1 and type(event) is PartDelta:
            self._learn(data, out[0], event.text)
        return out[0] if len(out) == 1 else b"".join(out)

    def _learn(self, data: bytes, out: bytes, text: str) -> None:
        self._tries -= 1
        spelled, (mark, made_mark) = jsontext.encode(text)[1:-1], self._marks
        if mark not in data:
            mark = mark.replace(b'":"', b'": "')  # as Python's json.dumps writes it
        sought, made = mark + spelled + b'"', made_mark + spelled + b'"'
        if data.count(sought) != 1 or out.count(made) != 1 or data.count(_END) != 1:
            return
        start, made_start = data.find(sought) + len(mark), out.find(made) + len(made_mark)
        self._before, self._after = data[:start], data[start + len(spelled) :]
        self._opening, self._closing = out[:made_start], out[made_start + len(spelled) :]
        self._known = True
