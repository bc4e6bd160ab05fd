"""Streams between equal protocols: events pass as they are, changed only where routing must change them.

The model that they name is the one that the client asked for, and opaque state is tagged with its origin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain

from dragoman.core import jsontext, seal
from dragoman.core.codec import Codec, Frame, frame_object
from dragoman.core.failures import truncated
from dragoman.core.model import Failure, Wire
from dragoman.framing import sse
from dragoman.pipeline import TRUNCATED, TranslatedStream, encode_failure
from dragoman.protocols import protocol as find_protocol

_MAGIC = seal.MAGIC.encode()
_NEVER = b"\xff"  # stands in no UTF-8 text, and one byte is found at once
_HEAD = 1024  # bytes of the first events
_EMPTY = truncated("any content")
_CHECKED = 4096  # bytes of forwarded events that are searched together for the end of the stream


class ForwardedStream:
    """Server-sent events of one protocol on both sides: each event passes unchanged, once it is whole.

    States:  empty → between events ⇄ inside an event → ended
             empty → translated

    - empty: nothing but white space came. A body that begins with `{` or `[` is no event stream, and events
      that lack what clients rely on (`Codec.numbered`) must be rewritten: both are `translated` instead.
    - between events: nothing is held back. A chunk that ends an event passes as it is; this is the fast path.
    - inside an event: its beginning is held back until the rest comes.
    - ended: one of the protocol's last events has passed, whole. A stream that closes without it has failed,
      and so has one that announces its end before any answer (`Codec.is_answer`).

    `reply_model` replaces the name of the model, where it differs; `tagger` tags opaque state. `observe` gets
    all that passed, whole events, many at a time.
    """

    observe: Callable[[bytes], object] | None = None

    def __init__(
        self,
        codec: Codec,
        translate: Callable[[], TranslatedStream],
        reply_model: str = "",
        tagger: StateTagger | None = None,
    ) -> None:
        self._codec, self._translate, self._reply_model = codec, translate, reply_model
        self._tagger, self._hint = tagger, tagger.hint if tagger else _NEVER
        self._translated: TranslatedStream | None = None
        self._rename: Callable[[bytes], bytes] | None = None
        self._begun = self._ended = self._between = False
        self._held: list[bytes] = []  # the beginning of an event
        self._first = self._last = b""  # what was passed on at the beginning, and just now
        self._unchecked: list[bytes] = []  # whole events that were not searched for the end
        self._unchecked_size = 0
        self._failure: Failure | None = None
        self._is_answer = codec.is_answer  # until an answer has begun

    @property
    def ended(self) -> bool:
        """Whether the stream has announced its end, well or not."""
        if self._unchecked:
            self._check_end()
        return self._translated.ended if self._translated else self._ended

    @property
    def failure(self) -> Failure | None:
        return self._translated.failure if self._translated else self._failure

    def feed(self, data: bytes) -> bytes:
        if self._between and data.endswith(b"\n\n"):
            if self._rename:
                data = self._rename(data)
            if self._tagger and (seal.is_in(data) or data.find(self._hint) >= 0):
                data = self._tagger.events(data)
            self._last = data
            self._unchecked.append(data)
            self._unchecked_size += len(data)
            if self._unchecked_size > _CHECKED:
                self._check_end()
            return data
        if not self._begun and not self._held and not self._translated:
            data = data.lstrip()
            if data[:1] in (b"{", b"["):
                self._translated = self._translate()
        return self._translated.feed(data) if self._translated else self._split(data)

    def close(self) -> bytes:
        """The blank line after the last event may be missing, as SDKs allow; half an event is left out."""
        if self._translated:
            return self._translated.close()
        rest = b"".join(self._held)
        self._held.clear()
        if not self.ended and not self._holds_end(rest + b"\n\n"):
            return self.fail(TRUNCATED)
        if self._ends_empty(rest + b"\n\n"):
            return self.fail(_EMPTY)
        self._ended = True
        if self.observe:
            self.observe(rest)
        frames = sse.Decoder().feed(rest + b"\n\n")
        return rest if all(frame.data == b"[DONE]" or frame_object(frame) for frame in frames) else b""

    def fail(self, failure: Failure) -> bytes:
        """End the stream with `failure`, in its protocol; an event that is not whole is left out."""
        if self._translated:
            return self._translated.fail(failure)
        if self._unchecked:
            self._check_end()
        self._failure, self._ended = failure, True
        return b"\n\n" + encode_failure(self._codec, failure, self._first, self._last)

    def _split(self, data: bytes) -> bytes:
        """Pass on whole events, hold back the beginning of the next one."""
        if self._failure:
            return b""
        before = b"".join(self._held[-3:])[-3:]  # a blank line may have been cut
        end = sse.last_event_end(before + data) - len(before)
        if end <= 0:
            self._between = False
            if data:
                self._held.append(data)
            return b""
        whole = b"".join([*self._held, data[:end]])
        self._held = [] if end == len(data) else [data[end:]]
        if not self._begun and b"data:" in whole:
            if self._codec.numbered not in whole:
                self._translated = self._translate()
                return self._translated.feed(whole + data[end:])
            self._begun, self._first = True, whole
            self._rename = self._renaming(whole)
        empty = self._is_answer is not None and self._ends_empty(whole)
        # a comment may come first (OpenRouter, DeepSeek)
        self._between = self._begun and not self._held and self._is_answer is None
        self._last = self._rename(whole) if self._rename else whole
        if self._tagger:
            self._last = self._tagger.events(self._last)
        if self._unchecked:
            self._check_end()
        if self.observe:
            self.observe(self._last)
        if empty:
            return self.fail(_EMPTY)
        self._ended = self._ended or self._holds_end(whole)
        return self._last

    def _ends_empty(self, events: bytes) -> bool:
        """Whether they announce the end of a stream that holds no answer."""
        if self._is_answer is None or self._ended or any(map(self._is_answer, _read_events(events))):
            self._is_answer = None
            return False
        return self._holds_end(events)

    def _check_end(self) -> None:
        events = b"".join(self._unchecked)
        self._unchecked.clear()
        self._unchecked_size = 0
        if self.observe:
            self.observe(events)
        self._ended = self._ended or self._holds_end(events)

    def _holds_end(self, events: bytes) -> bool:
        """The marks are quick to find, but a text may hold them too: so each event that holds one is
        read, the last one first."""
        is_end = self._codec.is_end
        for mark in self._codec.terminal:
            at = events.rfind(mark)
            while at >= 0:
                start, end = sse.bounds(events, at)
                if any(map(is_end, sse.Decoder().feed(events[start:end] + b"\n"))):
                    return True
                at = events.rfind(mark, 0, start)
        return False

    def _renaming(self, first: bytes) -> Callable[[bytes], bytes] | None:
        """What renames the model in events; None: the first ones name it as the client asked for it."""
        codec, new = self._codec, self._reply_model
        if not new or b'"%b":%b' % (codec.model_field.encode(), jsontext.encode(new)) in first:
            return None
        return _Renaming(codec, new)


class StateTagger:
    """Tags the opaque state in forwarded replies with its origin, so that it returns to nobody else.

    Seals in a reply were made by another gateway behind this one; they are tagged too, wherever they stand,
    so that they pass unopened when they come back. `is_issuer`: the origin is known, so that bare state is
    tagged as well.
    """

    def __init__(self, codec: Codec, origin: str, is_issuer: bool) -> None:
        self._codec = codec
        self._tag = seal.tag(origin)
        self._own, self._own_seal = self._tag.encode(), f"{self._tag}{seal.MAGIC}".encode()
        self.hint = codec.state_hint if is_issuer and codec.state_hint else _NEVER

    def events(self, data: bytes) -> bytes:
        """Whole events."""
        data = self._tag_seals(data)
        if data.find(self.hint) < 0:
            return data
        frames = [Frame(frame.event, self._tag_state(frame.data)) for frame in sse.whole_events(data)]
        return b"".join([piece for frame in frames for piece in sse.Encoder().feed(frame)])

    def body(self, data: bytes) -> bytes:
        """A whole reply."""
        data = self._tag_seals(data)
        return data if data.find(self.hint) < 0 else self._tag_state(data)

    def strip(self, request: bytes) -> bytes | None:
        """A request with its state as the origin made it; None where it holds seals of others, or of ours
        for other upstreams."""
        others = request.count(_MAGIC) - request.count(self._own) - request.count(self._own_seal)
        return None if others else request.replace(self._own, b"")

    def _tag_seals(self, data: bytes) -> bytes:
        return data.replace(_MAGIC, self._own_seal) if seal.is_in(data) else data

    def _tag_state(self, data: bytes) -> bytes:
        try:
            reply = jsontext.decode(data)
        except ValueError:
            return data
        changed = False
        for slot, field in self._codec.state_slots(reply) if jsontext.is_object(reply) else ():
            state = slot.get(field)
            if isinstance(state, str) and state and not state.startswith(seal.MAGIC):
                slot[field], changed = self._tag + state, True
        return jsontext.encode(reply) if changed else data


@lru_cache(1024)
def state_tagger(protocol: str, origin: str, is_issuer: bool) -> StateTagger:
    return StateTagger(find_protocol(protocol).codec, origin, is_issuer)


class _Renaming:
    """Names the model in events as the client asked for it.

    The first event may name none: Azure sends the results of its filters first, with an empty name.
    """

    def __init__(self, codec: Codec, new: str) -> None:
        self._codec, self._new = codec, new
        self._old = b""  # how events spell the field, since one of them names a model
        self._field = b'"%b"' % codec.model_field.encode()
        self._replacement = b"%b:%b" % (self._field, jsontext.encode(new))

    def __call__(self, events: bytes) -> bytes:
        if self._old:
            return self._replace(self._old, events)
        for old in self._spellings(events):
            events = self._replace(old, events)
        return events

    def _spellings(self, events: bytes) -> list[bytes]:
        """How `events` spell the field, up to the first that names a model."""
        found: list[bytes] = []
        for frame in _read_events(events) if self._field in events else ():
            old = _model_in(frame_object(frame), self._codec)
            if old == self._new:
                self._old = _NEVER
            elif old is not None:
                name = re.escape(jsontext.encode(old))
                found += re.findall(rb"%b\s*:\s*%b" % (self._field, name), events)[:1]
                self._old = found[-1] if old and found else b""
            if self._old:
                break
        return found

    def _replace(self, old: bytes, events: bytes) -> bytes:
        pieces = events.split(old)  # quotes inside strings are escaped, so this is no text
        if len(pieces) == 1:
            return events
        if len(pieces) - 1 <= events.count(b"data:"):
            return self._replacement.join(pieces)  # in half the time of bytes.replace
        return b"".join([piece for frame in sse.whole_events(events) for piece in self._anew(frame)])

    def _anew(self, frame: Frame) -> Iterable[bytes]:
        """An event with several such fields: arguments or schemas may hold them too."""
        event = frame_object(frame)
        if event and _model_in(event, self._codec) is not None:
            reply = event.get(self._codec.envelope, event)
            reply[self._codec.model_field] = self._new
        return sse.Encoder().feed(Frame(frame.event, event or frame.data))


def _read_events(events: bytes) -> Iterable[Frame]:
    """Whole events. What is sought is mostly in the first ones, so the others are read when it is not."""
    cut = sse.last_event_end(events[:_HEAD])
    return chain.from_iterable(map(sse.whole_events, (events[:cut], events[cut:])))


def _model_in(event: Wire, codec: Codec) -> str | None:
    reply = event.get(codec.envelope, event)
    name = reply.get(codec.model_field) if jsontext.is_object(reply) else None
    return name if isinstance(name, str) else None
