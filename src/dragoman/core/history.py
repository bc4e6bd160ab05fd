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

from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Raw, Struct

from dragoman.core import jsontext
from dragoman.core.caches import may_hold_key
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import AnyTool, KnownHead, Message, Past, Request, Turns, Wire
from dragoman.core.model_profile import ModelProfile

P = ParamSpec("P")
T = TypeVar("T")
_MOST_ENCODED = 32  # results of one head: upstreams, models
_OVERHEAD = 2_000  # bytes of the objects of a head, beside its text in three forms
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


def head_size(heads: Sequence[KnownHead]) -> int:
    """As wire, as values and as what was made of them."""
    return sum([3 * (len(head.front) + len(head.tail)) + _OVERHEAD for head in heads])


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
        found = jsontext.PrintedFields(head_size((head,)))
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
