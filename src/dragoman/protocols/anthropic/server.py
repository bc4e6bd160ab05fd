"""The server side of the Messages API: routes, paths and headers, errors, model lists, accounting, threads.

An error has the same body whole and in a stream. A thread is named by the id of its last reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

from msgspec import Struct, ValidationError, convert

from dragoman.core.codec import Frame, Http, OutgoingRequest, bearer, same_path
from dragoman.core.credentials import Credential
from dragoman.core.errors import DragomanError, WireError
from dragoman.core.events import fold
from dragoman.core.failures import kind_of, not_a_reply, recognise_overflow, status_of, with_opening, words
from dragoman.core.fields import Fields, count, rows
from dragoman.core.jsontext import Glance, Once, is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, FailureKind, Usage, Wire
from dragoman.core.model_profile import UNKNOWN
from dragoman.framing.aws_events import AWS_CHUNKS
from dragoman.protocols.anthropic.batches import BATCHES
from dragoman.protocols.anthropic.context_management import COMPACT, COMPACTION, THINKING, TOOL_USES
from dragoman.protocols.anthropic.files import FILES
from dragoman.protocols.anthropic.response import decode_usage, encode_response
from dragoman.protocols.anthropic.wire import ERRORS, PROTOCOL_NAME
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts
from dragoman.serving.conversations import ConversationError, PastTurn, StorageRequest, TurnCodec
from dragoman.serving.routes import Route, RouteMatch
from dragoman.serving.server import ListedModel, ProtocolServer, RateLimitStatus, listed

# Routes

# Every Anthropic SDK sends it, and the other protocols have model lists and files at the same paths
_LIST_HEADER = ("anthropic-version",)

_BEDROCK = "/model/{model}/invoke"
_VERTEX = "/v1/projects/{project}/locations/{region}/publishers/anthropic/models"

ROUTES = (
    Route("POST", "/v1/messages", "generate"),
    Route("POST", "/v1/messages/count_tokens", "count"),
    # What Claude Code sends with CLAUDE_CODE_USE_BEDROCK or CLAUDE_CODE_USE_VERTEX, as the SDK's clients do
    Route("POST", _BEDROCK, "generate", stream=False, variant="bedrock"),
    Route(
        "POST",
        f"{_BEDROCK}-with-response-stream",
        "generate",
        stream=True,
        variant="bedrock",
        framing=AWS_CHUNKS,
    ),
    Route("POST", f"{_VERTEX}/{{model}}:rawPredict", "generate", stream=False, variant="vertex"),
    Route("POST", f"{_VERTEX}/{{model}}:streamRawPredict", "generate", stream=True, variant="vertex"),
    Route("POST", f"{_VERTEX}/count-tokens:rawPredict", "count", variant="vertex"),
    Route("POST", "/v1/messages/batches", "batch", variant="create"),
    Route("GET", "/v1/messages/batches", "batch", variant="list"),
    Route("GET", "/v1/messages/batches/{id}", "batch", variant="retrieve"),
    Route("POST", "/v1/messages/batches/{id}/cancel", "batch", variant="cancel"),
    Route("DELETE", "/v1/messages/batches/{id}", "batch", variant="delete"),
    Route("GET", "/v1/messages/batches/{id}/results", "batch", variant="results"),
    Route("POST", "/v1/files", "file", requires=_LIST_HEADER, variant="create"),
    Route("GET", "/v1/files", "file", requires=_LIST_HEADER, variant="list"),
    Route("GET", "/v1/files/{id}", "file", requires=_LIST_HEADER, variant="retrieve"),
    Route("GET", "/v1/files/{id}/content", "file", requires=_LIST_HEADER, variant="content"),
    Route("DELETE", "/v1/files/{id}", "file", requires=_LIST_HEADER, variant="delete"),
    Route("GET", "/v1/models", "models", requires=_LIST_HEADER),
    Route("GET", "/v1/models/{model:path}", "model", requires=_LIST_HEADER),
)


def _unwrap(body: Wire, route: RouteMatch) -> tuple[Wire, dict[str, str]]:
    """A body for Bedrock or Vertex: the URL names the model, and `anthropic_*` are what headers say here."""
    if "thread" in body:
        raise WireError(PROTOCOL_NAME, "thread", "threads are kept at /v1/messages only")
    rest = {key: value for key, value in body.items() if not key.startswith("anthropic_")}
    if route.model:
        rest |= {"model": route.model, "stream": bool(route.stream)}
    betas = body.get("anthropic_beta")
    names = [beta for beta in betas if isinstance(beta, str)] if is_array(betas) else []
    return rest, {"anthropic-beta": ",".join(names)} if names else {}


# Paths and headers of an upstream


def _authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    """OAuth tokens of a Claude login are bearer tokens; API keys have a header of their own."""
    key = credential.key
    return {"x-api-key": key} if key and not key.startswith("sk-ant-oat") else bearer(credential, request)


HTTP = Http(
    path=same_path("/v1/messages"),
    authenticate=_authenticate,
    signs=False,
    headers={"anthropic-version": "2023-06-01"},
    headers_for=lambda body: {"anthropic-beta": "mcp-client-2025-11-20"} if "mcp_servers" in body else {},
)


# Errors

# Claude Code compacts at the first of these, and lowers max_tokens at the second (G36)
_TOO_LONG = re.compile("prompt is too long|input length and `max_tokens` exceed context limit", re.IGNORECASE)
_STATUS: dict[FailureKind, int] = {"overloaded": 529, "billing": 402}


def decode_error(body: Wire, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply: it has no content.

    Compatible servers leave out the outer `type`, or make `error` a string.
    """
    error = body.get("error")
    if body.get("type") != "error" and ("content" in body or not error):
        whole = 0 < status < 400  # 0: an event of a stream
        return not_a_reply(body, "content") if whole and "content" not in body else None
    if not is_object(error):
        error = {"message": error}
    status = status if status >= 400 else 0
    name, message = words(error.get("type")), words(error.get("message"))
    kind = recognise_overflow(_failure_kind(name, status), message, name)
    details = error.get("details")
    code = words(details.get("error_code")) if is_object(details) else ""
    return Failure(kind, message, status or _STATUS.get(kind) or status_of(kind), code or name)


