"""The known messages of all callers: a tree of runs, from the first message of each conversation on.

Messages are recognised by their bytes, after the same messages. A run has as many messages as all its
conversations share, so a known conversation is found by one comparison.

    message:  unknown → met → known → dropped

- met: it was the first unknown message of some request. Only its beginning is noted: to learn costs more than
  to translate, so a conversation must come twice.
- known: it came again, or it follows the end of a known conversation.
- dropped: when all together take too much, what was not used for the longest time goes: results for a target,
  and conversations.

The last message of a request is always taken as new. Nothing here is locked: `ConversationMemory` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from dragoman.core.footprint import Footprint, size_of
from dragoman.core.model import KNOWN, KnownPrefix

_BEGINNING = 256  # bytes of a message that was met
_MOST_MET = 4_096
_MOST_ALIKE = 64  # runs that begin alike: they are compared one by one
_RUN, _MESSAGE = 1_000, 50  # bytes of the objects of a run, and of each message in it beside its text
_SAMPLED = (2048, 256, 128, 64, 32, 0)  # bytes at the beginning of a message; 32 of them are its sample
_WHITE = b" \t\r\n"


class MessageRun(Struct, eq=False, gc=False):
    """Messages that followed each other in every conversation so far, and what was seen to follow them.

    There may be thousands of runs, and a garbage collection must not look at what they hold: there are no
    cycles, because a prefix does not know its run.
    """

    prefix: KnownPrefix
    children: dict[bytes, tuple[MessageRun, ...]]  # by a sample of their first message
    sampled: tuple[int, ...] = ()  # from how many bytes the samples of the children were taken

    @property
    def size(self) -> int:
        return self.prefix.footprint.size

    @property
    def used(self) -> int:
        return self.prefix.footprint.used

    def following(self) -> Iterator[MessageRun]:
        for alike in self.children.values():
            yield from alike

    def add(self, child: MessageRun) -> None:
        sample, length = _sample_of(child.prefix), _sampled(child.prefix)
        self.children[sample] = (child, *self.children.get(sample, ()))
        if length not in self.sampled:
            self.sampled += (length,)

    def replace(self, child: MessageRun, longer: MessageRun) -> None:
        sample = _sample_of(child.prefix)
        others = [each for each in self.children.get(sample, ()) if each is not child]
        self.children[sample] = (longer, *others)

    def remove(self, child: MessageRun) -> None:
        sample = _sample_of(child.prefix)
        rest = tuple([each for each in self.children.get(sample, ()) if each is not child])
        if rest:
            self.children[sample] = rest
        else:
            self.children.pop(sample, None)


class KnownPlace(Struct):
    """Where the known messages of a request end: behind the first `count` messages of the last run."""

    path: list[MessageRun]  # from the root on
    position: int  # in the body
    count: int
    changes: int = -1  # of the tree, when it was looked up

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.path[-1].prefix.ends)

    @property
    def known(self) -> int:
        """The number of messages, with those of the runs before."""
        prefix = self.path[-1].prefix
        return prefix.count - len(prefix.ends) + self.count


class NewMessages(Struct, frozen=True, gc=False):
    """Messages to be learnt: those of the array at `start` in `data` that stand behind `position`.

    They end at `ends`; those at the places `fresh` among them have to be read each time.
    """

    data: bytes
    start: int
    position: int
    ends: list[int]
    fresh: list[int]
    place: KnownPlace | None = None  # where the known ones ended when they were looked up


class KnownMessages:
    """Those of several callers."""

    def __init__(self) -> None:
        self.footprint = Footprint()
        self._callers: dict[Hashable, MessageRun] = {}  # runs without messages
        self._met: dict[int, None] = {}  # hashes
        self._requests = self._changes = 0

    @property
    def conversations(self) -> int:
        return sum(1 for _, run in self._all_runs() if not run.children)

    def look_up(self, caller: Hashable, data: bytes, start: int) -> tuple[KnownPlace | None, bool]:
        """Where the known messages of the array at `start` end, and whether those behind are to be learnt."""
        root = self._callers.get(caller)
        place, position = _find(root, data, start) if root else None, start
        if place:
            position, last, place.changes = place.position, place.path[-1], self._changes
            self._requests += 1
            last.prefix.footprint.used = self._requests
            if place.is_whole and not last.children:
                return place, True
        beginning = data[position : position + _BEGINNING]
        return place, self._met_before(hash((caller, position - start, beginning)))

    def _met_before(self, beginning: int) -> bool:
        if beginning in self._met:
            return True
        if len(self._met) >= _MOST_MET:
            self._met.pop(next(iter(self._met)))
        self._met[beginning] = None
        return False

    def prefix_at(self, place: KnownPlace) -> KnownPrefix:
        run = place.path[-1]
        if place.is_whole:
            return run.prefix
        parent = place.path[-2]
        if run not in parent.children.get(_sample_of(run.prefix), ()):
            return _first_of(run.prefix, place.count)  # another thread was there
        self._changes += 1
        return _split(parent, run, place.count).prefix

    def learn(self, caller: Hashable, new: NewMessages) -> KnownPrefix | None:
        """Add messages to the known ones before them; None: another thread did meanwhile."""
        root = self._callers.get(caller) or MessageRun(_nothing(), {})
        place = new.place
        if place is None or place.changes != self._changes:  # by another thread
            place = _find(root, new.data, new.start) or KnownPlace([root], new.start, 0)
        if place.position != new.position:
            return None
        self._changes += 1
        run = place.path[-1]
        if not place.is_whole:
            run = _split(place.path[-2], run, place.count)
        goes_on = len(place.path) > 1 and not run.children
        learnt = MessageRun(_continued(run.prefix, new, goes_on), {})
        footprint = learnt.prefix.footprint
        footprint.used = self._requests
        if goes_on:
            place.path[-2].replace(run, learnt)
        else:
            footprint.whole = self.footprint
            footprint.add(_RUN + size_of(learnt.prefix.decoded) + size_of(learnt.prefix.made))
            self._make_room(run, _sample_of(learnt.prefix))
            run.add(learnt)
        footprint.add(new.ends[-1] - new.position + _MESSAGE * len(new.ends))
        self._callers.setdefault(caller, root)
        return learnt.prefix

    def _make_room(self, run: MessageRun, sample: bytes) -> None:
        alike = run.children.get(sample, ())
        if len(alike) >= _MOST_ALIKE:
            oldest = min(alike, key=attrgetter("used"))
            run.remove(oldest)
            oldest.prefix.footprint.drop()
            for _, child in _below(oldest):
                child.prefix.footprint.drop()

    def drop_oldest(self, limit: float) -> None:
        """Until all takes `limit` bytes: what was not used for the longest time, results before their
        conversation."""
        self._changes += 1
        while self.footprint.size > limit and self._callers:
            oldest = [each for parent, run in self._all_runs() for each in _droppable(parent, run)]
            oldest.sort(key=itemgetter(0))
            for _, drop in oldest:
                if self.footprint.size <= limit:
                    break
                drop()
            self._callers = {caller: root for caller, root in self._callers.items() if root.children}

    def _all_runs(self) -> Iterator[tuple[MessageRun, MessageRun]]:
        for root in self._callers.values():
            yield from _below(root)


def _droppable(parent: MessageRun, run: MessageRun) -> Iterator[tuple[int, Callable[[], None]]]:
    """What can be dropped of a run, and the last request that used it."""
    footprint, made = run.prefix.footprint, run.prefix.made
    for key, result in [*made.items()]:
        yield result.used or footprint.used, partial(_drop_result, run.prefix, key)
    if not run.children:
        yield footprint.used, partial(_drop_run, parent, run)


def _drop_result(prefix: KnownPrefix, key: Hashable) -> None:
    if result := prefix.made.pop(key, None):
        prefix.footprint.add(-result.whole_size)


def _drop_run(parent: MessageRun, run: MessageRun) -> None:
    parent.remove(run)
    run.prefix.footprint.drop()


def _below(run: MessageRun) -> Iterator[tuple[MessageRun, MessageRun]]:
    """Every run behind this one, with the one before it."""
    waiting = [run]
    while waiting:
        parent = waiting.pop()
        for child in parent.following():
            yield parent, child
            waiting.append(child)


def _sample_of(prefix: KnownPrefix) -> bytes:
    """Of the first message of a run: runs that begin with the same one are one run."""
    length = _sampled(prefix)
    return prefix.text[: length : length // 32] if length else b""


def _sampled(prefix: KnownPrefix) -> int:
    """The number of bytes from which the sample of a run is taken."""
    return next((length for length in _SAMPLED if prefix.ends[0] >= length), 0)


def _find(root: MessageRun, data: bytes, start: int) -> KnownPlace | None:
    """The known messages at the beginning of the array at `start`; its last entry does not count as one."""
    path, run, position, count = [root], root, start, 0
    while run.children and (found := _next_run(run, data, position)):
        run, count = found
        path.append(run)
        position += run.prefix.ends[count - 1]
        if count < len(run.prefix.ends):
            break
    if (
        position > start
        and data[position : position + 1] != b","
        and data[position:].lstrip(_WHITE)[:1] == b"]"
    ):
        ends = path[-1].prefix.ends
        count -= 1
        position -= ends[count] - (ends[count - 1] if count else 0)
        if not count:
            path.pop()
            count = len(path[-1].prefix.ends)
    return KnownPlace(path, position, count) if len(path) > 1 else None


def _next_run(run: MessageRun, data: bytes, position: int) -> tuple[MessageRun, int] | None:
    """The run that follows in `data`, and how many messages of it."""
    alike: tuple[MessageRun, ...] = ()
    for length in run.sampled:
        sample = data[position : position + length : length // 32] if length else b""
        same = run.children.get(sample, ())
        for child in same:
            if data.startswith(child.prefix.text, position):
                return child, len(child.prefix.ends)
        alike += same
    for child in alike:
        text, count, begin = child.prefix.text, 0, 0
        for end in child.prefix.ends:
            if not data.startswith(text[begin:end], position + begin):
                break
            count, begin = count + 1, end
        if count:
            return child, count
    return None


def _nothing() -> KnownPrefix:
    return KnownPrefix(None, b"", (), 0, {}, {}, (), Footprint())


def _continued(old: KnownPrefix, new: NewMessages, goes_on: bool) -> KnownPrefix:
    """The prefix with `new` behind `old`: in its place (`goes_on`), or as a run that follows it."""
    before, begun = (old.before, len(old.text)) if goes_on else (old if old.count else None, 0)
    text = new.data[new.position : new.ends[-1]]
    return KnownPrefix(
        before,
        old.text + text if goes_on else text,
        (*(old.ends if goes_on else ()), *[begun + end - new.position for end in new.ends]),
        old.count + len(new.ends),
        old.decoded.copy(),
        old.made.copy(),
        (*old.fresh, *[old.count + i for i in new.fresh]),
        old.footprint if goes_on else Footprint(),
    )


def _split(parent: MessageRun, run: MessageRun, count: int) -> MessageRun:
    """Divide a run behind its first `count` messages, and give the first half."""
    prefix = run.prefix
    first = _first_of(prefix, count)
    end = prefix.ends[count - 1]
    second = KnownPrefix(
        first,
        prefix.text[end:],
        tuple([each - end for each in prefix.ends[count:]]),
        prefix.count,
        prefix.decoded,
        prefix.made,
        prefix.fresh,
        prefix.footprint,
    )
    first.footprint.whole, first.footprint.used = prefix.footprint.whole, run.used
    first.footprint.add(_RUN + end + _MESSAGE * count)
    prefix.footprint.add(-(end + _MESSAGE * count))
    for child in run.following():
        child.prefix.before = second  # else it would keep the undivided text
    half = MessageRun(first, {})
    half.add(MessageRun(second, run.children, run.sampled))
    parent.remove(run)
    parent.add(half)
    return half


def _first_of(prefix: KnownPrefix, count: int) -> KnownPrefix:
    known = prefix.count - len(prefix.ends) + count
    fresh = tuple([i for i in prefix.fresh if i < known])
    text = prefix.text[: prefix.ends[count - 1]]
    return KnownPrefix(prefix.before, text, prefix.ends[:count], known, {}, {}, fresh, Footprint())


def entries_of(prefix: KnownPrefix, count: int) -> list[Any]:
    """The first `count` entries of a request with this prefix."""
    entries: list[Any] = [KNOWN] * count
    for i in prefix.fresh:
        if i < count:
            entries[i] = prefix.wire(i)
    return entries
