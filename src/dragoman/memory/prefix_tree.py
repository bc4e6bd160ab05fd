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

import sys
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.fold import Fold
from dragoman.memory.checkpoints import CacheEntry
from dragoman.memory.footprint import Footprint

_MOST_ENTRIES = 8  # of one prefix: targets, lists of names
_BEGINNING = 256  # bytes of a message that was met
_MOST_MET = 4_096
_MOST_ALIKE = 64  # runs that begin alike: they are compared one by one
_RUN, _MESSAGE = 1_000, 50  # bytes of the objects of a run, and of each message in it beside its text
_SAMPLED = (2048, 256, 128, 64, 32, 0)  # bytes at the beginning of a message; 32 of them are its sample
_WHITE = b" \t\r\n"
_HELD = sys.maxsize  # in place of how many bytes were searched


class MessagePrefix(Struct, eq=False, gc=False):
    """The messages at the beginning of a request that stood there in an earlier one.

    `text` is theirs in the array of messages, from those of `before` on; each of them ends at one of `ends`
    in it. `entries` hold what folds made of them. `fresh` are the places of messages that others look at.
    `whole` are the targets for which a longer conversation had to be looked at together. `searched` says how
    much of the text does not hold some bytes, or that it holds them.
    """

    before: MessagePrefix | None
    text: bytes
    ends: tuple[int, ...]
    count: int  # with those of `before`
    entries: dict[tuple[Fold, ...], CacheEntry]
    fresh: tuple[int, ...]
    footprint: Footprint
    whole: tuple[Hashable, ...] = ()
    searched: dict[bytes, int] = {}

    def holds(self, text: bytes) -> bool:
        """Whether these messages, or those before, have these bytes; each is searched once."""
        prefix: MessagePrefix | None = self
        while prefix:
            searched = prefix.searched.get(text, 0)
            if searched < len(prefix.text):
                begin = max(0, searched - len(text))
                searched = len(prefix.text) if prefix.text.rfind(text, begin) < 0 else _HELD
                prefix.searched[text] = searched
            if searched == _HELD:
                return True
            prefix = prefix.before
        return False

    @property
    def length(self) -> int:
        """Of the text, with that of the prefixes before."""
        return len(self.text) + (self.before.length if self.before else 0)

    def wire(self, place: int) -> Any:
        """The entry as it came."""
        prefix = self
        while prefix.before and place < prefix.before.count:
            prefix = prefix.before
        number = place - (prefix.count - len(prefix.ends))
        begin = prefix.ends[number - 1] if number else 0
        return jsontext.decode(prefix.text[begin : prefix.ends[number]].lstrip()[1:])

    def keep(self, folds: tuple[Fold, ...], entry: CacheEntry) -> None:
        """Add what was made; of too much the one goes that was not used for the longest time."""
        before = self.entries.get(folds)
        if before is None and len(self.entries) >= _MOST_ENTRIES:
            oldest = min([*self.entries.items()], key=lambda each: each[1].used)[0]
            before = self.entries.pop(oldest, None)
        self.footprint.add(entry.size - (before.size if before else 0))
        entry.used = self.footprint.used
        self.entries[folds] = entry

    def drop(self, folds: tuple[Fold, ...]) -> None:
        if entry := self.entries.pop(folds, None):
            self.footprint.add(-entry.size)


class PrefixNode(Struct, eq=False, gc=False):
    """Messages that followed each other in every conversation so far, and what was seen to follow them.

    There may be thousands of nodes, and a garbage collection must not look at what they hold: there are no
    cycles, because a prefix does not know its run.
    """

    prefix: MessagePrefix
    children: dict[bytes, tuple[PrefixNode, ...]]  # by a sample of their first message
    sampled: tuple[int, ...] = ()  # from how many bytes the samples of the children were taken

    @property
    def size(self) -> int:
        return self.prefix.footprint.size

    @property
    def used(self) -> int:
        return self.prefix.footprint.used

    def following(self) -> Iterator[PrefixNode]:
        for alike in self.children.values():
            yield from alike

    def add(self, child: PrefixNode) -> None:
        sample, length = _sample_of(child.prefix), _sampled(child.prefix)
        self.children[sample] = (child, *self.children.get(sample, ()))
        if length not in self.sampled:
            self.sampled += (length,)

    def replace(self, child: PrefixNode, longer: PrefixNode) -> None:
        sample = _sample_of(child.prefix)
        others = [each for each in self.children.get(sample, ()) if each is not child]
        self.children[sample] = (longer, *others)

    def remove(self, child: PrefixNode) -> None:
        sample = _sample_of(child.prefix)
        rest = tuple([each for each in self.children.get(sample, ()) if each is not child])
        if rest:
            self.children[sample] = rest
        else:
            self.children.pop(sample, None)


class PrefixMatch(Struct):
    """Where the known messages of a request end: behind the first `count` messages of the last run."""

    path: list[PrefixNode]  # from the root on
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
    place: PrefixMatch | None = None  # where the known ones ended when they were looked up