def encode_error(failure: Failure) -> tuple[int, Wire]:
    message = failure.message
    if failure.kind == "context_too_long":
        message = with_opening(message, "prompt is too long", _TOO_LONG)
    error: Wire = {"type": ERRORS.encode(failure.kind), "message": message}
    if failure.code.startswith("thread_"):  # the SDKs send the whole conversation again
        error["details"] = {"error_code": failure.code}
    body: Wire = {"type": "error", "error": error}
    return _STATUS.get(failure.kind) or status_of(failure.kind), body


def _failure_kind(name: str, status: int) -> FailureKind:
    """The type decides where it is one of Anthropic's, the status otherwise."""
    kind = ERRORS.decode(name)
    return kind if ERRORS.encode(kind) == name or not status else kind_of(status)


# Model lists


def encode_models(models: tuple[ListedModel, ...]) -> Wire:
    first, last = (models[0].name, models[-1].name) if models else (None, None)
    data = [encode_model(model) for model in models]
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def encode_model(model: ListedModel) -> Wire:
    """Every field of the vendor's schema; what is not known is null."""
    profile = model.profile
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "line": None,
        "max_input_tokens": profile.context_window,
        "max_tokens": profile.max_output,
        "capabilities": None if profile is UNKNOWN else _capabilities(model),
        "deprecated_at": None,
        "retires_at": None,
    }


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EDITS = (TOOL_USES, THINKING, COMPACT)


def _capabilities(model: ListedModel) -> Wire:
    """What a request through the gateway may use. A fact that is not known counts as support, as it does
    where requests are translated."""
    profile, hosted = model.profile, model.hosted_tools
    native = model.protocol == PROTOCOL_NAME
    reasons = profile.reasoning is not False
    efforts = profile.efforts if profile.efforts is not None else (_EFFORTS if reasons else ())
    return {
        "batch": _support(True),
        "citations": _support(native),
        "code_execution": _support(native and "code_execution" in hosted),
        "image_input": _support(profile.images is not False),
        "pdf_input": _support(native and profile.images is not False),
        "structured_outputs": _support(profile.structured_output is not False),
        "context_management": {"supported": True, **{edit: _support(True) for edit in _EDITS}},
        "effort": {
            "supported": bool(efforts),
            **{effort: _support(effort in efforts) for effort in _EFFORTS},
        },
        "server_tools": {
            "supported": "web_search" in hosted or "code_execution" in hosted,
            "web_search": _support("web_search" in hosted),
            "code_execution": _support("code_execution" in hosted),
        },
        "thinking": {
            "supported": reasons,
            "types": {
                "adaptive": _support(reasons),
                "enabled": _support(reasons),
                "disabled": _support(True),
                "between_tools": _support(False),
            },
        },
    }


