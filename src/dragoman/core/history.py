"""What was made of the beginning of a conversation before: an agent sends its whole history in every request.

Messages are recognised by their bytes, after the same messages. The known ones form a tree of runs, from the
first message of each conversation on; a run has as many messages as all its conversations share.

    message:  unknown → met → known → dropped

- met: it was the first unknown message of some request. Only its beginning is noted: to learn costs more than
  to translate, so a conversation must come twice.
- known: it came again, or it follows the end of a known conversation. It is not parsed any more: `Turns`
  holds the known messages of a request as one `KnownPrefix`, and functions of messages keep in
  `KnownPrefix.made` what they made of all of them, to continue from there.
- dropped: the least recently used conversations go when all together take more than the limit.

The last message of a request is always taken as new. The other fields of a request, its head, are usually the
same in all requests of an agent, in whatever conversation. They are recognised by their bytes too:

    head:  unknown → candidate → known → dropped

- candidate: so many requests with an unknown head have come that it is time to learn one. It is kept once its
  request was translated, unless its tools may hold a key.
- known: it is not parsed any more, and functions of the head keep their results in `KnownHead.made`.
- dropped: the caller has newer ones, or all together take too much.

Scopes (the callers of a gateway) share nothing, and nobody writes into what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from operator import attrgetter, is_
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import CachedDeclarations, LearningPace, cached_declarations, may_hold_key
from dragoman.core.codec import Codec
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.jsontext import CUT, CUT_TEXT
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import (
    KNOWN,
    AnyTool,
    KnownHead,
    KnownPrefix,
    Message,
    Past,
    Request,
    Turns,
    Wire,
)
from dragoman.core.model_profile import ModelProfile

P = ParamSpec("P")

T = TypeVar("T")
MAX_BYTES = 64_000_000
_SMALLEST = 512  # bytes of a body; a smaller one is translated before it is found
_BEGINNING = 256  # bytes of a message that was met
_MOST_MET = 4_096
_MOST_LEARNT = 1_000  # messages of one request
_MOST_ALIKE = 64  # runs that begin alike: they are compared one by one
_MOST_TOOLS = 16  # lists of declarations; agents send one or two
_MOST_HEADS = 4  # of one caller: an agent, its subagents, what writes its titles
_MOST_CALLERS = 4_096
_MOST_ENCODED = 32  # results of one head: upstreams, models
_OVERHEAD = 2_000  # bytes of the objects of a message, beside its text in three forms
_KEPT = 0.9  # of the limit, once it was exceeded
_SAMPLED = (2048, 256, 128, 64, 32, 0)  # bytes at the beginning of a message; 32 of them are its sample
_WHITE = b" \t\r\n"
_SPACE = ord(" ")
_TOOLS = b'"tools"'
_CUT_ENTRY = b"[" + CUT_TEXT


class _Run(Struct, eq=False, gc=False):
    """Messages that followed each other in every conversation so far, and what was seen to follow them.

    There may be thousands of runs, and a garbage collection must not look at what they hold: there are no
    cycles, because a prefix does not know its run.
    """

    prefix: KnownPrefix
    children: dict[bytes, tuple[_Run, ...]]  # by a sample of their first message
    used: int = 0  # the number of the last request
    sampled: tuple[int, ...] = ()  # from how many bytes the samples of the children were taken

    @property
    def size(self) -> int:
        """As wire, as neutral values and as the upstream's wire."""
        return 3 * len(self.prefix.text) + _OVERHEAD * len(self.prefix.ends)

    def following(self) -> Iterator[_Run]:
        for alike in self.children.values():
            yield from alike

    def add(self, child: _Run) -> None:
        sample, length = _sample_of(child.prefix), _sampled(child.prefix)
        self.children[sample] = (child, *self.children.get(sample, ()))
        if length not in self.sampled:
            self.sampled += (length,)

    def remove(self, child: _Run) -> None:
        sample = _sample_of(child.prefix)
        rest = tuple([each for each in self.children.get(sample, ()) if each is not child])
        if rest:
            self.children[sample] = rest
        else:
            self.children.pop(sample, None)


class _Place(Struct):
    """Where the known messages of a request end: behind the first `count` messages of the last run."""

    path: list[_Run]  # from the root on
    position: int  # in the body
    count: int

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.path[-1].prefix.ends)

    @property
    def known(self) -> int:
        """The number of messages, with those of the runs before."""
        prefix = self.path[-1].prefix
        return prefix.count - len(prefix.ends) + self.count