class PrefixTree:
    """Those of several callers."""

    def __init__(self) -> None:
        self.footprint = Footprint()
        self._callers: dict[Hashable, PrefixNode] = {}  # runs without messages
        self._met: dict[int, None] = {}  # hashes
        self._requests = self._changes = 0

    @property
    def conversations(self) -> int:
        return sum(1 for _, run in self._all_runs() if not run.children)

    def look_up(self, caller: Hashable, data: bytes, start: int) -> tuple[PrefixMatch | None, bool]:
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

    def prefix_at(self, place: PrefixMatch) -> MessagePrefix:
        run = place.path[-1]
        if place.is_whole:
            return run.prefix
        parent = place.path[-2]
        if run not in parent.children.get(_sample_of(run.prefix), ()):
            return _first_of(run.prefix, place.count)  # another thread was there
        self._changes += 1
        return _split(parent, run, place.count).prefix

    def learn(self, caller: Hashable, new: NewMessages) -> MessagePrefix | None:
        """Add messages to the known ones before them; None: another thread did meanwhile."""
        root = self._callers.get(caller) or PrefixNode(_nothing(), {})
        place = new.place
        if place is None or place.changes != self._changes:  # by another thread
            place = _find(root, new.data, new.start) or PrefixMatch([root], new.start, 0)
        if place.position != new.position:
            return None
        self._changes += 1
        run = place.path[-1]
        if not place.is_whole:
            run = _split(place.path[-2], run, place.count)
        goes_on = len(place.path) > 1 and not run.children
        learnt = PrefixNode(_continued(run.prefix, new, goes_on), {})
        footprint = learnt.prefix.footprint
        footprint.used = self._requests
        if goes_on:
            place.path[-2].replace(run, learnt)
        else:
            footprint.whole = self.footprint
            footprint.add(_RUN)
            self._make_room(run, _sample_of(learnt.prefix))
            run.add(learnt)
        footprint.add(new.ends[-1] - new.position + _MESSAGE * len(new.ends))
        self._callers.setdefault(caller, root)
        return learnt.prefix

    def _make_room(self, run: PrefixNode, sample: bytes) -> None:
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

    def _all_runs(self) -> Iterator[tuple[PrefixNode, PrefixNode]]:
        for root in self._callers.values():
            yield from _below(root)


def _droppable(parent: PrefixNode, run: PrefixNode) -> Iterator[tuple[int, Callable[[], None]]]:
    """What can be dropped of a run, and the last request that used it."""
    prefix = run.prefix
    for folds, entry in [*prefix.entries.items()]:
        yield entry.used, partial(prefix.drop, folds)
    if not run.children:
        yield prefix.footprint.used, partial(_drop_run, parent, run)


def _drop_run(parent: PrefixNode, run: PrefixNode) -> None:
    parent.remove(run)
    run.prefix.footprint.drop()


def _below(run: PrefixNode) -> Iterator[tuple[PrefixNode, PrefixNode]]:
    """Every run behind this one, with the one before it."""
    waiting = [run]
    while waiting:
        parent = waiting.pop()
        for child in parent.following():
            yield parent, child
            waiting.append(child)


def _sample_of(prefix: MessagePrefix) -> bytes:
    """Of the first message of a run: runs that begin with the same one are one run."""
    length = _sampled(prefix)
    return prefix.text[: length : length // 32] if length else b""


def _sampled(prefix: MessagePrefix) -> int:
    """The number of bytes from which the sample of a run is taken."""
    return next((length for length in _SAMPLED if prefix.ends[0] >= length), 0)


def _find(root: PrefixNode, data: bytes, start: int) -> PrefixMatch | None:
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
    return PrefixMatch(path, position, count) if len(path) > 1 else None


def _next_run(run: PrefixNode, data: bytes, position: int) -> tuple[PrefixNode, int] | None:
    """The run that follows in `data`, and how many messages of it."""
    alike: tuple[PrefixNode, ...] = ()
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


def _nothing() -> MessagePrefix:
    return MessagePrefix(None, b"", (), 0, {}, (), Footprint())


def _continued(old: MessagePrefix, new: NewMessages, goes_on: bool) -> MessagePrefix:
    """The prefix with `new` behind `old`: in its place (`goes_on`), or as a run that follows it."""
    before, begun = (old.before, len(old.text)) if goes_on else (old if old.count else None, 0)
    text = new.data[new.position : new.ends[-1]]
    return MessagePrefix(
        before,
        old.text + text if goes_on else text,
        (*(old.ends if goes_on else ()), *[begun + end - new.position for end in new.ends]),
        old.count + len(new.ends),
        old.entries if goes_on else {},
        (*old.fresh, *[old.count + i for i in new.fresh]),
        old.footprint if goes_on else Footprint(),
        old.whole,
        old.searched if goes_on else {},
    )


def _split(parent: PrefixNode, run: PrefixNode, count: int) -> PrefixNode:
    """Divide a run behind its first `count` messages, and give the first half."""
    prefix = run.prefix
    first = _first_of(prefix, count)
    end = prefix.ends[count - 1]
    second = MessagePrefix(
        first,
        prefix.text[end:],
        tuple([each - end for each in prefix.ends[count:]]),
        prefix.count,
        {},
        prefix.fresh,
        prefix.footprint,
    )
    first.footprint.whole, first.footprint.used = prefix.footprint.whole, run.used
    first.footprint.add(_RUN + end + _MESSAGE * count)
    prefix.footprint.add(-(end + _MESSAGE * count))
    for folds, entry in [*prefix.entries.items()]:
        prefix.drop(folds)
        for half, part in ((first, entry.up_to(first.count)), (second, entry.behind(first.count))):
            if part:
                half.keep(folds, part)
    for child in run.following():
        child.prefix.before = second  # else it would keep the undivided text
    half = PrefixNode(first, {})
    half.add(PrefixNode(second, run.children, run.sampled))
    parent.remove(run)
    parent.add(half)
    return half


def _first_of(prefix: MessagePrefix, count: int) -> MessagePrefix:
    known = prefix.count - len(prefix.ends) + count
    fresh = tuple([i for i in prefix.fresh if i < known])
    text = prefix.text[: prefix.ends[count - 1]]
    return MessagePrefix(prefix.before, text, prefix.ends[:count], known, {}, fresh, Footprint())
