"""Stored responses: `store`, `previous_response_id`, `item_reference`, and the list of input items.

Nothing but the items is inherited: instructions, tools and settings are said anew in every request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.core.server import rows
from dragoman.core.stored_turns import PastTurn, StorageRequest, TurnCodec
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

_ENDS = frozenset({"response.completed", "response.incomplete"})
_TOLD = (
    "created",
    "queued",
    "in_progress",
    "completed",
    "incomplete",
    "failed",
)  # events that hold the response
_SECRETS = ("authorization", "headers")  # of a remote MCP server
_USUAL, _MOST = 20, 100  # items on a page
_PREFIXES = {"message": "msg", "function_call_output": "fco", "custom_tool_call_output": "ctco"}


def wish(request: Wire) -> StorageRequest:
    """Without a word about it, a response is stored."""
    previous, store = request.get("previous_response_id"), request.get("store")
    if previous is not None and type(previous) is not str:
        raise WireError(PROTOCOL_NAME, "previous_response_id", f"expected a string, got {describe(previous)}")
    refers = tuple(str(item.get("id")) for item in rows(request.get("input")) if _is_reference(item))
    return StorageRequest(previous or "", refers, store is not False, store is True)


def items(request: Wire) -> list[Any]:
    said = request.get("input")
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": said}]
    return said if is_array(said) else []


def join(request: Wire, before: Sequence[PastTurn], found: Mapping[str, Wire]) -> Wire:
    """What needs nothing of a store stays the very object."""
    if not (before or found or "previous_response_id" in request or request.get("store")):
        return request
    joined = {key: value for key, value in request.items() if key != "previous_response_id"}
    if joined.get("store"):
        del joined["store"]  # it is done here
    if before or found:
        earlier = [item for past in before for item in (*past.items, *rows(past.reply.get("output")))]
        joined["input"] = earlier + [_resolved(item, found) for item in items(request)]
    return joined


def _resolved(item: Any, found: Mapping[str, Wire]) -> Any:
    return found[str(item["id"])] if is_object(item) and _is_reference(item) else item


def _is_reference(item: Wire) -> bool:
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "role" not in item and "id" in item)


def named(items: Sequence[Any], reply: Wire) -> dict[str, Wire]:
    listed = [*rows(list(items)), *rows(reply.get("output"))]
    return {
        item["id"]: item for item in listed if isinstance(item.get("id"), str) and not _is_reference(item)
    }


def told(reply: Wire, id: str, previous: str, stored: bool) -> Wire:
    stored = stored and reply.get("status") != "failed"
    return {**reply, "id": id, "previous_response_id": previous or None, "store": stored}


def safe(said: Wire) -> Wire:
    """A response repeats its tools, an item may bring some, and remote servers' hold what opens them."""
    tools = rows(said.get("tools"))
    if not any(tool.get("type") == "mcp" for tool in tools):
        return said
    return {**said, "tools": [{key: tool[key] for key in tool if key not in _SECRETS} for tool in tools]}


def whole(frames: Sequence[Frame]) -> Wire | None:
    """The event at the end repeats everything."""
    for frame in reversed(frames):
        event = jsontext.decode_object(frame.data.decode("utf-8", "replace"))
        if event and event.get("type", frame.event) in _ENDS:
            return event["response"] if is_object(event.get("response")) else None
    return None


def page(turns: Sequence[PastTurn], query: Mapping[str, str]) -> Wire:
    """Everything that went into the last of `turns`: earlier turns with their replies, then its own input."""
    *earlier, last = turns
    listed = [
        item for past in earlier for item in (*_listed(past), *rows(past.reply.get("output")))
    ] + _listed(last)
    if _choice(query, "order", ("desc", "asc")) == "desc":
        listed.reverse()
    after, limit = query.get("after"), _limit(query)
    ids = [item.get("id") for item in listed]
    if after and after not in ids:
        raise WireError(PROTOCOL_NAME, "after", f"no item {after!r} is in this list")
    start = ids.index(after) + 1 if after else 0
    shown = listed[start : start + limit]
    ends = {"first_id": shown[0].get("id"), "last_id": shown[-1].get("id")} if shown else {}
    return {
        "object": "list",
        "data": shown,
        **(ends or {"first_id": None, "last_id": None}),
        "has_more": start + limit < len(listed),
    }


def _listed(past: PastTurn) -> list[Wire]:
    """Each item with an id, and messages in their long form."""
    name = past.id.removeprefix("resp_")
    return [_spelled_out(item, f"{name}_{number}") for number, item in enumerate(rows(past.items))]


def _spelled_out(item: Wire, name: str) -> Wire:
    kind = item.get("type") or "message"
    out = {"id": f"{_PREFIXES.get(kind, 'item')}_{name}", **item, "type": kind}
    if kind == "message":
        content = item.get("content")
        if isinstance(content, str):
            out["content"] = [_said(content, item.get("role") == "assistant")]
        out.setdefault("status", "completed")
    return out


def _said(text: str, by_assistant: bool) -> Wire:
    if by_assistant:
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _limit(query: Mapping[str, str]) -> int:
    said = query.get("limit", str(_USUAL))
    if not said.isascii() or not said.isdigit() or not 1 <= int(said[:9]) <= _MOST:
        raise WireError(PROTOCOL_NAME, "limit", f"expected a whole number from 1 to {_MOST}, got {said!r}")
    return int(said)


def _choice(query: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str:
    """The first of `allowed` is what nothing means."""
    said = query.get(key, allowed[0])
    if said not in allowed:
        raise WireError(PROTOCOL_NAME, key, f"expected {' or '.join(allowed)}, got {said!r}")
    return said


KEPT = TurnCodec(
    wish=wish,
    items=items,
    settings=lambda request: {},
    join=join,
    named=named,
    told=told,
    safe=safe,
    whole=whole,
    unknown=lambda id: Failure(
        "bad_request", f"Previous response with id '{id}' not found.", 400, "previous_response_not_found"
    ),
    absent=lambda id: Failure("not_found", f"Nothing with id '{id}' is kept here.", 404, "not_kept"),
    prefix="resp_",
    field="response",
    marks=tuple(f"response.{step}".encode() for step in _TOLD),
    ends=_ENDS,
    deleted=lambda id: {"id": id, "object": "response", "deleted": True},
    page=page,
    path=lambda id, items: f"/responses/{quote(id, safe='')}" + ("/input_items" if items else ""),
)
