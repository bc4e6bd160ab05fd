"""Conversations that came before: an agent sends its whole history in every request.

`ConversationMemory.read` reads a body as far as it is unknown. Its known messages (`prefix_tree.py`) are not
parsed: they are cut out, and a mark that no client can know stands in their place, as in that of known tools.
A mark that does not come back where it belongs tells that the array or the tools were others, and the body is
read in full. What folds made of the known messages is in `checkpoints.py`.

The other fields of a request, its head, are usually the same in all requests of an agent, in whatever
conversation. They are recognised by their bytes too:

    head:  unknown → candidate → known → dropped

- candidate: so many requests with an unknown head have come that it is time to learn one. It is kept once its
  request was translated, unless its tools may hold a key.
- known: it is not parsed any more, and what was made of it is kept (`KnownHead.made`).
- dropped: the caller has newer ones, or all together take too much.

Scopes (the callers of a gateway) share nothing, and nobody writes into what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Any

from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import CachedDeclarations, LearningPace, cached_declarations, may_hold_key
from dragoman.core.codec import Codec
from dragoman.core.fields import PartlyReadBody
from dragoman.core.fold import Fold, RequestShape
from dragoman.core.jsontext import CUT, CUT_TEXT
from dragoman.core.model import AnyTool, Wire
from dragoman.memory.checkpoints import CacheEntry, Checkpoint
from dragoman.memory.footprint import Footprint
from dragoman.memory.prefix_tree import MessagePrefix, NewMessages, PrefixMatch, PrefixTree

MAX_BYTES = 64_000_000
_SMALLEST = 512  # bytes of a body; a smaller one is translated before it is found
_MOST_LEARNT = 1_000  # messages of one request
_MOST_TOOLS = 16  # lists of declarations; agents send one or two
_MOST_HEADS = 4  # of one caller: an agent, its subagents, what writes its titles
_MOST_CALLERS = 4_096
_MOST_WHOLE = 8  # targets for which a conversation is looked at together
_MOST_MADE = 32  # of one head: upstreams, models
_HEAD = 2_000  # bytes of the objects of a head, beside its text and its fields
_KEPT = 0.9  # of the limit, once it was exceeded
_SPACE = ord(" ")
_TOOLS = b'"tools"'
_CUT_ENTRY = b"[" + CUT_TEXT


class KnownHead(Struct, eq=False, gc=False):
    """The fields of a request beside its messages, which were the same in an earlier request of this caller.

    `front` is the text up to the array of messages, `tail` the text from its end on. `made` holds what
    was made of the fields, by whatever else it depends on.
    """

    front: bytes
    tail: bytes
    fields: Wire
    footprint: Footprint
    made: dict[Hashable, tuple[Any, int]] = {}  # with its size
    searched: dict[bytes, bool] = {}

    def holds(self, text: bytes) -> bool:
        found = self.searched.get(text)
        if found is None:
            found = self.searched[text] = self.front.rfind(text) >= 0 or self.tail.rfind(text) >= 0
        return found

    @property
    def length(self) -> int:
        return len(self.front) + len(self.tail)

    def get(self, key: Hashable) -> Any:
        found = self.made.get(key)
        return found[0] if found else None

    def keep(self, key: Hashable, made: Any, size: int) -> None:
        if key not in self.made and len(self.made) >= _MOST_MADE:
            self.footprint.add(-sum([each[1] for each in self.made.values()]))
            self.made.clear()
        before = self.made.get(key)
        self.footprint.add(size - (before[1] if before else 0))
        self.made[key] = made, size


class _CallerHeads(LearningPace, gc=False):
    """The known heads of one caller in one protocol, the latest first; some are to be learnt and not kept."""

    known: tuple[KnownHead, ...] = ()


class Found(Struct, frozen=True):
    """A checkpoint, with all the folds that it is of and what they wrote."""

    folds: tuple[Fold, ...]
    entry: CacheEntry
    point: Checkpoint


class Reading(PartlyReadBody):
    """A body that was read as far as it is unknown: `wires` are its messages behind the first `known`.

    `fields` are the others, and in that of the messages those that somebody may look for. The array of the
    messages begins at `start` in `data`.
    """

    data: bytes
    start: int
    wires: list[Any]
    known: int
    memory: ConversationMemory
    prefix: MessagePrefix | None = None
    head: KnownHead | None = None
    keep_head: Callable[[KnownHead], None] | None = None

    @property
    def count(self) -> int:
        return self.known + len(self.wires)

    @property
    def place(self) -> int:
        """After how many messages a checkpoint may be kept; the last one is always taken as new."""
        return min(self.prefix.count, self.count - 1) if self.prefix else 0

    def holds(self, text: bytes) -> bool:
        if self.prefix and self.prefix.holds(text):
            return True
        begin = self.start + self.prefix.length if self.prefix else 0
        head = self.head if self.keep_head is None else None
        if head is None:
            return self.data.rfind(text, begin) >= 0 or self.data.rfind(text, 0, self.start + 1) >= 0
        return head.holds(text) or self.data.rfind(text, begin, len(self.data) - len(head.tail)) >= 0

    def wires_from(self, start: int) -> list[Any]:
        if start >= self.known or not self.prefix:
            return self.wires[start - self.known :]
        return [*[self.prefix.wire(i) for i in range(start, self.known)], *self.wires]

    def hoisted(self, test: Callable[[Any], bool]) -> list[tuple[int, Any]]:
        """The messages for which `test` holds, with their places."""
        known = [(i, self.prefix.wire(i)) for i in self.prefix.fresh if i < self.known] if self.prefix else []
        return [each for each in (*known, *enumerate(self.wires, self.known)) if test(each[1])]

    def find(self, folds: tuple[Fold, ...], place: int) -> Found | None:
        """The deepest checkpoint within the first `place` messages, of folds that begin with these."""
        best: Found | None = None
        prefix, size = self.prefix, len(folds)
        while prefix:
            for key, entry in [*prefix.entries.items()]:
                point = entry.find(place) if key[:size] == folds else None
                if point and (best is None or point.count > best.point.count):
                    best = Found(key, entry, point)
            if best:
                best.entry.used = prefix.footprint.used
                return best
            prefix = prefix.before
        return None

    def keep(self, folds: tuple[Fold, ...], text: bytes, point: Checkpoint, found: Found | None) -> None:
        if self.prefix:
            entry = found.entry if found else CacheEntry(b"", ())
            self.memory.keep(self.prefix, folds, entry.grown(text, point))

    def takes_whole(self, target: Hashable) -> bool:
        """Whether the messages had to be looked at together when they came last."""
        return self.prefix is not None and target in self.prefix.whole

    def note_whole(self, target: Hashable) -> None:
        """Next time no checkpoint is looked for."""
        if self.prefix and target not in self.prefix.whole:
            self.prefix.whole = (*self.prefix.whole[1 - _MOST_WHOLE :], target)

    def succeed(self, tools: Sequence[AnyTool]) -> None:
        """The request was translated: its head becomes known, where that is a candidate."""
        if self.keep_head and self.head:
            if not may_hold_key(tools):
                self.keep_head(self.head)
            self.keep_head = None


class ConversationMemory:
    """The conversations of several callers with all that was made of them, in about `max_bytes`.

    Their heads take at most a quarter of it.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._messages = PrefixTree()
        self._tools: list[tuple[bytes, CachedDeclarations]] = []  # by their text, the latest first
        self._heads: OrderedDict[Hashable, _CallerHeads] = OrderedDict()
        self._head_footprint = Footprint()
        self._lock = Lock()

    @property
    def size(self) -> int:
        return self._messages.footprint.size + self._head_footprint.size

    @property
    def conversations(self) -> int:
        return self._messages.conversations

    def read(self, scope: str, client: Codec, data: bytes) -> Reading | None:
        """The body as far as it is unknown; None: too little is known."""
        if not _SMALLEST <= len(data) <= self.max_bytes // 4:
            return None
        caller, field = (scope, client.name), client.conversation.field
        head = self._known_head(caller, data)
        start = len(head.front) - 1 if head else jsontext.find_array(data, field)
        if start < 0:
            return None
        with self._lock:
            if self._messages.footprint.size + self._head_footprint.size > self.max_bytes:
                self._make_room()
            place, learns = self._messages.look_up(caller, data, start)
            learns_head = head is None and self._learns_head(caller)
        position = place.position if place else start
        if not learns and (position - start) * 2 < len(data):  # which is less than what it takes to use it
            if not (head or learns_head):
                return None
            place, position = None, start
        try:
            text, body = self._read(field, data, start, place, head)
            wires = body[field]
            reading = Reading(body, data, start, wires, place.known if place else 0, self, head=head)
            learns = learns and len(wires) > 1
            if learns or learns_head:
                listed = text if head else jsontext.split_object(text)[field]
                ends = _ends(jsontext.split_array(listed)[1:], data, position)
                if learns_head:
                    self._propose_head(caller, reading, field, ends[-1] if ends else start + 1)
                if learns:
                    ends = ends[:-1][:_MOST_LEARNT]
                    fresh = _fresh(client.conversation, wires[: len(ends)])
                    new = NewMessages(data, start, position, ends, fresh, place)
                    reading.prefix = self._learn(caller, new)
            if place:
                self._restore_fresh(reading, field, place)
        except (ValueError, *jsontext.MALFORMED):
            return None  # whoever reads it in full finds the error
        return reading

    def _restore_fresh(self, reading: Reading, field: str, place: PrefixMatch) -> None:
        """Put known entries back that somebody looks at in each request."""
        prefix = reading.prefix = reading.prefix or self._prefix_at(place)
        if prefix.fresh:
            known = [prefix.wire(i) for i in prefix.fresh if i < reading.known]
            reading.fields[field] = [*known, *reading.wires]

    def keep(self, prefix: MessagePrefix, folds: tuple[Fold, ...], entry: CacheEntry) -> None:
        with self._lock:
            prefix.keep(folds, entry)

    def _learn(self, caller: Hashable, new: NewMessages) -> MessagePrefix | None:
        with self._lock:
            learnt = self._messages.learn(caller, new)
            expected = 2 * (new.ends[-1] - new.position)  # as values, and as what is sent
            if self.size + expected > self.max_bytes:
                self._make_room(expected)
            return learnt

    def _make_room(self, expected: int = 0) -> None:
        self._messages.drop_oldest(_KEPT * self.max_bytes - self._head_footprint.size - expected)

    def _prefix_at(self, place: PrefixMatch) -> MessagePrefix:
        if place.is_whole:
            return place.path[-1].prefix
        with self._lock:
            return self._messages.prefix_at(place)

    def _read(
        self, field: str, data: bytes, start: int, place: PrefixMatch | None, head: KnownHead | None
    ) -> tuple[bytes, Wire]:
        """The body with only its unknown messages, and the text of which they were read: their array, where
        the head is known. In the text a mark stands for the known ones, or before the first. Raises
        ValueError."""
        mark, position = (_CUT_ENTRY, place.position) if place else (_CUT_ENTRY + b",", start + 1)
        if head:
            end = len(data) - len(head.tail)
            if position > end:
                raise ValueError("the array ends elsewhere")
            text = b"".join([mark, data[position:end], b"]"])
            turns = jsontext.decode(text)
            del turns[0]
            return text, {**head.fields, field: turns}
        pieces = [data[:start], mark, data[position:]]
        known = self._find_tools(data, start, position)
        if known:
            opening, size, _ = known
            at, begin = (0, 0) if opening < start else (2, position)
            piece, opening = pieces[at], opening - begin
            pieces[at] = b"".join([piece[:opening], CUT_TEXT, piece[opening + size :]])
        text = b"".join(pieces)
        body = jsontext.decode(text)
        if not jsontext.is_object(body) or not jsontext.is_array(turns := body.get(field)):
            raise ValueError("there is no such array")
        if not turns or turns.pop(0) != CUT:  # it stands in another object, or the field comes twice
            raise ValueError("the array is another one")
        if known:
            if body.get("tools") != CUT:
                raise ValueError("the tools are others")
            body["tools"] = known[2]
        elif tools := body.get("tools"):
            body["tools"] = self._remembered(tools, text)
        return text, body

    def _find_tools(
        self, data: bytes, start: int, position: int
    ) -> tuple[int, int, CachedDeclarations] | None:
        """Where the tools stand in the body, before `start` or behind `position`, how long their text is, and
        the same tools from the cache."""
        at = data.rfind(_TOOLS, position) if self._tools else -1
        if at < 0:
            at = data.rfind(_TOOLS, 0, start) if self._tools else -1
        opening = jsontext.array_behind(data, at + len(_TOOLS)) if at >= 0 else -1
        if opening >= 0:
            for text, tools in self._tools:
                if data.startswith(text, opening):
                    return opening, len(text), tools
        return None

    def _remembered(self, tools: Any, text: bytes) -> Any:
        found = cached_declarations(tools)
        if type(found) is CachedDeclarations and found.is_cached:
            spelled = bytes(jsontext.split_object(text)["tools"])
            self._tools = [(spelled, found), *self._tools[: _MOST_TOOLS - 1]]
        return found

    def _known_head(self, key: Hashable, data: bytes) -> KnownHead | None:
        heads = self._heads.get(key)
        if heads is None:
            return None
        for head in heads.known:
            if data.endswith(head.tail) and data.startswith(head.front):
                heads.found()
                return head
        return None

    def _learns_head(self, key: Hashable) -> bool:
        """Whether the unknown head of a request is to be learnt."""
        heads = self._heads.get(key)
        if heads is None:
            self._heads[key] = heads = _CallerHeads()
            while len(self._heads) > _MOST_CALLERS:
                self._drop_heads()
        return heads.is_due()

    def _propose_head(self, key: Hashable, reading: Reading, field: str, end: int) -> None:
        """The array of the messages ends at `end`. Tools that are not in their cache are still to be learnt
        themselves."""
        fields, data = {**reading.fields, field: None}, reading.data
        if not fields.get("tools") or type(fields["tools"]) is CachedDeclarations:
            tail = data[_skip_white(data, end) :]
            reading.head = KnownHead(data[: reading.start + 1], tail, fields, Footprint())
            reading.head.footprint.add(2 * reading.head.length + _HEAD)
            reading.keep_head = partial(self._keep_head, key)

    def _keep_head(self, key: Hashable, head: KnownHead) -> None:
        with self._lock:
            heads = self._heads.setdefault(key, _CallerHeads())
            self._heads.move_to_end(key)
            for dropped in heads.known[_MOST_HEADS - 1 :]:
                dropped.footprint.drop()
            heads.known = (head, *heads.known[: _MOST_HEADS - 1])
            head.footprint.whole = self._head_footprint
            self._head_footprint.add(head.footprint.size)
            while self._head_footprint.size > self.max_bytes // 4:
                self._drop_heads()

    def _drop_heads(self) -> None:
        """Forget the heads of the caller who has had no new one for the longest time."""
        for head in self._heads.popitem(last=False)[1].known:
            head.footprint.drop()


def _fresh(conversation: RequestShape, entries: Sequence[Any]) -> list[int]:
    """Which entries others than their decoder look at, so that each request gets them."""
    repeats = conversation.repeats
    return [i for i, entry in enumerate(entries) if not repeats(entry)] if repeats else []


def _ends(entries: Sequence[Raw], data: bytes, position: int) -> list[int]:
    """Where the entries of an array, which stand behind `position`, end in `data`."""
    ends: list[int] = []
    for raw in entries:
        position = _skip_white(data, _skip_white(data, position) + 1) + len(bytes(raw))
        ends.append(position)
    return ends


def _skip_white(data: bytes, position: int) -> int:
    while data[position] <= _SPACE:
        position += 1
    return position
