"""What was made of the messages of a conversation before: an agent sends its whole history in every request.

A message is recognised by its bytes, after the same messages: the known ones form a tree, from the first
message of each conversation on.

    message:  unknown → met → known → dropped

- met: it was the first unknown message of some request. Only its beginning is noted: to learn costs more than
  to translate, so a conversation must come twice.
- known: it came again, or it follows the end of a known conversation. It comes as a `KnownMessage` instead of
  its wire, and functions of a message keep their results in `KnownMessage.made`; it is not parsed any more.
- dropped: the least recently used conversation goes when all together take more than the limit.

The last message of a request is always taken as new. The other fields of a request, its head, are usually the
same in all requests of an agent, in whatever conversation. They are recognised by their bytes too:

    head:  unknown → candidate → known → dropped

- candidate: so many requests with an unknown head have come that it is time to learn one. It is kept once its
  request was translated, unless its tools may hold a key.
- known: it is not parsed any more, and functions of the head keep their results in `KnownHead.made`.
- dropped: the caller has newer ones, or all together take too much.

Scopes (the callers of a gateway) share nothing, and
nobody writes into what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import is_
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import CachedDeclarations, cached_declarations, may_hold_key
from dragoman.core.codec import Codec
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import AnyTool, KnownHead, KnownMessage, Message, Past, Request, Wire
from dragoman.core.model_profile import ModelProfile

T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")

MAX_BYTES = 64_000_000
_SMALLEST = 2_048  # bytes of a body; a smaller one is translated before it is found
_BEGINNING = 256  # bytes of a message that was met
_MOST_MET = 4_096
_MOST_LEARNT = 1_000  # messages of one request: the lock is held meanwhile
_MOST_CHILDREN = 512  # of one message: they are compared one by one
_MOST_TOOLS = 16  # lists of declarations; agents send one or two
_MOST_HEADS = 4  # of one caller: an agent, its subagents, what writes its titles
_LONGEST_WAIT = 1_024  # requests
_MOST_CALLERS = 4_096
_MOST_RESULTS = 32  # of one head: upstreams, models
_OVERHEAD = 2_000  # bytes of the objects of a message, beside its text in three forms
_WHITE = b" \t\r\n"


class _TreeNode(Struct, eq=False, gc=False):
    """A known message and those that were seen to follow it.

    There may be tens of thousands of nodes, and a garbage collection must not look at them or what they hold:
    there are no cycles, and children are tuples, which the collector forgets.
    """

    turn: KnownMessage
    children: tuple[_TreeNode, ...] = ()

    @property
    def size(self) -> int:
        """As wire, as neutral values and as the upstream's wire."""
        return 3 * len(self.turn.piece) + _OVERHEAD


class _CallerRoot(_TreeNode, eq=False, gc=False):
    """Before the first message: the conversations of one caller in one protocol."""

    key: Hashable = None


class Turns(list[Any]):
    """The messages of a request and its head. `keep`, where it is set, makes a candidate known."""

    head: KnownHead | None = None
    keep: Callable[[KnownHead], None] | None = None


class _CallerHeads(Struct, gc=False):
    """The known heads of one caller in one protocol, the latest first.

    `missed` requests had an unknown head since one was learnt; the next is learnt after `wait`, which doubles
    until a known one comes: some clients write something new into every head.
    """

    known: tuple[KnownHead, ...] = ()
    missed: int = 0
    wait: int = 1


