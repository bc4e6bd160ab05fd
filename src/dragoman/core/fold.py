"""Folds: what a conversation passes through, message by message, with explicit parameters and state.

    wire messages → decode → identify → pair → name → (dialect) → encode → text

The fields of a fold are everything that it may read beside its items, and the state of its run is everything
that later items may depend on. So two runs of equal folds from equal states do the same, and whoever keeps
states may go on from one of them (`memory/`). No fold knows whether anybody does.

The request of a protocol (`RequestShape`) is a head, and a conversation that passes through folds:

    decode:  head, messages → decode_messages(head) → finish_head(head, their run)
    encode:  messages → encode_messages(head) → encode_around(head, entries, facts)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Wire
from dragoman.core.model_profile import ModelProfile


class Restart(Exception):
    """What was made of earlier items cannot be continued: begin again at the start, with all of them.

    `holds`: folds that hold back what may still change can go on.
    """

    def __init__(self, holds: bool = False) -> None:
        super().__init__()
        self.holds = holds


class FoldRun(Struct, kw_only=True, eq=False):
    """A fold under way, private to one request.

    Items come in rows; how they are divided into rows changes nothing. A run is mutable, so `state` copies:
    it is asked for only where somebody keeps it. Its losses are reported phase by phase: first those of the
    first phase, of all items; `more` are those of the others.
    """

    losses: Losses = field(default_factory=Losses)
    more: tuple[Losses, ...] = ()

    @property
    def phases(self) -> tuple[Losses, ...]:
        return (self.losses, *self.more)

    def feed(self, items: Sequence[Any], /) -> Sequence[Any]:
        raise NotImplementedError

    def close(self) -> Sequence[Any]:
        """No more items will come: what was held back."""
        return ()

    def state(self) -> Any:
        return None

    def facts(self) -> Any:
        """What others need to know of all items so far."""
        return None

    def reported(self) -> Iterable[Losses]:
        """The phases to report, in their order."""
        return self.phases


class Fold(Struct, frozen=True):
    def begin(self, state: Any = None) -> FoldRun:
        """A run from the start, or from where another run of an equal fold was in this state."""
        raise NotImplementedError


_BEGIN: Callable[[Fold], FoldRun] = methodcaller("begin")


def begin(folds: Iterable[Fold]) -> list[FoldRun]:
    """Their runs, from the start."""
    return [*map(_BEGIN, folds)]


def feed(runs: Sequence[FoldRun], items: Sequence[Any]) -> Sequence[Any]:
    """What `items` become; more will follow them."""
    for run in runs:
        items = run.feed(items)
    return items


def end(runs: Sequence[FoldRun], items: Sequence[Any]) -> Sequence[Any]:
    """What the last `items` become, with what each fold held back behind them."""
    for run in runs:
        items = run.feed(items)
        held = run.close()
        if held:
            items = [*items, *held]
    return items


def report(runs: Sequence[FoldRun], losses: Losses) -> None:
    """What `runs` lost, one after the other."""
    for run in runs:
        for phase in run.reported() if run.more else (run.losses,):
            if phase.items:
                losses.extend(phase)


class EachRun(FoldRun):
    """Changes each item by itself."""

    function: Callable[[Any, Losses], Any]

    def feed(self, items: Sequence[Any], /) -> list[Any]:
        function, losses = self.function, self.losses
        return [function(item, losses) for item in items]


class DecodeRun(FoldRun):
    """Decodes each entry of the array in `field`; `count` is how many came before."""

    decode: Callable[[Any, str, Losses], Message]
    field: str
    count: int

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        decode, field, losses = self.decode, self.field, self.losses
        messages: list[Message] = []
        for i, item in enumerate(items, self.count):
            messages.append(decode(item, f"{field}[{i}]", losses))
        self.count += len(items)
        return messages

    def state(self) -> Any:
        return self.count


class EncodedMessages(Struct, frozen=True):
    """The messages of a request on the upstream's wire: `entries`, and what its other fields need of them.

    `facts` are those of the first fold that encoded them. `report` says where the losses of the messages
    stand among those of the other fields.
    """

    entries: Any
    facts: Any
    report: Callable[[Losses], None]


def encode_whole(folds: Sequence[Fold], messages: Sequence[Message]) -> EncodedMessages:
    runs = begin(folds)
    entries = end(runs, messages)
    return EncodedMessages(entries, runs[0].facts(), partial(report, runs))


def read_array(body: Wire, field: str, protocol: str) -> list[Any]:
    entries = field_of(body, field, protocol)
    if not jsontext.is_array(entries):
        got = "nothing" if entries is None else describe(entries)
        raise WireError(protocol, field, f"expected an array, got {got}")
    return entries


def same_head(head: Request, run: Any, losses: Losses) -> Request:
    return head


def no_entry(head: Request, entries: list[tuple[int, Any]], losses: Losses) -> Request:
    return head


class RequestShape(Struct, frozen=True, kw_only=True):
    """How a protocol reads and writes a request.

    `field` holds the messages; `read` gives them as an array. `decode_head` reads everything else, and
    `decode_messages` gets the head, and whether all messages come together; `decode_holding` is the same for
    messages that come apart, where nothing may go on that later ones change. `finish_head` gets their run,
    and adds what the conversation says about the head. `hoists`: whether an entry of the array declares
    something that `load` adds to the head before the others are decoded. `repeats`: whether nobody but
    `decode_messages` looks at an entry. `head_first`: its losses come first.
    """

    protocol: str
    field: str
    read: Callable[[Wire, str, str], list[Any]] = read_array
    decode_head: Callable[[Wire, Losses], Request]
    decode_messages: Callable[[Request, bool], Fold]
    decode_holding: Callable[[Request], Fold] | None = None
    finish_head: Callable[[Request, Any, Losses], Request] = same_head
    hoists: Callable[[Any], bool] | None = None
    repeats: Callable[[Any], bool] | None = None
    load: Callable[[Request, list[tuple[int, Any]], Losses], Request] = no_entry
    head_first: bool = False
    encode_messages: Callable[[Request, ModelProfile], tuple[Fold, ...]]
    encode_around: Callable[[Request, EncodedMessages, Losses, ModelProfile], Wire]


def decode_whole(conversation: RequestShape, body: Wire, losses: Losses) -> Request:
    wires = conversation.read(body, conversation.field, conversation.protocol)
    if conversation.head_first:
        head = conversation.decode_head(body, losses)
        if conversation.hoists:
            hoisted = [(i, wire) for i, wire in enumerate(wires) if conversation.hoists(wire)]
            head = conversation.load(head, hoisted, losses)
        runs = (conversation.decode_messages(head, True).begin(),)
        messages = end(runs, wires)
        report(runs, losses)
    else:
        runs = (conversation.decode_messages(_NO_HEAD, True).begin(),)
        messages = end(runs, wires)
        report(runs, losses)
        head = conversation.decode_head(body, losses)
    head = conversation.finish_head(head, runs[0], losses)
    return replace(head, messages=tuple(messages))


_NO_HEAD = Request("", ())


def encode_conversation(
    conversation: RequestShape, request: Request, losses: Losses, profile: ModelProfile
) -> Wire:
    folds = conversation.encode_messages(request, profile)
    return conversation.encode_around(request, encode_whole(folds, request.messages), losses, profile)
