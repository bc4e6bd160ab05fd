"""Message threads: `thread: {create | continue}`.

A thread is named by its last reply. Its system prompt and its tools are those that it was created with;
everything else is said anew in every request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError, WireError
from dragoman.core.events import fold
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.core.stored_turns import ConversationError, PastTurn, StorageRequest, TurnCodec
from dragoman.protocols.anthropic.response import encode_response
from dragoman.protocols.anthropic.stream_decoder import StreamDecoder
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

_INHERITED = ("system", "tools")
_HOLDS_BLOCKS = ("content", "source")


def wish(request: Wire) -> StorageRequest | None:
    match request.get("thread"):
        case None:
            return None
        case {"type": "create"}:
            return StorageRequest(stores=True, insists=True)
        case {"type": "continue", "previous_message_id": str(id)}:
            return StorageRequest(id, stores=True, insists=True)
        case _:
            raise WireError(
                PROTOCOL_NAME, "thread", "expected create, or continue with a previous_message_id"
            )


def items(request: Wire) -> list[Any]:
    said = request.get("messages")
    return said if is_array(said) else []


def settings(request: Wire) -> Wire:
    return {key: request[key] for key in _INHERITED if request.get(key) is not None}


def join(request: Wire, before: Sequence[PastTurn], found: Mapping[str, Wire]) -> Wire:
    """Marks for caches in earlier turns served those turns; a request may hold only a few."""
    joined = {key: value for key, value in request.items() if key != "thread"}
    if not before:
        return joined
    inherited = before[0].settings
    for key in _INHERITED:
        if request.get(key) is not None and request[key] != inherited.get(key):
            raise ConversationError(_mismatch(key))
    earlier = [message for past in before for message in (*past.items, *_said(past.reply))]
    return {**joined, **inherited, "messages": [_unmarked(message) for message in earlier] + items(request)}


def _said(reply: Wire) -> list[Wire]:
    content = reply.get("content")
    return [{"role": "assistant", "content": content}] if content else []


def _unmarked(value: Any) -> Any:
    if is_array(value):
        return [_unmarked(each) for each in value]
    if is_object(value):
        return {
            key: _unmarked(each) if key in _HOLDS_BLOCKS else each
            for key, each in value.items()
            if key != "cache_control"
        }
    return value


def whole(frames: Sequence[Frame]) -> Wire | None:
    """What the events add up to."""
    decoder = StreamDecoder(Losses())
    try:
        events = [event for frame in frames for event in decoder.feed(frame)]
        return encode_response(fold([*events, *decoder.close()]), Losses())
    except DragomanError:
        return None


def _mismatch(key: str) -> Failure:
    problem = f"{key}: a thread keeps the {key} it was created with; create a new one to change it"
    return Failure("bad_request", problem, 400, "thread_fingerprint_mismatch")


def _unknown(id: str) -> Failure:
    problem = f"thread.previous_message_id: no thread is kept for {id!r}; send the whole conversation"
    return Failure("not_found", problem, 404, "thread_not_found")


KEPT = TurnCodec(
    wish=wish,
    items=items,
    settings=settings,
    join=join,
    named=lambda items, reply: {},
    told=lambda reply, id, previous, stored: {**reply, "id": id},
    safe=lambda reply: reply,
    whole=whole,
    unknown=_unknown,
    absent=_unknown,
    prefix="msg_",
    field="message",
    marks=(b"message_start", b"message_stop"),
    ends=frozenset({"message_stop"}),
)
