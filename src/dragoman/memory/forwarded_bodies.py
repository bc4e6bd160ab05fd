"""Bodies that are forwarded: what was found to be JSON in the last request is not read again in the next one.

An agent sends its whole history in every request. A body that is forwarded is only glanced at (`Glance`), but
all of it must be JSON, and to skip 150 kB takes longer than everything else that the gateway does.

    known body:   {"model": …, "messages": [{…}, {…}, {…}   , {…}, {…}         ], "tools": …}
                  '-------------- beginning --------------'                    '--- tail ---'
    next one:     the same beginning                        , {…}, {…}, {…}    the same tail

A body that begins like a known one is read without the messages in that beginning: `{}` stands for them. If
the tail is the same too, and what stands between are entries of an array, then the whole is JSON, and the
fields beside the array are the same. The tail of Claude Code, its system text and tools, has 74 kB.

    conversation:  unknown → known → dropped

- known: it was the caller's turn to have one learnt. That takes longer than a glance, so the next is learnt
  after twice as many unknown bodies, until a known one comes. A known conversation that grows goes on from
  what is known of it.
- dropped: the caller has newer ones, or all together take more than the limit.

Callers share nothing: how fast an answer comes would tell one what another sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from threading import Lock
from typing import Any, ClassVar

from msgspec import Raw, Struct, field

from dragoman.core import jsontext
from dragoman.core.caches import LearningPace
from dragoman.core.fields import PartlyReadBody
from dragoman.core.jsontext import CUT_TEXT, Glance
from dragoman.serving.accounting import no_key

MAX_BYTES = 16_000_000
_CHANGING = 2  # messages at the end: clients move their marks for caching, which change the last ones
SMALLEST = 4096  # bytes; to find a smaller body takes longer than to read it
_SAMPLES = (512, 128, 32)  # bytes of the first messages, by which a body is found
_MOST_ALIKE = 16  # bodies with the same sample: they are compared one by one
_MOST_BODIES = 256  # with their samples in the same place
_MOST_PLACES = 8  # of samples, which are all tried
_MOST_CALLERS = 4_096
_GROWN = 15 / 16  # what is known goes on once it was that part of the body
_OVERHEAD = 500  # bytes of the objects of a known body
_SPACE = ord(" ")
_END_OF_OBJECT = ord("}")
_EMPTY, _CONTINUED = b"[", b"[{}"
_HELD = -1  # the bytes that were sought stand in a known body


class _KnownBody(Struct, frozen=True, gc=False):
    """`start` is where its array begins, `length` that of the whole body; `opening` stands for what the
    beginning has of the array. `seen` is what a Glance found, into which nobody writes. `searched`: how many
    bytes of the beginning were searched in vain for a text, or _HELD."""

    start: int
    beginning: bytes
    opening: bytes
    tail: bytes
    length: int
    seen: dict[str, Any]
    searched: dict[bytes, int] = field(default_factory=dict[bytes, int])

    @property
    def size(self) -> int:
        return len(self.beginning) + len(self.tail) + _OVERHEAD

    @property
    def sampled(self) -> tuple[int, int]:
        """The place of the bytes by which it is found: those of its first messages, in which conversations
        differ. Before the messages, where too little of them is known."""
        start, known = self.start, len(self.beginning) - self.start
        size = next((size for size in _SAMPLES if size <= known), 0)
        return (start, start + size) if size else (max(0, start - _SAMPLES[0]), start)

    def holds(self, text: bytes) -> bool:
        """Whether its beginning or its tail has these bytes; each is searched once."""
        begin, end = self.searched.get(text, 0), len(self.beginning)
        if 0 <= begin < end:
            found = self.beginning.rfind(text, max(0, begin - len(text))) >= 0
            if not begin:
                found = found or self.tail.rfind(text) >= 0
            self.searched[text] = begin = _HELD if found else end
        return begin == _HELD

    def glance(self, glance: Glance[Any], data: bytes) -> dict[str, Any] | None:
        """Like `glance.read`, for a body that begins like this one; gives `seen` where the tail is the same.
        None: it must be read in full."""
        start, end = len(self.beginning), len(data) - len(self.tail)
        if start <= end and data.endswith(self.tail):
            array = b"".join([self.opening, data[start:end], b"]"])
            return self.seen if jsontext.is_array_text(array) else None
        return None if self.opening == _EMPTY else glance.read(self.shortened(data))

    def grown(self, data: bytes) -> _KnownBody | None:
        """What is to be known of a body with the same beginning and tail. Raises one of MALFORMED."""
        end = len(data) - len(self.tail)
        array = b"".join([self.opening, data[len(self.beginning) : end], b"]"])
        grown = _up_to_changing(data, self.start, end, jsontext.split_array(array), self.seen)
        if grown:
            grown.searched.update(self.searched)
        return grown

    def goes_on(self, before: _KnownBody) -> bool:
        known_by_tail = before.opening == _EMPTY
        return self.beginning.startswith(before.beginning) and (not known_by_tail or self.tail == before.tail)

    def shortened(self, data: bytes) -> bytes:
        return b"".join([data[: self.start], self.opening, data[len(self.beginning) :]])

    @property
    def cut(self) -> int:
        """How many bytes longer than `shortened` a body is."""
        return len(self.beginning) - self.start - len(self.opening)


class GlancedBody(PartlyReadBody):
    """`fields` are what a Glance found: nobody writes into them. `known` begins and ends as it does."""

    is_glanced: ClassVar[bool] = True
    data: bytes
    known: _KnownBody | None = None

    def holds(self, text: bytes) -> bool:
        known, data = self.known, self.data
        if known is None:
            return data.rfind(text) >= 0
        begin, end = len(known.beginning) - len(text), len(data) - len(known.tail) + len(text)
        return data.rfind(text, max(0, begin), end) >= 0 or known.holds(text)


class _Samples(Struct):
    """Known bodies by what stands from `start` to `end`, the latest last."""

    start: int
    end: int
    known: OrderedDict[bytes, tuple[_KnownBody, ...]] = field(
        default_factory=OrderedDict[bytes, "tuple[_KnownBody, ...]"]
    )

    def put(self, sample: bytes, bodies: tuple[_KnownBody, ...]) -> int:
        """How many bytes more are known now."""
        growth = _size(bodies) - _size(self.known.pop(sample, ()))
        if bodies:
            self.known[sample] = bodies
        if len(self.known) > _MOST_BODIES:
            growth -= _size(self.known.popitem(last=False)[1])
        return growth


class _CallerBodies(LearningPace):
    """The known bodies of one caller in one protocol, the latest place of samples first."""

    places: tuple[_Samples, ...] = ()  # changed as a whole: other threads read it
    size: int = 0

    def alike(self, data: bytes) -> list[_KnownBody]:
        """Those with the same sample; first the one of which most is known."""
        found = [
            known for place in self.places for known in place.known.get(data[place.start : place.end], ())
        ]
        if len(found) > 1:
            found.sort(key=attrgetter("size"), reverse=True)
        return found

    def add(self, body: _KnownBody) -> None:
        """In the place of those that it goes on from."""
        start, end = body.sampled
        if all((place.start, place.end) != (start, end) for place in self.places):
            self._add_place(_Samples(start, end))
        for place in self.places:
            sample = body.beginning[place.start : place.end]
            bodies = [each for each in place.known.get(sample, ()) if not body.goes_on(each)]
            if (place.start, place.end) == (start, end):
                bodies = [body, *bodies[: _MOST_ALIKE - 1]]
            self.size += place.put(sample, tuple(bodies))

    def _add_place(self, place: _Samples) -> None:
        self.places = place, *self.places
        if len(self.places) > _MOST_PLACES:
            *others, dropped = self.places
            self.places = tuple(others)
            self.size -= sum(map(_size, dropped.known.values()))


class KnownBodies:
    """Those of several callers, in about `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._callers: OrderedDict[Hashable, _CallerBodies] = OrderedDict()
        self._lock = Lock()

    def read(
        self,
        caller: Hashable,
        glance: Glance[Any],
        field: str,
        data: bytes,
        may_hold_key: Callable[[dict[str, Any]], bool] = no_key,
    ) -> GlancedBody | None:
        """Like `glance.read`, for a request whose messages are in `field`. A body that may hold a key beside
        them is not learnt."""
        own = self._callers.get(caller)
        for known in own.alike(data) if own else ():
            if not data.startswith(known.beginning) or (
                known.opening == _EMPTY and not data.endswith(known.tail)
            ):
                continue
            if (seen := known.glance(glance, data)) is None:
                break  # each further try would read what may be a large body once more
            has_its_tail = seen is known.seen
            if own and has_its_tail:
                own.found()
            is_due = len(data) * _GROWN > known.length if has_its_tail else self._is_due(caller)
            if is_due and len(data) <= self.max_bytes // 4 and not may_hold_key(seen):
                self._learn(caller, data, field, seen, known)
            return GlancedBody(seen, data, known if has_its_tail else None)
        seen = glance.read(data)
        if seen is None:
            return None
        if len(data) <= self.max_bytes // 4 and not may_hold_key(seen) and self._is_due(caller):
            self._learn(caller, data, field, seen)
        return GlancedBody(seen, data)

    def _is_due(self, caller: Hashable) -> bool:
        with self._lock:
            own = self._callers.get(caller)
            if own is None:
                own = self._callers[caller] = _CallerBodies()
                self._drop_callers()
            return own.is_due()

    def _learn(
        self,
        caller: Hashable,
        data: bytes,
        field: str,
        seen: dict[str, Any],
        before: _KnownBody | None = None,
    ) -> None:
        body = _known_body(data, field, seen, before)
        with self._lock:
            own = self._callers.get(caller)
            if body is None or own is None:
                return
            self.size -= own.size
            own.add(body)
            self.size += own.size
            self._callers.move_to_end(caller)
            self._drop_callers()

    def _drop_callers(self) -> None:
        while self.size > self.max_bytes or len(self._callers) > _MOST_CALLERS:
            self.size -= self._callers.popitem(last=False)[1].size


def _size(bodies: Iterable[_KnownBody]) -> int:
    return sum([body.size for body in bodies])


def _known_body(
    data: bytes, field: str, seen: dict[str, Any], before: _KnownBody | None
) -> _KnownBody | None:
    """What is to be known of a body that goes on from `before`. None where it takes a parser to find its
    messages in the text."""
    try:
        if before and seen is before.seen:
            return before.grown(data)
        text, cut = (before.shortened(data), before.cut) if before else (data, 0)
        listed = bytes(jsontext.split_object(text).get(field, b""))
        start = before.start if before else _array_in(data, field, listed)
        if start < 0 or not text.startswith(listed, start):
            return None
        end = start + len(listed) - 1 + cut
        return _up_to_changing(data, start, end, jsontext.split_array(listed), seen)
    except jsontext.MALFORMED:
        return None


def _up_to_changing(
    data: bytes, start: int, end: int, entries: Sequence[Raw], seen: dict[str, Any]
) -> _KnownBody | None:
    """A body whose array from `start` to `end` has these entries, without its last messages."""
    end = known = _before_space(data, end)
    opening = _CONTINUED if len(entries) > _CHANGING else _EMPTY
    if opening is _EMPTY:
        known = start + 1
    else:
        for changing in reversed(entries[-_CHANGING:]):
            comma = _before_space(data, known - len(bytes(changing))) - 1
            known = _before_space(data, comma)
        if data[known - 1] != _END_OF_OBJECT:
            return None
    return _KnownBody(start, data[:known], opening, data[end:], len(data), seen)


def _array_in(data: bytes, field: str, listed: bytes) -> int:
    """Where the array in `field`, with this text, begins; -1 where that takes a parser. Another one with the
    same text may stand in a field that is seen."""
    start = jsontext.find_array(data, field)
    if start < 0 or not data.startswith(listed, start):
        return -1
    rest = b"".join([data[:start], CUT_TEXT, data[start + len(listed) :]])
    return start if jsontext.split_object(rest).get(field) == Raw(CUT_TEXT) else -1


def _before_space(data: bytes, end: int) -> int:
    while data[end - 1] <= _SPACE:
        end -= 1
    return end
