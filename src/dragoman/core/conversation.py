"""The request of a protocol: a head, and a conversation that passes through folds.

decode:  head, messages → decode_messages(head) → finish_head(head, facts)
encode:  messages → encode_messages(head) → encode_around(head, entries, facts)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, field_of
from dragoman.core.fold import EncodedMessages, Fold, encode_whole, end, report
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile


def read_array(body: Wire, field: str, protocol: str) -> list[Any]:
    entries = field_of(body, field, protocol)
    if not jsontext.is_array(entries):
        got = "nothing" if entries is None else describe(entries)
        raise WireError(protocol, field, f"expected an array, got {got}")
    return entries


def same_head(head: Request, facts: Any, losses: Losses) -> Request:
    return head


def no_entry(head: Request, entries: list[tuple[int, Any]], losses: Losses) -> Request:
    return head


class RequestShape(Struct, frozen=True, kw_only=True):
    """How a protocol reads and writes a request.

    `field` holds the messages; `read` gives them as an array. `decode_head` reads everything else, and
    `decode_messages` gets the head, and whether all messages come together; `decode_holding` is the same for
    messages that come apart, where nothing may go on that later ones change.
    `finish_head` adds what the conversation says about it. `hoists`: whether an entry of the array declares
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
    head = conversation.finish_head(head, runs[0].facts(), losses)
    return replace(head, messages=tuple(messages))


_NO_HEAD = Request("", ())


def encode_conversation(
    conversation: RequestShape, request: Request, losses: Losses, profile: ModelProfile
) -> Wire:
    folds = conversation.encode_messages(request, profile)
    return conversation.encode_around(request, encode_whole(folds, request.messages), losses, profile)
