"""Message threads (beta): `thread: {create | continue}`, named by the id of the last reply.

System prompt and tools are those that the thread was created with; everything else is sent with every
request.
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
from dragoman.protocols.anthropic.response import encode_response
from dragoman.protocols.anthropic.stream_decoder import StreamDecoder
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.conversations import ConversationError, PastTurn, StorageRequest, TurnCodec

_INHERITED = ("system", "tools")
_HOLDS_BLOCKS = ("content", "source")


def decode_storage(request: Wire) -> StorageRequest | None:
    match request.get("thread"):
        case None:
            return None
        case {"type": "create"}:
            return StorageRequest(store=True, required=True)
        case {"type": "continue", "previous_message_id": str(id)}:
            return StorageRequest(id, store=True, required=True)
        case _:
            problem = "expected create, or continue with a previous_message_id"
            raise WireError(PROTOCOL_NAME, "thread", problem)


def _new_messages(request: Wire) -> list[Any]:
    messages = request.get("messages")
    return messages if is_array(messages) else []


def _inherit(request: Wire) -> Wire:
    return {key: request[key] for key in _INHERITED if request.get(key) is not None}


def _join(request: Wire, before: Sequence[PastTurn], found: Mapping[str, Wire]) -> Wire:
    """Cache breakpoints of earlier turns are removed: a request may have four at most."""
    joined = {key: value for key, value in request.items() if key != "thread"}
    if not before:
        return joined
    inherited = before[0].settings
    for key in _INHERITED:
        if request.get(key) is not None and request[key] != inherited.get(key):
            problem = f"{key}: a thread keeps the {key} it was created with; create a new one to change it"
            raise ConversationError(Failure("bad_request", problem, 400, "thread_fingerprint_mismatch"))
    earlier = [message for past in before for message in (*past.items, *_as_message(past.reply))]
    return {
        **joined,
        **inherited,
        "messages": [_unmark(message) for message in earlier] + _new_messages(request),
    }


def _as_message(reply: Wire) -> list[Wire]:
    content = reply.get("content")
    return [{"role": "assistant", "content": content}] if content else []


def _unmark(value: Any) -> Any:
    if is_array(value):
        return [_unmark(each) for each in value]
    if is_object(value):
        return {
            key: _unmark(each) if key in _HOLDS_BLOCKS else each
            for key, each in value.items()
            if key != "cache_control"
        }
    return value


def _whole(frames: Sequence[Frame]) -> Wire | None:
    """The reply that the events of a finished stream add up to."""
    decoder = StreamDecoder(Losses())
    try:
        events = [event for frame in frames for event in decoder.feed(frame)]
        return encode_response(fold([*events, *decoder.close()]), Losses())
    except DragomanError:
        return None


def _unknown(id: str) -> Failure:
    problem = f"thread.previous_message_id: no thread is kept for {id!r}; send the whole conversation"
    return Failure("not_found", problem, 404, "thread_not_found")


THREADS = TurnCodec(
    decode_storage=decode_storage,
    storage_field="thread",
    new_items=_new_messages,
    inherited_settings=_inherit,
    join=_join,
    items_by_id=lambda items, reply: {},
    label_reply=lambda reply, id, previous, stored: {**reply, "id": id},
    without_secrets=lambda reply: reply,
    reply_of_stream=_whole,
    unknown_conversation=_unknown,
    unknown_item=_unknown,
    id_prefix="msg_",
    reply_field="message",
    reply_markers=(b"message_start", b"message_stop"),
    end_types=frozenset({"message_stop"}),
)