class _CallerHeads(LearningPace, gc=False):
    """The known heads of one caller in one protocol, the latest first; some are to be learnt and not kept."""

    known: tuple[KnownHead, ...] = ()


class ConversationMemory:
    """The conversations of several callers, in about `max_bytes`, and their heads in a quarter of that."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._callers: dict[Hashable, _Run] = {}  # runs without messages
        self._met: dict[int, None] = {}  # hashes
        self._tools: list[tuple[bytes, CachedDeclarations]] = []  # by their text, the latest first
        self._heads: OrderedDict[Hashable, _CallerHeads] = OrderedDict()
        self._head_size = 0
        self._requests = 0
        self._lock = Lock()

    @property
    def conversations(self) -> int:
        return sum(1 for _, run in self._all_runs() if not run.children)

    def outline(self, scope: str, client: Codec, data: bytes) -> Wire | None:
        """The body with its known messages as a prefix (`Turns`); None: too little is known."""
        if not _SMALLEST <= len(data) <= self.max_bytes // 4:
            return None
        caller = scope, client.name
        head = self._known_head(caller, data)
        start = len(head.front) - 1 if head else jsontext.find_array(data, client.turns)
        if start < 0:
            return None
        with self._lock:
            place, learns = self._look_up(caller, data, start)
            learns_head = head is None and self._learns_head(caller)
        position = place.position if place else start
        if not learns and (position - start) * 2 < len(data):  # which is less than what it takes to use it
            if not (head or learns_head):
                return None
            place, position = None, start
        try:
            text, body = self._read(client, data, start, place, head)
            turns = body[client.turns] = Turns(body[client.turns])
            turns.head = head
            learns = learns and len(turns) > 1
            if learns or learns_head:
                listed = text if head else jsontext.split_object(text)[client.turns]
                ends = _ends(jsontext.split_array(listed)[1:], data, position)
                if learns_head and (not body.get("tools") or type(body["tools"]) is CachedDeclarations):
                    end = _skip_white(data, ends[-1] if ends else start + 1)
                    turns.head = KnownHead(data[: start + 1], data[end:], {**body, client.turns: None}, {})
                    turns.keep = partial(self._keep_head, caller)
                if learns:
                    ends = ends[:-1][:_MOST_LEARNT]
                    fresh = [i for i in range(len(ends)) if not client.repeats(turns[i])]
                    turns.prefix = self._learn(caller, data, start, position, ends, fresh)
            if place:
                turns.prefix = turns.prefix or self._prefix_at(place)
                turns[:0] = _entries(turns.prefix, place.known)
        except (ValueError, *jsontext.MALFORMED):
            return None  # whoever reads it in full finds the error
        return body

    def _look_up(self, caller: Hashable, data: bytes, start: int) -> tuple[_Place | None, bool]:
        """Where the known messages of the array at `start` end, and whether those behind are to be learnt."""
        root = self._callers.get(caller)
        place, position = _find(root, data, start) if root else None, start
        if place:
            position, last = place.position, place.path[-1]
            self._requests += 1
            last.used = self._requests
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

    def _read(
        self, client: Codec, data: bytes, start: int, place: _Place | None, head: KnownHead | None
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
            return text, {**head.fields, client.turns: turns}
        pieces = [data[:start], mark, data[position:]]
        known = self._find_tools(data, start, position)
        if known:
            opening, size, _ = known
            at, begin = (0, 0) if opening < start else (2, position)
            piece, opening = pieces[at], opening - begin
            pieces[at] = b"".join([piece[:opening], CUT_TEXT, piece[opening + size :]])
        text = b"".join(pieces)
        body = jsontext.decode(text)
        if not jsontext.is_object(body) or not jsontext.is_array(turns := body.get(client.turns)):
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

    def _keep_head(self, key: Hashable, head: KnownHead) -> None:
        with self._lock:
            heads = self._heads.setdefault(key, _CallerHeads())
            self._heads.move_to_end(key)
            self._head_size += _head_size((head,)) - _head_size(heads.known[_MOST_HEADS - 1 :])
            heads.known = (head, *heads.known[: _MOST_HEADS - 1])
            while self._head_size > self.max_bytes // 4:
                self._drop_heads()

    def _drop_heads(self) -> None:
        """Forget the heads of the caller who has had no new one for the longest time."""
        self._head_size -= _head_size(self._heads.popitem(last=False)[1].known)

    # The tree

    def _prefix_at(self, place: _Place) -> KnownPrefix:
        run = place.path[-1]
        if place.is_whole:
            return run.prefix
        with self._lock:
            parent = place.path[-2]
            if run not in parent.children.get(_sample_of(run.prefix), ()):
                return _first_of(run.prefix, place.count)  # another thread was there
            return _split(parent, run, place.count).prefix

    def _learn(
        self,
        caller: Hashable,
        data: bytes,
        start: int,
        position: int,
        ends: list[int],
        fresh: list[int],
    ) -> KnownPrefix | None:
        """Add the messages behind `position`, which end at `ends`; None: another thread did meanwhile."""
        with self._lock:
            root = self._callers.get(caller) or _Run(KnownPrefix(None, b"", (), 0, {}), {})
            place = _find(root, data, start) or _Place([root], start, 0)
            if place.position != position:
                return None
            run = place.path[-1]
            if not place.is_whole:
                run = _split(place.path[-2], run, place.count)
            old, text = run.prefix, data[position : ends[-1]]
            goes_on = len(place.path) > 1 and not run.children
            before, begun = (old.before, len(old.text)) if goes_on else (old if old.count else None, 0)
            prefix = KnownPrefix(
                before,
                old.text + text if begun else text,
                (*(old.ends if begun else ()), *[begun + end - position for end in ends]),
                old.count + len(ends),
                old.made.copy(),
                (*old.fresh, *[old.count + i for i in fresh]),
            )
            learnt = _Run(prefix, {}, self._requests)
            self.size += learnt.size - (run.size if begun else 0)
            if begun:
                place.path[-2].remove(run)
                run = place.path[-2]
            self._make_room(run, _sample_of(prefix))
            run.add(learnt)
            self._callers.setdefault(caller, root)
            if self.size > self.max_bytes:
                self._drop_oldest()
        return prefix

    def _make_room(self, run: _Run, sample: bytes) -> None:
        alike = run.children.get(sample, ())
        if len(alike) >= _MOST_ALIKE:
            oldest = min(alike, key=attrgetter("used"))
            run.remove(oldest)
            self.size -= oldest.size + sum(child.size for _, child in _below(oldest))

    def _drop_oldest(self) -> None:
        while self.size > self.max_bytes * _KEPT and self._callers:
            leaves = [(parent, run) for parent, run in self._all_runs() if not run.children]
            leaves.sort(key=lambda leaf: leaf[1].used)
            for parent, run in leaves:
                if self.size <= self.max_bytes * _KEPT:
                    break
                parent.remove(run)
                self.size -= run.size
            self._callers = {caller: root for caller, root in self._callers.items() if root.children}

    def _all_runs(self) -> Iterator[tuple[_Run, _Run]]:
        for root in self._callers.values():
            yield from _below(root)


def _below(run: _Run) -> Iterator[tuple[_Run, _Run]]:
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


def _find(root: _Run, data: bytes, start: int) -> _Place | None:
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
    return _Place(path, position, count) if len(path) > 1 else None


def _next_run(run: _Run, data: bytes, position: int) -> tuple[_Run, int] | None:
    """The run that follows in `data`, and how many messages of it."""
    alike: tuple[_Run, ...] = ()
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


def _split(parent: _Run, run: _Run, count: int) -> _Run:
    """Divide a run behind its first `count` messages, and give the first half."""
    prefix = run.prefix
    first = _first_of(prefix, count)
    end = prefix.ends[count - 1]
    second = KnownPrefix(
        first,
        prefix.text[end:],
        tuple([each - end for each in prefix.ends[count:]]),
        prefix.count,
        prefix.made,
        prefix.fresh,
    )
    half = _Run(first, {}, run.used)
    half.add(_Run(second, run.children, run.used, run.sampled))
    parent.remove(run)
    parent.add(half)
    return half


def _first_of(prefix: KnownPrefix, count: int) -> KnownPrefix:
    known = prefix.count - len(prefix.ends) + count
    fresh = tuple([i for i in prefix.fresh if i < known])
    return KnownPrefix(
        prefix.before, prefix.text[: prefix.ends[count - 1]], prefix.ends[:count], known, {}, fresh
    )


def _entries(prefix: KnownPrefix, count: int) -> list[Any]:
    """The first `count` entries of a request with this prefix."""
    entries: list[Any] = [KNOWN] * count
    for i in prefix.fresh:
        if i < count:
            entries[i] = prefix.wire(i)
    return entries


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


def _head_size(heads: Sequence[KnownHead]) -> int:
    """As wire, as values and as what was made of them."""
    return sum([3 * (len(head.front) + len(head.tail)) + _OVERHEAD for head in heads])


# What the stages of a translation use


DECODED = "decoded"
_ALONE = "alone"
EncodeAlone = Callable[[Message, Losses], Sequence[Any] | None]


def is_same(beginning: tuple[Message, ...], messages: tuple[Message, ...]) -> bool:
    """Whether these are the same messages; a stage may have replaced or moved some."""
    if not beginning or not messages:
        return not beginning and not messages
    # A comparison of tuples is quick where their items are identical. Equal messages of other places pass it,
    # but where some were moved the last one was too
    return beginning[-1] is messages[-1] and beginning == messages


def keep_head(turns: Any, tools: Sequence[AnyTool]) -> None:
    """Once a request is translated: its head becomes known, where that is a candidate."""
    if type(turns) is Turns and turns.keep and turns.head:
        if not may_hold_key(tools):
            turns.keep(turns.head)
        turns.keep = None


def turns_of(body: Wire, field: str, protocol: str) -> list[Any]:
    turns = field_of(body, field, protocol)
    if not jsontext.is_array(turns):
        got = "nothing" if turns is None else describe(turns)
        raise WireError(protocol, field, f"expected an array, got {got}")
    return turns


def known_head(turns: Any) -> KnownHead | None:
    """The head of a request with these messages; one without messages has none."""
    return turns.head if type(turns) is Turns and turns else None


def decode_head(body: Wire, head: KnownHead | None, decode: Callable[[Wire, Losses], T], losses: Losses) -> T:
    """What `decode` makes of everything in `body` but its messages: the request without them."""
    if head is None:
        return decode(body, losses)
    known: tuple[T, tuple[Loss, ...]] | None = head.made.get(DECODED)
    if known is None:
        own = Losses()
        known = head.made[DECODED] = decode(body, own), tuple(own)
    if known[1]:
        losses.extend(known[1])
    return known[0]


def encode_head(
    request: Request,
    losses: Losses,
    profile: ModelProfile,
    encode: Callable[Concatenate[Request, Losses, ModelProfile, P], Wire],
    *others: P.args,
    **_: P.kwargs,
) -> Wire:
    """What `encode` makes of `others` and of the model, tools, choice, settings and switches of `request`.

    Nobody writes into it.
    """
    head = request.head
    if head is None:
        return encode(request, losses, profile, *others)  # pyright: ignore[reportCallIssue] - all positional
    key = encode, profile, request.model, request.stream, request.parallel, *others
    parts = request.tools, request.tool_choice, request.settings, request.extras
    known: _EncodedHead | None = head.made.get(key)
    if known is None or not all(map(is_, known.parts, parts)):
        own = Losses()
        known = _EncodedHead(parts, encode(request, own, profile, *others), tuple(own))  # pyright: ignore[reportCallIssue] - as above
        if len(head.made) > _MOST_ENCODED:
            head.made.clear()
        head.made[key] = known
    if known.losses:
        losses.extend(known.losses)
    return known.wire


def printed_fields(head: KnownHead, model: str) -> jsontext.PrintedFields:
    """The fields that were printed before for requests with this head to this model; what is longer than the
    head was not made of it."""
    found: jsontext.PrintedFields | None = head.made.get((printed_fields, model))
    if found is None:
        if len(head.made) > _MOST_ENCODED:
            head.made.clear()
        found = jsontext.PrintedFields(_head_size((head,)))
        head.made[printed_fields, model] = found
    return found


class _EncodedHead(Struct, frozen=True, gc=False):
    """`parts` of the request are what it was made of: a stage may have replaced some since."""

    parts: tuple[Any, ...]
    wire: Wire
    losses: tuple[Loss, ...]


class _Decoded(Struct, frozen=True, gc=False):
    messages: tuple[Message, ...]
    losses: tuple[Loss, ...]


def decode_turns(
    wires: list[Any], field: str, decode: Callable[[Any, str, Losses], Message], losses: Losses
) -> tuple[tuple[Message, ...], Past | None]:
    """The messages that `wires` hold, and which of them came before."""
    if type(wires) is not Turns or (prefix := wires.prefix) is None:
        return tuple([decode(wire, f"{field}[{i}]", losses) for i, wire in enumerate(wires)]), None
    known: _Decoded | None = prefix.made.get(DECODED)
    if known is None or len(known.messages) < prefix.count:
        own, messages = Losses(), [*known.messages] if known else []
        if known:
            own.extend(known.losses)
        for i in range(len(messages), prefix.count):
            messages.append(decode(wires.wire(i), f"{field}[{i}]", own))
        known = prefix.made[DECODED] = _Decoded(tuple(messages), tuple(own))
    if known.losses:
        losses.extend(known.losses)
    new = [decode(wires[i], f"{field}[{i}]", losses) for i in range(prefix.count, len(wires))]
    return (*known.messages, *new), Past(known.messages, prefix.made)


def some(messages: tuple[Message, ...], past: Past | None, test: Callable[[Message], bool]) -> bool:
    """Whether `test` holds for one of the messages; it depends on the message alone."""
    count = len(past.messages) if past else 0
    if past is None or not is_same(past.messages, messages[:count]):
        return any(map(test, messages))
    known: tuple[tuple[Message, ...], bool] | None = past.made.get(test)
    if known is None or known[0] is not past.messages:
        first, found = known or ((), False)
        if not is_same(first, past.messages[: len(first)]):
            first, found = (), False
        known = past.made[test] = past.messages, found or any(map(test, past.messages[len(first) :]))
    return known[1] or any(map(test, messages[count:]))


class _Sent(Struct, frozen=True, gc=False):
    """Messages as the upstream takes them, from the one at `start` on: their entries as text."""

    messages: tuple[Message, ...]
    start: int
    entries: tuple[Raw, ...]
    losses: tuple[Loss, ...]


def sent_prefix(
    messages: tuple[Message, ...],
    start: int,
    past: Past | None,
    key: Hashable,
    encode: EncodeAlone,
    losses: Losses,
    joins: bool = True,
) -> tuple[int, list[Any]]:
    """How many messages at the beginning were sent before, and the entries of those from `start` on.

    `encode` may depend on the message, the target of the request and what `key` says, on no other message; it
    gives None for a message that depends on others. `joins`: all but the last may be one text.
    """
    if past is None or len(past.messages) <= start:
        return start, []
    if not is_same(past.messages, messages[: len(past.messages)]):
        past.alone = True
        return start, []
    sent: _Sent | None = past.made.get(key)
    if sent is None or sent.messages is not past.messages:
        sent = _sent_further(sent, past, start, encode, joins)
        if len(past.made) > MOST_RESULTS:
            past.made.clear()
        past.made[key] = sent
    past.alone = len(sent.messages) < len(past.messages)
    if sent.losses:
        losses.extend(sent.losses)
    return len(sent.messages), [*sent.entries]


MOST_RESULTS = 8  # that are kept beside messages: targets, lists of names


def _sent_further(sent: _Sent | None, past: Past, start: int, encode: EncodeAlone, joins: bool) -> _Sent:
    """What is sent of all messages of `past`, as far as each stands for itself."""
    if sent and (sent.start != start or not is_same(sent.messages, past.messages[: len(sent.messages)])):
        sent = None
    texts: list[Raw | bytes] = [*sent.entries] if sent else []
    reported, count = Losses(), len(sent.messages) if sent else start
    if sent:
        reported.extend(sent.losses)
    for message in past.messages[count:]:
        own = Losses()
        if (entries := encode(message, own)) is None:
            break
        if entries:
            texts.append(b",".join(map(jsontext.encode, entries)))
        if own.items:
            reported.extend(own)
        count += 1
    if joins and len(texts) > 2:
        texts = [b",".join(texts[:-1]), texts[-1]]
    covered = past.messages if count == len(past.messages) else past.messages[:count]
    return _Sent(covered, start, tuple(map(Raw, texts)), tuple(reported))


class SentMessage(Struct, frozen=True, gc=False):
    """A message as the upstream takes it: its entries, as one text, or none."""

    entries: tuple[Raw, ...]
    losses: tuple[Loss, ...]


def sent_before(
    message: Message, past: Past | None, key: Hashable, encode: EncodeAlone
) -> SentMessage | None:
    """Like `sent_prefix` for a single message, where the beginning of the conversation was changed or some
    message of it depends on others. None where it is new or `encode` gives None."""
    if past is None or not past.alone:
        return None
    known: dict[int, tuple[Message, dict[Hashable, Any]]] = past.made.setdefault(_ALONE, {})
    if len(known) < len(past.messages):
        known.update({id(each): (each, {}) for each in past.messages if id(each) not in known})
    if (found := known.get(id(message))) is None:
        return None
    sent = found[1].get(key)
    if sent is None:
        losses = Losses()
        entries = encode(message, losses)
        text = (Raw(b",".join(map(jsontext.encode, entries))),) if entries else ()
        sent = found[1][key] = entries is not None and SentMessage(text, tuple(losses))
    return sent or None
