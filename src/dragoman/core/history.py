"""What was made of the messages of a conversation before: an agent sends its whole history in every request.

A conversation is found by the beginning of its messages, and recognised message by message, byte for byte.

    conversation:  unknown → met once → known → dropped
    message:       new → past → remembered

- met once: only the body is kept. To learn costs more than to translate, so a conversation must come twice.
- past: the message stood at the same place in the previous request. It comes as a `PastTurn` instead of its
  wire, and functions of a message keep their results in `PastTurn.made`.
- remembered: the results are there; the message is not parsed any more.
- dropped: the least recently used conversation goes when all together take more than the limit.

The last message of a request is always taken as new. Scopes (the callers of a gateway) share nothing, and
nobody writes into what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import CachedDeclarations, cached_declarations
from dragoman.core.codec import Codec
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Message, Past, PastTurn, Wire

MAX_BYTES = 64_000_000
_SMALLEST = 4_096  # bytes of a body; a smaller one is translated before it is found
_KEY = 256  # bytes at the beginning of the conversation
_MOST_ALIKE = 8  # conversations that begin alike, such as with the same instructions
_OVERHEAD = 2_000  # bytes of the objects of a message, beside its text in three forms

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_entries = msgspec.json.Decoder(list[Raw]).decode
_BROKEN = (ValueError, RecursionError, msgspec.MsgspecError)


class _Conversation:
    """`turns` are the known messages at the beginning of `text`, the array of messages that came last."""

    __slots__ = ("body", "key", "size", "text", "tools", "turns")

    def __init__(self, key: Hashable, body: bytes, text: bytes = b"", turns: list[PastTurn] | None = None):
        self.key, self.body, self.text = key, body, text  # one of `body` and `text` is empty
        self.turns: list[PastTurn] = turns or []
        self.tools: tuple[bytes, CachedDeclarations] | None = None
        self.size = len(body) + len(text) + sum(map(_size, self.turns))

    def known(self, text: bytes) -> tuple[int, int]:
        """How many messages, and how many bytes, at the beginning of `text` are known."""
        count = position = 0
        begins = text.startswith
        for turn in self.turns:
            if not begins(turn.piece, position):
                break
            position += len(turn.piece)
            count += 1
        return position, count


class ConversationMemory:
    """The conversations of several callers, in about `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._alike: dict[Hashable, list[_Conversation]] = {}
        self._recent: OrderedDict[int, _Conversation] = OrderedDict()  # by identity, the oldest first
        self._lock = Lock()

    @property
    def conversations(self) -> int:
        return len(self._recent)

    def outline(self, scope: str, client: Codec, data: bytes) -> Wire | None:
        """The body with a `PastTurn` for each message that came before; None where nothing is known of it."""
        field = client.turns
        if not _SMALLEST <= len(data) <= self.max_bytes // 4:
            return None
        at = data.find(b'"%b"' % field.encode())
        if at < 0:
            return None
        key = (scope, client.name, data[at : at + _KEY])
        with self._lock:
            alike = self._alike.get(key)
            if alike is None:
                self._add(_Conversation(key, data))
                return None
        try:
            return self._outline(alike, field, data, client.repeats)
        except _BROKEN:
            return None  # whoever reads it in full finds the error

    def _outline(
        self, alike: list[_Conversation], field: str, data: bytes, repeats: Callable[[Wire], bool]
    ) -> Wire | None:
        fields = _fields(data)
        text = bytes(fields.get(field, b""))
        if text[:1] != b"[":
            return None
        with self._lock:
            conversation, position, count = _closest(alike, text, field)
            turns: list[Any] = conversation.turns[:count]
            new = _pieces(text, position)
            before = _came_before(new[:-1], conversation.text, position)
        wires = [jsontext.decode(raw) for _, raw in new]
        turns += [PastTurn(new[i][0], {}, repeats(wires[i])) for i in range(before)]
        with self._lock:
            if count < len(conversation.turns) and new:  # another way to go on from here
                conversation = _Conversation(conversation.key, b"", text, turns.copy())
                self._add(conversation)
            else:
                self._extend(conversation, text, turns[count:])
        if not turns:
            return None
        wires = [*[turn if turn.repeats else turn.wire for turn in turns], *wires[before:]]
        if not new:
            wires[-1] = turns[-1].wire
        return {
            name: wires if name == field else _decoded(name, raw, conversation)
            for name, raw in fields.items()
        }

    def _add(self, conversation: _Conversation) -> None:
        alike = self._alike.setdefault(conversation.key, [])
        alike.insert(0, conversation)
        self._recent[id(conversation)] = conversation
        self.size += conversation.size
        if len(alike) > _MOST_ALIKE:
            self._drop(alike[-1])
        self._shrink()

    def _extend(self, conversation: _Conversation, text: bytes, turns: list[PastTurn]) -> None:
        if id(conversation) not in self._recent:
            return  # dropped meanwhile
        grown = len(text) - len(conversation.text) - len(conversation.body) + sum(map(_size, turns))
        conversation.turns += turns
        conversation.text, conversation.body = text, b""
        conversation.size += grown
        self.size += grown
        self._recent.move_to_end(id(conversation))
        self._shrink()

    def _shrink(self) -> None:
        while self.size > self.max_bytes and self._recent:
            self._drop(next(iter(self._recent.values())))

    def _drop(self, conversation: _Conversation) -> None:
        del self._recent[id(conversation)]
        self.size -= conversation.size
        alike = self._alike[conversation.key]
        alike.remove(conversation)
        if not alike:
            del self._alike[conversation.key]


def _size(turn: PastTurn) -> int:
    """As wire, as neutral values and as the upstream's wire."""
    return 3 * len(turn.piece) + _OVERHEAD


def _closest(alike: list[_Conversation], text: bytes, field: str) -> tuple[_Conversation, int, int]:
    """The conversation of which `text` is a continuation, with the bytes and messages that are known."""
    best, found = alike[0], (0, 0)
    for conversation in alike:
        if (known := conversation.known(text)) > found:
            best, found = conversation, known
    if found[1] == 0 and not best.text:
        best.text, best.body = bytes(_fields(best.body).get(field, b"")), b""
    return best, *found


def _pieces(text: bytes, position: int) -> list[tuple[bytes, bytes]]:
    """The entries of the array from `position` on: with what separates it from the one before, and alone."""
    rest = text[position:].lstrip()
    if rest == b"]":
        return []
    if position and rest[:1] != b",":
        raise ValueError("an entry ends elsewhere")
    pieces: list[tuple[bytes, bytes]] = []
    for entry in _entries(b"[" + rest[1:]):
        raw = bytes(entry)
        end = text.index(raw, position) + len(raw)
        pieces.append((text[position:end], raw))
        position = end
    return pieces


def _came_before(pieces: list[tuple[bytes, bytes]], text: bytes, position: int) -> int:
    """How many of `pieces` stand in the earlier `text` at the same place."""
    count = 0
    for piece, _ in pieces:
        if not text.startswith(piece, position):
            break
        position += len(piece)
        count += 1
    return count


def _decoded(name: str, raw: Raw, conversation: _Conversation) -> Any:
    text = bytes(raw)
    if name != "tools":
        return jsontext.decode(text)
    if conversation.tools and conversation.tools[0] == text:
        return conversation.tools[1]
    tools = cached_declarations(jsontext.decode(text))
    if type(tools) is CachedDeclarations and tools.is_cached:
        conversation.tools = text, tools
    return tools


# What the stages of a translation use


def decode_turns(
    wires: list[Any], field: str, decode: Callable[[Any, str, Losses], Message], losses: Losses
) -> tuple[tuple[Message, ...], Past | None]:
    """The messages that `wires` hold, and which of them came before."""
    messages: list[Message] = []
    past: Past | None = None
    for i, wire in enumerate(wires):
        if type(wire) is not PastTurn:
            messages.append(decode(wire, f"{field}[{i}]", losses))
            continue
        made = wire.made.get(decode)
        if made is None:
            reported = Losses()
            made = decode(wire.wire, f"{field}[{i}]", reported), tuple(reported)
            wire.made[decode] = made
        message, reported = made
        if reported:
            losses.extend(reported)
        past = past or Past({})
        past.made[id(message)] = wire.made
        messages.append(message)
    return tuple(messages), past


class SentMessage(Struct, frozen=True):
    """A message as the upstream takes it: its entries, as text. `late`: losses for the end of the report."""

    entries: list[Raw]
    losses: tuple[Loss, ...] = ()
    late: tuple[Loss, ...] = ()


EncodeAlone = Callable[[Message, Losses, Losses], Sequence[Any] | None]


def sent_before(message: Message, past: Past, key: Hashable, encode: EncodeAlone) -> SentMessage | None:
    """What `encode` makes of a message that came before; None where it is new or `encode` gives None.

    `encode` may depend on the message, the target of the request and what `key` says, on no other message.
    It reports to two lists, the second of which is for the end of the translation.
    """
    made = past.made.get(id(message))
    if made is None:
        return None
    sent: Any = made.get(key)
    if sent is None:
        losses, late = Losses(), Losses()
        entries = encode(message, losses, late)
        sent = entries is not None and SentMessage(
            [Raw(b",".join(map(jsontext.encode, entries)))] if entries else [], tuple(losses), tuple(late)
        )
        made[key] = sent
    return sent or None