class ConversationMemory:
    """The conversations of several callers, in about `max_bytes`, and their heads in a quarter of that."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._callers: dict[Hashable, _CallerRoot] = {}
        # Conversations by the identity of their last known message, oldest first: the nodes from the root on
        self._ends: OrderedDict[int, tuple[_TreeNode, ...]] = OrderedDict()
        self._met: dict[int, int] = {}  # hash → size of the largest request that had nothing to learn
        self._tools: list[tuple[bytes, CachedDeclarations]] = []  # by their text, the latest first
        self._heads: OrderedDict[Hashable, _CallerHeads] = OrderedDict()
        self._head_size = 0
        self._lock = Lock()

    @property
    def conversations(self) -> int:
        return len(self._ends)

    def outline(self, scope: str, client: Codec, data: bytes) -> Wire | None:
        """The body with a `KnownMessage` for each message that came before; None: too little is known."""
        if not _SMALLEST <= len(data) <= self.max_bytes // 4:
            return None
        key = scope, client.name
        head = self._known_head(key, data)
        start = len(head.front) - 1 if head else _array_in(data, client.turns)
        if start < 0:
            return None
        with self._lock:
            caller = self._callers.get(key) or _CallerRoot(KnownMessage(b"", {}), key=key)
            nodes, position = _walk(caller, data, start)
            if nodes:
                self._ends[id(nodes[-1])] = (caller, *nodes)
                self._ends.move_to_end(id(nodes[-1]))
            beginning = hash((key, position - start, data[position : position + _BEGINNING]))
            learns = self._learns(beginning, len(data), bool(nodes and not nodes[-1].children))
            learns_head = head is None and self._learns_head(key)
        known = len(nodes)
        if not learns and position - start < len(data) // 2:  # which is less than what it takes to use it
            if not (head or learns_head):
                return None
            nodes, position = [], start
        try:
            outline = self._outline(client, caller, data, start, position, nodes, learns, head, learns_head)
        except (ValueError, *jsontext.MALFORMED):
            return None  # whoever reads it in full finds the error
        if outline and len(outline[client.turns]) <= known + 1:
            self._met[beginning] = len(data)
        return outline

    def _outline(
        self,
        client: Codec,
        caller: _CallerRoot,
        data: bytes,
        start: int,
        position: int,
        nodes: list[_TreeNode],
        learns: bool,
        head: KnownHead | None,
        learns_head: bool,
    ) -> Wire | None:
        turns = Turns([node.turn if node.turn.repeats else node.turn.wire for node in nodes])
        if head:
            listed = _rest_of_array(data, start, position, len(data) - len(head.tail))
            body, turns.head = head.fields.copy(), head
        else:
            before, listed, after = _around(data, start, position, client.turns)
            if client.turns in before or client.turns in after:
                return None  # it is there twice
            body = {name: self._read(name, raw) for name, raw in before.items()}
            body[client.turns] = None
            for name, raw in after.items():
                body[name] = self._read(name, raw)
        new: list[Any] = jsontext.decode(listed)
        pieces = _pieces(data, position, listed) if learns or learns_head else []
        if learns_head and (not body.get("tools") or type(body["tools"]) is CachedDeclarations):
            end = data.index(b"]", position + sum(map(len, pieces)))
            turns.head = KnownHead(data[: start + 1], data[end:], body.copy(), {})
            turns.keep = partial(self._keep_head, caller.key)
        if not new and turns:
            turns[-1] = nodes[-1].turn.wire
        elif learns:
            learnt = [
                KnownMessage(piece, {}, client.repeats(wire))
                for piece, wire in zip(pieces[:-1][:_MOST_LEARNT], new, strict=False)
            ]
            with self._lock:
                self._learn((caller, *nodes), learnt)
                if caller.children:
                    self._callers.setdefault(caller.key, caller)
            new[: len(learnt)] = [
                turn if turn.repeats else wire for turn, wire in zip(learnt, new, strict=False)
            ]
        turns += new
        body[client.turns] = turns
        return body

    def _known_head(self, key: Hashable, data: bytes) -> KnownHead | None:
        heads = self._heads.get(key)
        if heads is None:
            return None
        for head in heads.known:
            if data.endswith(head.tail) and data.startswith(head.front):
                heads.missed, heads.wait = 0, 1
                return head
        return None

    def _learns_head(self, key: Hashable) -> bool:
        """Whether the unknown head of a request is to be learnt."""
        heads = self._heads.get(key)
        if heads is None:
            self._heads[key] = heads = _CallerHeads()
            while len(self._heads) > _MOST_CALLERS:
                self._drop_heads()
        heads.missed += 1
        return heads.missed > heads.wait

    def _keep_head(self, key: Hashable, head: KnownHead) -> None:
        with self._lock:
            heads = self._heads.setdefault(key, _CallerHeads())
            self._heads.move_to_end(key)
            heads.missed, heads.wait = 0, min(2 * heads.wait, _LONGEST_WAIT)
            self._head_size += _head_size((head,)) - _head_size(heads.known[_MOST_HEADS - 1 :])
            heads.known = (head, *heads.known[: _MOST_HEADS - 1])
            while self._head_size > self.max_bytes // 4:
                self._drop_heads()

    def _drop_heads(self) -> None:
        """Forget the heads of the caller who has had no new one for the longest time."""
        self._head_size -= _head_size(self._heads.popitem(last=False)[1].known)

    def _read(self, name: str, raw: Raw) -> Any:
        text = bytes(raw)
        if name != "tools":
            return jsontext.decode(text)
        for known, tools in self._tools:
            if known == text:
                return tools
        tools = cached_declarations(jsontext.decode(text))
        if type(tools) is CachedDeclarations and tools.is_cached:
            self._tools = [(text, tools), *self._tools[: _MOST_TOOLS - 1]]
        return tools

    def _learns(self, beginning: int, size: int, goes_on: bool) -> bool:
        """Whether to learn the messages from the first unknown one on.

        It was met before, or a known conversation goes on with it, in a request with more than that message.
        """
        met = self._met.get(beginning)
        if met is not None:
            return size > met
        if len(self._met) >= _MOST_MET:
            self._met.pop(next(iter(self._met)))
        self._met[beginning] = 0
        return goes_on

    def _learn(self, path: tuple[_TreeNode, ...], turns: Sequence[KnownMessage]) -> None:
        """Add `turns` behind the end of `path`, where nobody added them meanwhile."""
        node = path[-1]
        if not turns or any(child.turn.piece == turns[0].piece for child in node.children):
            return
        self._ends[id(node)] = path  # so that it is not dropped
        while len(node.children) >= _MOST_CHILDREN and self._ends:
            self._drop(self._ends.popitem(last=False)[1])
        self._ends.pop(id(node), None)
        added: list[_TreeNode] = []
        for turn in turns:
            child = _TreeNode(turn)
            node.children = (child, *node.children)
            self.size += child.size
            added.append(child)
            node = child
        self._ends[id(node)] = (*path, *added)
        while self.size > self.max_bytes and self._ends:
            self._drop(self._ends.popitem(last=False)[1])

    def _drop(self, path: tuple[_TreeNode, ...]) -> None:
        """Forget the messages that only this conversation has."""
        for parent, node in zip(path[-2::-1], path[:0:-1], strict=True):
            if node.children or id(node) in self._ends or node not in parent.children:
                return
            parent.children = tuple([child for child in parent.children if child is not node])
            self.size -= node.size
        if isinstance(path[0], _CallerRoot) and not path[0].children:
            self._callers.pop(path[0].key, None)


def _array_in(data: bytes, field: str) -> int:
    """Where the array in `field` begins; -1 where that takes a parser."""
    name = b'"%b"' % field.encode()
    at = data.find(name)
    while at >= 0:
        at += len(name)
        opening = data.find(b"[", at, at + 16)
        if data[at:opening].strip(_WHITE) == b":":
            return opening
        at = data.find(name, at)
    return -1


def _walk(node: _TreeNode, data: bytes, position: int) -> tuple[list[_TreeNode], int]:
    """The known messages at the beginning of the array at `position`, and where they end."""
    nodes: list[_TreeNode] = []
    begins = data.startswith
    found = True
    while found:
        found = False
        for child in node.children:
            if begins(child.turn.piece, position):
                nodes.append(child)
                position += len(child.turn.piece)
                node, found = child, True
                break
    return nodes, position


def _around(
    data: bytes, start: int, position: int, field: str
) -> tuple[dict[str, Raw], bytes, dict[str, Raw]]:
    """The fields before the array, its entries from `position` on, and the fields behind it.

    What stands before `position` is known to be entries, and is not looked at.
    """
    name = data.rindex(b'"%b"' % field.encode(), 0, start)
    front = data[:name].rstrip(_WHITE).removesuffix(b",")
    before = jsontext.split_object(front + b"}")
    after = jsontext.split_object(b'{"\\u0000":' + _rest_of_array(data, start, position, len(data)))
    return before, bytes(after.pop("\0")), after


def _rest_of_array(data: bytes, start: int, position: int, end: int) -> bytes:
    """The array at `start` with its entries from `position` on; it is closed here where `end` is before its
    end. What follows it up to `end`, if anything, makes this text something else than an array."""
    if position > end:
        raise ValueError("the array ends elsewhere")
    closing = b"]" if end < len(data) else b""
    rest = data[position:end].lstrip(_WHITE) + closing
    if position == start:
        return rest
    if rest[:1] == b"]":
        return b"[" + rest
    rest = rest[1:].lstrip(_WHITE) if rest[:1] == b"," else b"]"
    if rest[:1] == b"]":
        raise ValueError("an entry ends elsewhere")
    return b"[" + rest


def _pieces(data: bytes, position: int, listed: bytes) -> list[bytes]:
    """The text of each entry of `listed`, which begin at `position`, with what separates it from the one
    before."""
    pieces: list[bytes] = []
    for entry in jsontext.split_array(listed):
        raw = bytes(entry)
        end = data.index(raw, position) + len(raw)
        pieces.append(data[position:end])
        position = end
    return pieces


def _head_size(heads: Sequence[KnownHead]) -> int:
    """As wire, as values and as what was made of them."""
    return sum([3 * (len(head.front) + len(head.tail)) + _OVERHEAD for head in heads])


# What the stages of a translation use


DECODED = "decoded"


class DecodedMessage(Struct, frozen=True, gc=False):
    message: Any  # a Message, or what a protocol makes one of
    losses: tuple[Loss, ...]


class _DecodedPrefix(Struct, frozen=True, gc=False):
    """All messages up to the one that holds it, and what was made of them, by identity."""

    messages: tuple[Message, ...]
    losses: tuple[Loss, ...]
    made: dict[int, dict[Any, Any]]


PREFIX = "prefix"
_LOOK_BACK = 64  # entries


def last_kept(entries: Sequence[T], kept: Callable[[T], K | None]) -> tuple[int, K] | None:
    """What is kept beside the last of `entries` that has anything, and how many entries there are up to it.

    A conversation grows at its end, so it is found soon or never.
    """
    for i in range(len(entries) - 1, max(-1, len(entries) - 1 - _LOOK_BACK), -1):
        if (found := kept(entries[i])) is not None:
            return i + 1, found
    return None


def prefix_of(wire: Any) -> Any:
    """What a protocol made of all messages up to this one; None where it is not known."""
    return wire.made.get(PREFIX) if type(wire) is KnownMessage else None


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


def decode_head(
    body: Wire, head: KnownHead | None, decode: Callable[[Wire, Losses], Request], losses: Losses
) -> Request:
    """The request that `decode` makes of everything in `body` but its messages."""
    if head is None:
        return decode(body, losses)
    known: tuple[Request, tuple[Loss, ...]] | None = head.made.get(DECODED)
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
        if len(head.made) > _MOST_RESULTS:
            head.made.clear()
        head.made[key] = known
    if known.losses:
        losses.extend(known.losses)
    return known.wire


class _EncodedHead(Struct, frozen=True, gc=False):
    """`parts` of the request are what it was made of: a stage may have replaced some since."""

    parts: tuple[Any, ...]
    wire: Wire
    losses: tuple[Loss, ...]


def decode_turns(
    wires: list[Any], field: str, decode: Callable[[Any, str, Losses], Message], losses: Losses
) -> tuple[tuple[Message, ...], Past | None]:
    """The messages that `wires` hold, and which of them came before."""
    if KnownMessage not in set(map(type, wires)):
        return tuple([decode(wire, f"{field}[{i}]", losses) for i, wire in enumerate(wires)]), None
    found = last_kept(wires, prefix_of)
    prefix: _DecodedPrefix | None = found[1] if found else None
    messages = list(prefix.messages) if prefix else []
    past = Past(prefix.made.copy() if prefix else {})
    if prefix and prefix.losses:
        losses.extend(prefix.losses)
    known = begun = len(messages)
    reported: list[Loss] = [*prefix.losses] if prefix else []
    for i in range(begun, len(wires)):
        wire = wires[i]
        if type(wire) is not KnownMessage:
            messages.append(decode(wire, f"{field}[{i}]", losses))
            continue
        made: DecodedMessage | None = wire.made.get(DECODED)
        if made is None:
            own = Losses()
            message = decode(wire.wire, f"{field}[{i}]", own)
            made = wire.made[DECODED] = DecodedMessage(message, tuple(own))
        past.made[id(made.message)] = wire.made
        messages.append(made.message)
        if made.losses:
            losses.extend(made.losses)
        if known == i:
            known += 1
            reported += made.losses
    if known > begun:
        if begun:
            wires[begun - 1].made.pop(PREFIX, None)
        decoded = tuple(messages[:known])
        by_id = {id(message): past.made[id(message)] for message in decoded}  # which it keeps alive
        wires[known - 1].made[PREFIX] = _DecodedPrefix(decoded, tuple(reported), by_id)
    return tuple(messages), past


class SentMessage(Struct, frozen=True, gc=False):
    """A message as the upstream takes it: its entries, as one text, or none."""

    entries: tuple[Raw, ...]
    losses: tuple[Loss, ...]


EncodeAlone = Callable[[Message, Losses], Sequence[Any] | None]


def sent_before(message: Message, past: Past, key: Hashable, encode: EncodeAlone) -> SentMessage | None:
    """What `encode` makes of a message that came before; None where it is new or `encode` gives None.

    `encode` may depend on the message, the target of the request and what `key` says, on no other message.
    """
    made = past.made.get(id(message))
    if made is None:
        return None
    sent: Any = made.get(key)
    if sent is None:
        losses = Losses()
        entries = encode(message, losses)
        text = (Raw(b",".join(map(jsontext.encode, entries))),) if entries else ()
        sent = entries is not None and SentMessage(text, tuple(losses))
        made[key] = sent
    return sent or None


class _SentPrefix(Struct, frozen=True, gc=False):
    """All messages up to the one that holds it, as the upstream takes them."""

    messages: tuple[Message, ...]
    entries: tuple[Raw, ...]
    losses: tuple[Loss, ...]


def sent_prefix(
    messages: tuple[Message, ...], past: Past, key: Hashable, encode: EncodeAlone, losses: Losses
) -> tuple[int, list[Any]]:
    """How many messages at the beginning were sent before, and their entries."""
    found = last_kept(messages, lambda message: past.made.get(id(message), _NOTHING).get((PREFIX, key)))
    begun: _SentPrefix | None = (
        found[1] if found and is_same(found[1].messages, messages[: found[0]]) else None
    )
    entries: list[Raw] = [*begun.entries] if begun else []
    reported: list[Loss] = [*begun.losses] if begun else []
    start = count = len(begun.messages) if begun else 0
    while count < len(messages) and (sent := sent_before(messages[count], past, key, encode)):
        entries += sent.entries
        reported += sent.losses
        count += 1
    if count > start:
        if start:
            past.made[id(messages[start - 1])].pop((PREFIX, key), None)
        prefix = _SentPrefix(messages[:count], tuple(entries), tuple(reported))
        past.made[id(messages[count - 1])][PREFIX, key] = prefix
    if reported:
        losses.extend(reported)
    return count, entries


def is_same(beginning: Sequence[Message], messages: Sequence[Message]) -> bool:
    """Whether these are the very same messages; a stage may have replaced or moved some."""
    return len(beginning) == len(messages) and all(map(is_, beginning, messages))


_NOTHING: dict[Any, Any] = {}
