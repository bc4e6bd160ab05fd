"""A Chat server as its clients see it: paths, authentication, error bodies, model list, accounting.

Error bodies differ between servers; OpenAI's `{error: {message, type, param, code}}` is what we write.
"""

from __future__ import annotations

import re
from typing import Any, TypedDict

from dragoman.core import jsontext
from dragoman.core.codec import Http, same_path
from dragoman.core.failures import (
    UNKNOWN_ROUTE,
    kind_of,
    not_a_reply,
    recognise_overflow,
    status_of,
    with_opening,
)
from dragoman.core.jsontext import Glance, is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.core.server import (
    Accounting,
    Entry,
    Forwarding,
    ListedModel,
    ProtocolServer,
    RateLimitStatus,
    Route,
    count,
    listed,
    rows,
)
from dragoman.protocols.openai_chat.response import decode_usage
from dragoman.protocols.openai_chat.wire import CODES, TYPES

_TOO_LONG = re.compile("context (?:window|length)", re.IGNORECASE)
HTTP = Http(path=same_path("/chat/completions"))


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
    message = _error_message(error)
    status = status if status >= 400 else _status_in(code)
    name = code if isinstance(code, str) and code else kind_name
    name = name if isinstance(name, str) else ""
    kind = recognise_overflow(_failure_kind(code, kind_name, status), message, name)
    return Failure(kind, message, status if status >= 400 else status_of(kind), name)


def encode_error(failure: Failure) -> tuple[int, Wire]:
    code = CODES.encode(failure.kind) or None
    if failure.code == UNKNOWN_ROUTE:  # else it would read `model_not_found`
        code = UNKNOWN_ROUTE
    message = failure.message
    if failure.kind == "context_too_long":  # many agents look at the words only
        message = with_opening(message, "Your input exceeds the context window of this model", _TOO_LONG)
    error = {"message": message, "type": TYPES.encode(failure.kind), "param": None, "code": code}
    return status_of(failure.kind), {"error": error}


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def _error_message(error: Wire) -> str:
    message: Any = error.get("message") or error.get("detail") or error
    return message if isinstance(message, str) else jsontext.dumps(message)


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


# Model lists


def encode_models(models: tuple[ListedModel, ...]) -> Wire:
    """There is no `models` for Codex here: an entry of its catalogue must hold `base_instructions`, which
    replace Codex's own prompt. `dragoman run codex` sets `model_context_window` instead."""
    return {"object": "list", "data": [encode_model(model) for model in models]}


def encode_model(model: ListedModel) -> Wire:
    """OpenAI's four fields, and the sizes and capabilities under the names that agents look for."""
    wire: Wire = {"id": model.name, "object": "model", "created": 0, "owned_by": "dragoman"}
    profile = model.profile
    if window := profile.context_window:  # OpenRouter's, Groq's and vLLM's name for it
        wire |= {"context_length": window, "context_window": window, "max_model_len": window}
    if profile.max_output:
        wire["max_completion_tokens"] = profile.max_output
    if window or profile.max_output:  # OpenRouter, from here on
        wire["top_provider"] = {"context_length": window, "max_completion_tokens": profile.max_output}
    if profile.images is not None:
        wire["architecture"] = {"input_modalities": model.modalities, "output_modalities": ["text"]}
    if profile.reasoning:
        wire["reasoning"] = {
            "supported_efforts": None if profile.efforts is None else list(profile.efforts),
            "default_effort": profile.default_effort,
        }
    return wire


class _RequestGlance(TypedDict, total=False):
    model: Any
    stream: Any
    tools: list[Entry] | None
    functions: list[Entry] | None


class _MessageGlance(TypedDict, total=False):
    tool_calls: list[Entry] | None


class _ChoiceGlance(TypedDict, total=False):
    message: _MessageGlance


class _ReplyGlance(TypedDict, total=False):
    model: Any
    error: Any
    object: Any
    choices: list[_ChoiceGlance] | None
    usage: Any


def _count_calls(body: Wire) -> int:
    messages = [choice.get("message") for choice in rows(body.get("choices"))]
    return sum([count(message.get("tool_calls")) for message in messages if is_object(message)])


def _rate_limit_headers(quota: RateLimitStatus) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset:.3f}s",
    }


ACCOUNTING = Accounting(
    request=Glance(_RequestGlance),
    reply=Glance(_ReplyGlance),
    tools=lambda body: count(body.get("tools")) or count(body.get("functions")),
    calls=_count_calls,
    usage=lambda body: decode_usage(body["usage"]),
    usage_field="usage",
    call_hint=b"tool_calls",
    call_mark=r'"type":\s*"function"',
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/models",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=_rate_limit_headers,
    forwarding=Forwarding(lambda model, path: path, ("openai-chat", "openai-responses")),
)