def _support(supported: bool) -> Wire:
    return {"supported": supported}


def _quota(quota: RateLimitStatus) -> dict[str, str]:
    full = datetime.fromtimestamp(quota.now + quota.reset, UTC).isoformat(timespec="seconds")
    return {
        "anthropic-ratelimit-requests-limit": str(quota.limit),
        "anthropic-ratelimit-requests-remaining": str(quota.remaining),
        "anthropic-ratelimit-requests-reset": full.replace("+00:00", "Z"),
    }


# Accounting: what the gateway counts in bodies that it does not decode


class _RequestGlance(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[Entry] | None
    thread: Any
    mcp_servers: Any
    context_management: Any
    compaction: Any


class _BlockGlance(Struct):
    type: Any = None


class _ThinkingGlance(Struct):
    thinking_tokens: int = 0


class _UsageGlance(Struct):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _ThinkingGlance | None = None


class _ReplyGlance(Struct):
    model: Once = None
    type: Any = None
    content: list[_BlockGlance] | None = None
    usage: _UsageGlance | None = None


_REPLY = Glance(_ReplyGlance)


def _glance_reply(body: bytes) -> ReplyFacts | None:
    """Like `decode_error`, `decode_usage` and `_count_calls` together, for the usual shape."""
    reply = _REPLY.read(body)
    if reply is None or reply.type == "error" or reply.content is None:
        return None
    calls = 0
    for block in reply.content:
        calls += block.type == "tool_use"
    return ReplyFacts(reply.model, _usage_of(reply.usage) if reply.usage else None, calls)


def _count_calls(body: Wire) -> int:
    calls = 0
    for block in rows(body.get("content")):
        calls += block.get("type") == "tool_use"
    return calls


def _count_tokens(usage: Wire) -> Usage:
    """Like `decode_usage`, at once for the usual counts."""
    try:
        return _usage_of(convert(usage, _UsageGlance))
    except ValidationError:
        return decode_usage(Fields(usage, "usage", PROTOCOL_NAME), Losses())


def _usage_of(counts: _UsageGlance) -> Usage:
    cached, written = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    details = counts.output_tokens_details
    thought = details.thinking_tokens if details else 0
    return Usage(counts.input_tokens + cached + written, counts.output_tokens, cached, written, thought)


ACCOUNTING = Accounting(
    request=Glance(_RequestGlance),
    may_hold_key=lambda body: bool(body.get("mcp_servers")),
    reply=_glance_reply,
    tools=lambda body: count(body.get("tools")),
    calls=_count_calls,
    usage=_count_tokens,
    usage_field="usage",
    call_hint=b"tool_use",
    call_mark=r'"type":\s*"tool_use"',
)


# Message threads (beta): `thread: {create | continue}`. System prompt and tools are those that the thread was
# created with; everything else is sent with every request.

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


def _inherited(request: Wire) -> Wire:
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
        "messages": [_unmarked(message) for message in earlier] + _new_messages(request),
    }


def _as_message(reply: Wire) -> list[Wire]:
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


def _whole(frames: Sequence[Frame]) -> Wire | None:
    """The reply that the events of a finished stream add up to."""
    # imported here, because the decoder reads error events with decode_error above
    from dragoman.protocols.anthropic.stream_decoder import StreamDecoder

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
    new_items=_new_messages,
    inherited_settings=_inherited,
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

SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/v1/models?limit=1000",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=_quota,
    count_path=lambda model: "/v1/messages/count_tokens",
    forwards=("anthropic-version", "anthropic-beta"),
    batches=BATCHES,
    files=FILES,
    turn_codec=THREADS,
    unwrap=_unwrap,
    compaction=COMPACTION,
    required=("model", "max_tokens", "messages"),
)
