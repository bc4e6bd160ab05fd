"""Stored interactions: only steps are inherited. Instructions, tools and settings are sent anew each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import fold
from dragoman.core.fields import describe, rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.protocols.gemini_interactions.messages import Lone, read_input
from dragoman.protocols.gemini_interactions.parts import CONTENT
from dragoman.protocols.gemini_interactions.response import encode_response
from dragoman.protocols.gemini_interactions.serving.background import number_events
from dragoman.protocols.gemini_interactions.stream_decoder import StreamDecoder
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME
from dragoman.serving.conversations import PastTurn, StorageRequest, TurnCodec


def decode_storage(request: Wire) -> StorageRequest:
    """An interaction is stored unless the request says `store: false`."""
    previous, store = request.get("previous_interaction_id"), request.get("store")
    if previous is not None and type(previous) is not str:
        problem = f"expected a string, got {describe(previous)}"
        raise WireError(PROTOCOL_NAME, "previous_interaction_id", problem)
    background = request.get("background") is True
    if background and store is False:
        problem = "expected store to be true: its reply is polled by its id"
        raise WireError(PROTOCOL_NAME, "background", problem)
    return StorageRequest(previous or "", (), store is not False, store is True, background)


def new_items(request: Wire) -> list[Any]:
    """The steps that a request adds: a text or blocks are what the user said."""
    entries = [entry.wire if type(entry) is Lone else entry for entry in read_input(request)]
    steps: list[Any] = []
    said: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            said.append({"type": "text", "text": entry})
        elif is_object(entry) and str(entry.get("type")) in CONTENT:
            said.append(entry)
        else:
            steps += [*_user_step(said), entry]
            said = []
    return steps + _user_step(said)


def _user_step(blocks: list[Any]) -> list[Any]:
    return [{"type": "user_input", "content": blocks}] if blocks else []


def join(request: Wire, before: Sequence[PastTurn], found: Mapping[str, Wire]) -> Wire:
    """The request with the steps that it continues. Without any it is the same object."""
    if not (before or request.get("store") or "previous_interaction_id" in request):
        return request
    joined = {key: request[key] for key in request if key != "previous_interaction_id"}
    joined["store"] = False  # our store does it
    if before:
        earlier = [step for past in before for step in (*past.items, *rows(past.reply.get("steps")))]
        joined["input"] = earlier + new_items(request)
    return joined


def label_reply(reply: Wire, id: str, previous: str, stored: bool) -> Wire:
    return {**reply, "id": id} | ({"previous_interaction_id": previous} if previous else {})


def without_secrets(value: Wire) -> Wire:
    """A reply or step without the headers of the MCP servers that its `tools` declare."""
    tools = rows(value.get("tools"))
    if not any("headers" in tool for tool in tools):
        return value
    return {**value, "tools": [{key: tool[key] for key in tool if key != "headers"} for tool in tools]}


def reply_of_stream(frames: Sequence[Frame]) -> Wire | None:
    """The whole interaction: the event that ends a stream has none of the steps."""
    decoder = StreamDecoder(Losses())
    try:
        events = [event for frame in frames for event in decoder.feed(frame)]
        return encode_response(fold([*events, *decoder.close()]), Losses())
    except Exception:  # a stream that failed, or that nobody can read
        return None


def encode_timeline(turns: Sequence[PastTurn], query: Mapping[str, str]) -> Wire:
    """The last interaction, with the input that it was given."""
    last = turns[-1]
    return {**last.reply, "steps": [*last.items, *rows(last.reply.get("steps"))]}


def _unknown(id: str) -> Failure:
    return Failure("not_found", f"No interaction with id {id!r} is kept here.", 404, "not_kept")


STORED_INTERACTIONS = TurnCodec(
    decode_storage=decode_storage,
    new_items=new_items,
    inherited_settings=lambda request: {},
    join=join,
    items_by_id=lambda items, reply: {},
    label_reply=label_reply,
    without_secrets=without_secrets,
    reply_of_stream=reply_of_stream,
    replayed=number_events,
    unknown_conversation=_unknown,
    unknown_item=_unknown,
    id_prefix="int_",
    reply_field="interaction",
    reply_markers=(b"interaction.created", b"interaction.completed"),
    end_types=frozenset({"interaction.completed"}),
    encode_items=encode_timeline,
    upstream_path=lambda id, items: f"/v1/interactions/{quote(id, safe='')}",
)
