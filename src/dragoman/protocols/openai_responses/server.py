"""A Responses server as its clients see it: paths, authentication, errors, accounting, stored responses.

Only items are inherited from a stored response: instructions, tools and settings are sent anew in every
request. The model list is the same as Chat's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import quote

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Http, same_path
from dragoman.core.errors import WireError
from dragoman.core.failures import UNKNOWN_ROUTE, kind_of, not_a_reply, recognise_overflow, status_of
from dragoman.core.fields import Fields, count, describe, rows, word_set
from dragoman.core.jsontext import Glance, Once, is_array, is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai import encode_model, encode_models, error_message, rate_limit_headers
from dragoman.protocols.openai_responses.background import BACKGROUND
from dragoman.protocols.openai_responses.batches import BATCHES, FILES
from dragoman.protocols.openai_responses.compaction import (
    COMPACTION,
    after_compaction,
    input_items,
    is_trigger,
)
from dragoman.protocols.openai_responses.conversations import (
    CONVERSATIONS,
    ITEM_NOT_FOUND,
    LOCKED,
    NOT_FOUND,
    decode_conversation,
    page,
    spelled_out,
)
from dragoman.protocols.openai_responses.conversations import ROUTES as CONVERSATION_ROUTES
from dragoman.protocols.openai_responses.response import decode_usage
from dragoman.protocols.openai_responses.search_route import SEARCH_ROUTE
from dragoman.protocols.openai_responses.websocket import (
    CONNECTION_LIMIT,
    INVALID_LANE,
    LANE_LIMIT,
    WEBSOCKET,
)
from dragoman.protocols.openai_responses.wire import CODES, PROTOCOL_NAME, SECRETS, TYPES
from dragoman.serving.accounting import Accounting, ReplyFacts
from dragoman.serving.conversations import PastTurn, StorageRequest, TurnCodec
from dragoman.serving.routes import Route
from dragoman.serving.server import ProtocolServer, listed

HTTP = Http(path=same_path("/responses"), signs=False)
# Kinds whose code clients of this API expect in an error body; other kinds have only a type
_CODED = word_set("context_too_long unauthenticated billing not_found rate_limit overloaded")
# Codes of our own refusals -> the request field at fault
_STORE_CODES = {
    "previous_response_not_found": "previous_response_id",
    NOT_FOUND: "conversation",
    LOCKED: "conversation",
    ITEM_NOT_FOUND: "item_id",
    "not_kept": "id",
    "call_not_found": "input",
    INVALID_LANE: "stream_id",
    LANE_LIMIT: "stream_id",
    CONNECTION_LIMIT: None,
}


def decode_error(body: Wire, status: int) -> Failure | None:
    """An error body, a response that failed, or an `error` event in either of its two shapes."""
    error = body.get("error")
    if is_object(error):
        return _failure(error, status)
    if error and type(error) is str:
        return _failure({"message": error}, status)
    if body.get("type") == "error" or body.get("object") == "error":
        return _failure(body, status)
    if body.get("status") == "failed":
        return _failure({"message": "the response failed without saying why"}, status)
    if status >= 400:
        return _failure({"message": body.get("message") or body.get("detail")}, status)
    return not_a_reply(body, "output") if status and not is_array(body.get("output")) else None


def encode_error(failure: Failure) -> tuple[int, Wire]:
    kind = failure.kind
    code = CODES.encode(kind) if kind in _CODED else None
    param = _STORE_CODES.get(failure.code)
    error = {
        "message": error_message(failure),
        "type": TYPES.encode(kind),
        "param": param,
        "code": failure.code if failure.code in _STORE_CODES or failure.code == UNKNOWN_ROUTE else code,
    }
    return status_of(kind), {"error": error}


def encode_failure(failure: Failure) -> Wire:
    """The `error` of a failed response."""
    return {"code": CODES.encode(failure.kind) or "server_error", "message": error_message(failure)}


def _failure(error: Any, status: int) -> Failure:
    code, message = error.get("code"), error.get("message")
    if type(code) is int and 400 <= code < 600:  # some servers repeat the status there
        status = status or code
    code = code if isinstance(code, str) else ""
    type_ = error.get("type") if isinstance(error.get("type"), str) else ""
    message = message if isinstance(message, str) and message else "the upstream failed without saying why"
    kind = recognise_overflow(_failure_kind(code, type_, status), message, code or type_)
    return Failure(kind, message, status or status_of(kind), code or type_)


def _failure_kind(code: str, type: str, status: int) -> FailureKind:
    """The code is most precise, then the status; several kinds share a type."""
    known = CODES.decode(code) or ("billing" if type == "insufficient_quota" else "")
    if known:
        return known
    return kind_of(status) if status >= 400 else TYPES.decode(type) or "server"


_PROGRESS = ("status", "output", "usage", "completed_at", "incomplete_details", "error")
_REFERENCES = word_set("previous_response_id conversation")
_WARMED = ("instructions", "tools")  # of a request that was only stored, for the next one
_RESULTS = ("function_call_output", "custom_tool_call_output")
_CALLS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
)


ROUTES = (
    Route("POST", "/v1/responses", "generate"),
    Route("POST", "/v1/responses/compact", "compact"),
    Route("POST", "/v1/responses/input_tokens", "count"),
    Route("POST", "/v1/alpha/search", "search"),
    Route(
        "GET", "/v1/responses/{id}", "retrieve", query=lambda query: {"stream": query.get("stream") == "true"}
    ),
    Route("DELETE", "/v1/responses/{id}", "delete"),
    Route("GET", "/v1/responses/{id}/input_items", "items"),
    Route("POST", "/v1/responses/{id}/cancel", "cancel"),
    Route("POST", "/v1/files", "file", variant="create"),
    Route("GET", "/v1/files", "file", variant="list"),
    Route("GET", "/v1/files/{id}", "file", variant="retrieve"),
    Route("GET", "/v1/files/{id}/content", "file", variant="content"),
    Route("DELETE", "/v1/files/{id}", "file", variant="delete"),
    Route("POST", "/v1/batches", "batch", variant="create"),
    Route("GET", "/v1/batches", "batch", variant="list"),
    Route("GET", "/v1/batches/{id}", "batch", variant="retrieve"),
    Route("POST", "/v1/batches/{id}/cancel", "batch", variant="cancel"),
    Route("GET", "/v1/responses", "websocket", requires=("upgrade",)),
    *CONVERSATION_ROUTES,
)


class _ItemGlance(TypedDict, total=False):
    type: Any


class _ReplyGlance(TypedDict, total=False):
    model: Once
    type: Any
    object: Any
    status: Any
    error: Any
    output: list[_ItemGlance] | None
    usage: Any


_REPLY = Glance(_ReplyGlance)


def _glance_reply(body: bytes) -> ReplyFacts | None:
    reply: Any = _REPLY.read(body)
    return None if reply is None or decode_error(reply, 200) else ACCOUNTING.facts(reply, "model")


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


def unanswered(request: Wire) -> Failure | None:
    """A result whose call is nowhere in the conversation. OpenAI refuses it in these words."""
    calls = {item.get("call_id") for item in rows(request.get("input")) if item.get("type") in _CALLS}
    for item in rows(request.get("input")):
        if item.get("type") in _RESULTS and (id := item.get("call_id")) not in calls:
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


def replayed(events: Sequence[Frame], reply: Wire, query: Mapping[str, str]) -> list[Frame]:
    """Events that hold the response repeat what its request said; `starting_after` skips the first ones."""
    after = query.get("starting_after", "-1")
    if not re.fullmatch(r"-1|\d{1,9}", after):
        raise WireError(PROTOCOL_NAME, "starting_after", f"expected the number of an event, got {after!r}")
    shown: list[Frame] = []
    for event in events:
        data = event.data
        if data["sequence_number"] > int(after):
            if "response" in data:
                now = {key: data["response"][key] for key in _PROGRESS}
                ended = now["status"] != "in_progress"
                data = {**data, "response": reply if ended else {**reply, **now}}
            shown.append(Frame(event.event, data))
    return shown


def encode_items(turns: Sequence[PastTurn], query: Mapping[str, str]) -> Wire:
    """All input of the last of `turns`: earlier turns with their replies, then its own input."""
    *earlier, last = turns
    before = [item for past in earlier for item in (*_listed(past), *rows(past.reply.get("output")))]
    return page(before + _listed(last), query)


def _listed(past: PastTurn) -> list[Wire]:
    """Input items, each with an id, and messages in their long form."""
    name = past.id.removeprefix("resp_")
    return [spelled_out(item, f"{name}_{number}") for number, item in enumerate(rows(past.items))]


STORED_RESPONSES = TurnCodec(
    decode_storage=decode_storage,
    new_items=new_items,
    inherited_settings=lambda request: {},
    warmed_settings=lambda request: {key: request[key] for key in _WARMED if key in request},
    unanswered=unanswered,
    replayed=replayed,
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
ACCOUNTING = Accounting(  # a request is read in full, because it is stored by default
    reply=_glance_reply,
    tools=lambda body: count(body.get("tools")),
    calls=lambda body: sum(item.get("type") in _CALLS for item in rows(body.get("output"))),
    usage=lambda usage: decode_usage(Fields({"usage": usage}, "", PROTOCOL_NAME)),
    usage_field="usage",
    call_hint=b".done",
    call_mark=r'"type":\s*"response\.(?:function_call_arguments|custom_tool_call_input)\.done"',
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/models",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=rate_limit_headers,
    count_path=lambda model: "/responses/input_tokens",
    forwards=("openai-beta",),
    streams_overflow=True,
    turn_codec=STORED_RESPONSES,
    compaction=COMPACTION,
    websocket=WEBSOCKET,
    background=BACKGROUND,
    conversations=CONVERSATIONS,
    batches=BATCHES,
    files=FILES,
    search=SEARCH_ROUTE,
)
