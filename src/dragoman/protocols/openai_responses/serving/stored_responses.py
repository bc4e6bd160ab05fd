"""Stored responses: only items are inherited. Instructions, tools and settings are sent anew each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, rows, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.openai_responses.compaction import is_trigger
from dragoman.protocols.openai_responses.serving.accounting import CALLS
from dragoman.protocols.openai_responses.serving.compaction import after_compaction, input_items
from dragoman.protocols.openai_responses.serving.conversations import decode_conversation, page, spell_out
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, SECRETS
from dragoman.serving.conversations import PastTurn, StorageRequest, TurnCodec
from dragoman.serving.jobs import read_cursor

_PROGRESS = ("status", "output", "usage", "completed_at", "incomplete_details", "error")
_REFERENCES = word_set("previous_response_id conversation")
_WARMED = ("instructions", "tools")  # of a request that was only stored, for the next one
_RESULTS = ("function_call_output", "custom_tool_call_output")
_ENDS = word_set("response.completed response.incomplete")
# Events that hold the response
_HOLD_RESPONSE = ("created", "queued", "in_progress", "completed", "incomplete", "failed")


def decode_storage(request: Wire) -> StorageRequest:
    """A response is stored unless the request says `store: false`."""
    previous, store = request.get("previous_response_id"), request.get("store")
    if previous is not None and type(previous) is not str:
        raise WireError(PROTOCOL_NAME, "previous_response_id", f"expected a string, got {describe(previous)}")
    refers = tuple([str(item.get("id")) for item in rows(request.get("input")) if _is_reference(item)])
    background = request.get("background") is True
    conversation = decode_conversation(request) if "conversation" in request else ""
    return StorageRequest(previous or "", refers, store is not False, store is True, background, conversation)


def new_items(request: Wire) -> list[Any]:
    """Without `compaction_trigger`, which is control and not content."""
    return [item for item in input_items(request) if not is_trigger(item)]


def join(request: Wire, before: Sequence[PastTurn], found: Mapping[str, Wire]) -> Wire:
    """The request with everything that it refers to. Without references it is the same object.

    Upstreams of other protocols know no `previous_response_id` (G109: litellm#26167, bifrost#2441).
    """
    if not (before or found or request.get("store") or _REFERENCES & request.keys()):
        return request
    warmed = before[-1].settings if before else {}
    joined = {**warmed, **{key: value for key, value in request.items() if key not in _REFERENCES}}
    if joined.get("store"):
        del joined["store"]  # our store does it
    if before or found:
        earlier = [item for past in before for item in (*past.items, *rows(past.reply.get("output")))]
        joined["input"] = after_compaction(earlier) + [
            found[str(item["id"])] if is_object(item) and _is_reference(item) else item
            for item in input_items(request)
        ]
    return joined


def find_unanswered(request: Wire) -> Failure | None:
    """A result whose call is nowhere in the conversation. OpenAI refuses it in these words."""
    calls = {
        str(item.get("call_id")) for item in rows(request.get("input")) if str(item.get("type")) in CALLS
    }
    for item in rows(request.get("input")):
        if item.get("type") in _RESULTS and (id := str(item.get("call_id"))) not in calls:
            problem = f"No tool call found for function call output with call_id {id}."
            return Failure("bad_request", problem, 400, "call_not_found")
    return None


def _is_reference(item: Wire) -> bool:
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "role" not in item and "id" in item)


def items_by_id(items: Sequence[Any], reply: Wire) -> dict[str, Wire]:
    listed = [*rows(list(items)), *rows(reply.get("output"))]
    return {
        item["id"]: item for item in listed if isinstance(item.get("id"), str) and not _is_reference(item)
    }


def label_reply(reply: Wire, id: str, previous: str, stored: bool) -> Wire:
    stored = stored and reply.get("status") != "failed"
    return {**reply, "id": id, "previous_response_id": previous or None, "store": stored}


def without_secrets(value: Wire) -> Wire:
    """A response or item without the secrets of the MCP servers that its `tools` declare."""
    tools = rows(value.get("tools"))
    if not any(tool.get("type") == "mcp" for tool in tools):
        return value
    return {**value, "tools": [{key: tool[key] for key in tool if key not in SECRETS} for tool in tools]}


def reply_of_stream(frames: Sequence[Frame]) -> Wire | None:
    """The response inside the last event, which repeats all items."""
    for frame in reversed(frames):
        event = jsontext.decode_object(frame.data.decode("utf-8", "replace"))
        if event and event.get("type", frame.event) in _ENDS:
            return event["response"] if is_object(event.get("response")) else None
    return None


def replay(events: Sequence[Frame], reply: Wire, query: Mapping[str, str]) -> list[Frame]:
    """Events that hold the response repeat what its request said; `starting_after` skips the first ones."""
    after = read_cursor(query, "starting_after", PROTOCOL_NAME)
    shown: list[Frame] = []
    for event in events:
        data = event.data
        if data["sequence_number"] > after:
            if "response" in data:
                now = {key: data["response"][key] for key in _PROGRESS}
                ended = now["status"] != "in_progress"
                data = {**data, "response": reply if ended else {**reply, **now}}
            shown.append(Frame(event.event, data))
    return shown


def encode_items(turns: Sequence[PastTurn], query: Mapping[str, str]) -> Wire:
    """All input of the last of `turns`: earlier turns with their replies, then its own input."""
    *earlier, last = turns
    before = [item for past in earlier for item in (*_list_items(past), *rows(past.reply.get("output")))]
    return page(before + _list_items(last), query)


def _list_items(past: PastTurn) -> list[Wire]:
    """Input items, each with an id, and messages in their long form."""
    name = past.id.removeprefix("resp_")
    return [spell_out(item, f"{name}_{number}") for number, item in enumerate(rows(past.items))]


STORED_RESPONSES = TurnCodec(
    decode_storage=decode_storage,
    new_items=new_items,
    inherited_settings=lambda request: {},
    warmed_settings=lambda request: {key: request[key] for key in _WARMED if key in request},
    unanswered=find_unanswered,
    replayed=replay,
    join=join,
    items_by_id=items_by_id,
    label_reply=label_reply,
    without_secrets=without_secrets,
    reply_of_stream=reply_of_stream,
    end_holds_reply=True,
    unknown_conversation=lambda id: Failure(
        "bad_request", f"Previous response with id '{id}' not found.", 400, "previous_response_not_found"
    ),
    unknown_item=lambda id: Failure("not_found", f"Nothing with id '{id}' is kept here.", 404, "not_kept"),
    id_prefix="resp_",
    reply_field="response",
    reply_markers=tuple(f"response.{step}".encode() for step in _HOLD_RESPONSE),
    end_types=_ENDS,
    encode_deleted=lambda id: {"id": id, "object": "response", "deleted": True},
    encode_items=encode_items,
    upstream_path=lambda id, items: f"/responses/{quote(id, safe='')}" + ("/input_items" if items else ""),
)
