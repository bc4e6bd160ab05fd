"""A Chat server as its clients see it: paths, authentication, error bodies, model list, accounting.

Error bodies differ between servers; OpenAI's `{error: {message, type, param, code}}` is what we write.
"""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Http, same_path
from dragoman.core.failures import UNKNOWN_ROUTE, kind_of, not_a_reply, recognise_overflow, status_of
from dragoman.core.fields import count
from dragoman.core.jsontext import Glance, Once, is_array, is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai import encode_model, encode_models, error_message, rate_limit_headers
from dragoman.protocols.openai_chat.response import Counts, decode_usage, usage_of
from dragoman.protocols.openai_chat.wire import CODES, TYPES
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts
from dragoman.serving.routes import Route
from dragoman.serving.server import Forwarding, ProtocolServer, listed

HTTP = Http(path=same_path("/chat/completions"), signs=False)


def decode_error(body: Wire, status: int) -> Failure | None:
    """OpenAI's `{error: {…}}`, `{error: "text"}`, and the flat bodies of vLLM and FastAPI servers."""
    error = body.get("error")
    if not error:
        if body.get("object") != "error":
            if not status or (body.get("choices") if status < 400 else "choices" in body):
                return None
            if status < 400:
                return not_a_reply(body, "choices")
        error = body
    if not is_object(error):
        error = {"message": error}
    code, kind_name = error.get("code"), error.get("type")
    message: Any = error.get("message") or error.get("detail") or error
    message = message if isinstance(message, str) else jsontext.dumps(message)
    status = status if status >= 400 else _status_in(code)
    name = code if isinstance(code, str) and code else kind_name
    name = name if isinstance(name, str) else ""
    kind = recognise_overflow(_failure_kind(code, kind_name, status), message, name)
    return Failure(kind, message, status if status >= 400 else status_of(kind), name)


def encode_error(failure: Failure) -> tuple[int, Wire]:
    code = CODES.encode(failure.kind) or None
    if failure.code == UNKNOWN_ROUTE:  # else it would read `model_not_found`
        code = UNKNOWN_ROUTE
    type = TYPES.encode(failure.kind)
    error = {"message": error_message(failure), "type": type, "param": None, "code": code}
    return status_of(failure.kind), {"error": error}


def _status_in(code: Any) -> int:
    """OpenRouter sends the HTTP status as `error.code`."""
    text = str(code)
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else 0


def _failure_kind(code: Any, name: Any, status: int) -> FailureKind:
    """The code is most precise, then the status; the type is often the same for several kinds."""
    if isinstance(code, str) and CODES.decode(code) != "server":
        return CODES.decode(code)
    if status >= 400:
        return kind_of(status)
    return TYPES.decode(name) if isinstance(name, str) else "server"


# Endpoints that are not translated: OpenAI's, and Cohere's rerank as vLLM and others have it
_FORWARDED = (
    *("/embeddings", "/completions", "/moderations", "/rerank"),
    *("/images/generations", "/images/edits", "/images/variations"),
    *("/audio/speech", "/audio/transcriptions", "/audio/translations"),
)
ROUTES = (
    Route("POST", "/v1/chat/completions", "generate"),
    Route("POST", "/openai/deployments/{model}/chat/completions", "generate"),  # Azure names the model
    *(Route("POST", f"/v1{path}", "forward", variant=path) for path in _FORWARDED),
    Route("POST", "/openai/deployments/{model}/embeddings", "forward", variant="/embeddings"),
    Route("GET", "/v1/models", "models"),
    Route("GET", "/v1/models/{model:path}", "model"),
)


class _RequestGlance(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[Entry] | None
    functions: list[Entry] | None


class _MessageGlance(Struct, frozen=True):
    tool_calls: list[Entry] | None = None


class _ChoiceGlance(Struct):
    message: _MessageGlance = _MessageGlance()


class _ReplyGlance(Struct):
    model: Once = None
    error: Any = None
    object: Any = None
    choices: list[_ChoiceGlance] | None = None
    usage: Counts | None = None


_REPLY = Glance(_ReplyGlance)


def _glance_reply(body: bytes) -> ReplyFacts | None:
    """Like `decode_error`, `decode_usage` and `_count_calls` together, for the usual shape."""
    reply = _REPLY.read(body)
    if reply is None or reply.error or reply.object == "error" or not reply.choices:
        return None
    calls = 0
    for choice in reply.choices:
        if called := choice.message.tool_calls:
            calls += len(called)
    return ReplyFacts(reply.model, usage_of(reply.usage) if reply.usage else None, calls)


def _count_calls(body: Wire) -> int:
    calls, choices = 0, body.get("choices")
    for choice in choices if is_array(choices) else ():
        message = choice.get("message") if is_object(choice) else None
        if is_object(message) and (called := message.get("tool_calls")):
            calls += count(called)
    return calls


ACCOUNTING = Accounting(
    request=Glance(_RequestGlance),
    reply=_glance_reply,
    tools=lambda body: count(body.get("tools")) or count(body.get("functions")),
    calls=_count_calls,
    usage=decode_usage,
    usage_field="usage",
    call_hint=b"tool_calls",
    call_mark=r'"type":\s*"function"',
    usage_request={"stream_options": {"include_usage": True}},
    usage_event=r'"choices":\s*\[\]',
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/models",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=rate_limit_headers,
    forwarding=Forwarding(lambda model, path: path, ("openai-chat", "openai-responses")),
)
