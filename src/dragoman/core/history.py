"""What the stages of a translation use of a known conversation: results made for an earlier request.

`ConversationMemory` finds which messages of a request came before (`Turns.prefix`) and whether the fields
beside them did (`Turns.head`). Functions of messages keep in `KnownPrefix.made` what they made of all of
them, and functions of the head in `KnownHead.made`; the next request takes it and goes on from there. With
nothing known the same functions run, and their results are not kept.

`Past` says which messages of a request such results are about. A stage that replaces one of them breaks the
comparison with them (`is_same`), so nothing stale can be found; then single messages are looked up
(`sent_before`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import is_
from sys import getsizeof
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import may_hold_key
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.footprint import KeptResult, weigh
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import (
    AnyTool,
    Foreign,
    KnownHead,
    KnownPrefix,
    Message,
    Past,
    Reasoning,
    Request,
    Text,
    ToolResult,
    Turns,
    Wire,
)
from dragoman.core.model_profile import ModelProfile

P = ParamSpec("P")
T = TypeVar("T")
_MESSAGE, _PART, _LOSS, _ENTRY = 400, 200, 300, 100  # bytes of objects, beside their texts
_HEAD = 2_000
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
        known = decode(body, own), tuple(own)
        head.keep(DECODED, known, head.length + _LOSS * len(own))
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
        head.keep(key, known, _HEAD + _LOSS * len(own))
    if known.losses:
        losses.extend(known.losses)
    return known.wire


def printed_fields(head: KnownHead, model: str) -> jsontext.PrintedFields:
    """The fields that were printed before for requests with this head to this model; what is longer than the
    head was not made of it."""
    found: jsontext.PrintedFields | None = head.made.get((printed_fields, model))
    if found is None:
        found = jsontext.PrintedFields(3 * head.length + _HEAD)
        head.keep((printed_fields, model), found, head.length + _HEAD)
    return found


class _EncodedHead(Struct, frozen=True, gc=False):
    """`parts` of the request are what it was made of: a stage may have replaced some since."""

    parts: tuple[Any, ...]
    wire: Wire
    losses: tuple[Loss, ...]


class _Decoded(KeptResult):
    messages: tuple[Message, ...]
    losses: tuple[Loss, ...]


def decode_turns(
    wires: list[Any], field: str, decode: Callable[[Any, str, Losses], Message], losses: Losses
) -> tuple[tuple[Message, ...], Past | None]:
    """The messages that `wires` hold, and which of them came before."""
    if type(wires) is not Turns or (prefix := wires.prefix) is None:
        return tuple([decode(wire, f"{field}[{i}]", losses) for i, wire in enumerate(wires)]), None
    known: _Decoded | None = prefix.decoded.get(DECODED)
    if known is None or len(known.messages) < prefix.count:
        own, messages = Losses(), [*known.messages] if known else []
        begun = len(messages)
        if known:
            own.extend(known.losses)
        for i in range(begun, prefix.count):
            messages.append(decode(wires.wire(i), f"{field}[{i}]", own))
        decoded = _Decoded(tuple(messages), tuple(own))
        keep_decoded(prefix, DECODED, decoded, decoded_size(prefix, begun, messages[begun:]))
        known = decoded
    if known.losses:
        losses.extend(known.losses)
    new = [decode(wires[i], f"{field}[{i}]", losses) for i in range(prefix.count, len(wires))]
    return (*known.messages, *new), Past(known.messages, prefix.made, prefix.footprint)


def keep_decoded(prefix: KnownPrefix, key: Hashable, decoded: KeptResult, added: int) -> None:
    """Keep what was decoded of all messages; `added` is the size of those that were not known before."""
    before: KeptResult | None = prefix.decoded.get(key)
    decoded.size = before.size + added if before else added
    prefix.decoded[key] = decoded
    prefix.footprint.add(added)


def decoded_size(prefix: KnownPrefix, first: int, messages: Iterable[Any]) -> int:
    """What `messages` take, which were decoded from the wires of `prefix` from the one at `first` on.

    The length of a wire stands for its texts in UTF-8, which a string that is not ASCII keeps beside its own
    characters once it was printed. Types are compared by `is`, because this runs for each new part.
    """
    size, before = 0, prefix
    while before and before.count > first:
        skipped = first - (before.count - len(before.ends))
        size += len(before.text) - (before.ends[skipped - 1] if skipped > 0 else 0)
        before = before.before
    for message in messages:
        size += _MESSAGE + _PART * len(message.parts)
        for part in message.parts:
            kind = type(part)  # pyright: ignore[reportUnknownVariableType] - of Any
            if kind is Text or kind is Reasoning:
                if not part.text.isascii():
                    size += getsizeof(part.text)
            elif kind is ToolResult:
                size += _PART * len(part.content)
                for each in part.content:
                    if type(each) is Text and not each.text.isascii():
                        size += getsizeof(each.text)
            elif kind is Foreign:
                size += weigh(part.body)
    return size


def some(messages: tuple[Message, ...], past: Past | None, test: Callable[[Message], bool]) -> bool:
    """Whether `test` holds for one of the messages; it depends on the message alone."""
    count = len(past.messages) if past else 0
    if past is None or not is_same(past.messages, messages[:count]):
        return any(map(test, messages))
    known: _Found | None = past.made.get(test)
    if known is None or known.messages is not past.messages:
        first, found = (known.messages, known.found) if known else ((), False)
        if not is_same(first, past.messages[: len(first)]):
            first, found = (), False
        known = _Found(past.messages, found or any(map(test, past.messages[len(first) :])), size=_ENTRY)
        past.keep(test, known)
    return known.found or any(map(test, messages[count:]))


class _Found(KeptResult):
    messages: tuple[Message, ...]
    found: bool


class _Sent(KeptResult):
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
    if sent is None or sent.messages is not past.messages or sent.start != start:
        sent = _sent_further(sent, past, start, encode, joins)
        past.keep(key, sent)
    past.alone = len(sent.messages) < len(past.messages)
    if sent.losses:
        losses.extend(sent.losses)
    return len(sent.messages), [*sent.entries]


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
    size = sum(map(len, texts)) + _ENTRY * len(texts) + _LOSS * len(reported)
    return _Sent(covered, start, tuple(map(Raw, texts)), tuple(reported), size=size)


class SentMessage(Struct, frozen=True, gc=False):
    """A message as the upstream takes it: its entries, as one text, or none."""

    entries: tuple[Raw, ...]
    losses: tuple[Loss, ...]


_SentByKey = dict[Hashable, SentMessage | None]


class _Alone(KeptResult):
    """Messages by their id(), and what each becomes, by key."""

    known: dict[int, tuple[Message, _SentByKey]]


def sent_before(
    message: Message, past: Past | None, key: Hashable, encode: EncodeAlone
) -> SentMessage | None:
    """Like `sent_prefix` for a single message, where the beginning of the conversation was changed or some
    message of it depends on others. None where it is new or `encode` gives None."""
    if past is None or not past.alone:
        return None
    alone: _Alone | None = past.made.get(_ALONE)
    if alone is None or len(alone.known) < len(past.messages):
        known: dict[int, tuple[Message, _SentByKey]] = {id(each): (each, {}) for each in past.messages}
        size = _MESSAGE * len(known)
        if alone:
            known |= alone.known
            size = alone.size + _MESSAGE * (len(known) - len(alone.known))
        alone = _Alone(known, size=size)
        past.keep(_ALONE, alone)
    if (found := alone.known.get(id(message))) is None:
        return None
    sent = found[1]
    if key not in sent:
        losses = Losses()
        entries = encode(message, losses)
        text = (Raw(b",".join(map(jsontext.encode, entries))),) if entries else ()
        sent[key] = None if entries is None else SentMessage(text, tuple(losses))
        size = _ENTRY + sum(map(len, text)) + _LOSS * len(losses)
        alone.size += size
        past.footprint.add(size)
    return sent[key]
