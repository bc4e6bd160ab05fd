"""Paths, headers and error bodies of the Responses API."""

from __future__ import annotations

from typing import Any

from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, says_context_too_long, status_of
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai_responses.wire import CODES, TYPES

HTTP = Http(path=lambda model, stream: "/responses", auth=lambda key: {"authorization": f"Bearer {key}"})

# Codes that a client of this API expects in an error body; other kinds are told by their type
_CODED = frozenset(
    {"context_too_long", "unauthenticated", "billing", "not_found", "rate_limit", "overloaded"}
)

# Codes for what a server should have kept and has not -> the field that asks for it
_KEPT = {
    "previous_response_not_found": "previous_response_id",
    "conversation_not_found": "conversation",
    "background_not_supported": "background",
    "not_kept": "id",
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
    return None


def encode_error(failure: Failure) -> tuple[int, Wire]:
    kind = failure.kind
    code = CODES.encode(kind) if kind in _CODED else None
    param = _KEPT.get(failure.code)
    error = {
        "message": failure.message,
        "type": TYPES.encode(kind),
        "param": param,
        "code": failure.code if param else code,
    }
    return status_of(kind), {"error": error}


def encode_failure(failure: Failure) -> Wire:
    """The `error` of a failed response."""
    return {"code": CODES.encode(failure.kind) or "server_error", "message": failure.message}


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def _failure(error: Any, status: int) -> Failure:
    code, message = error.get("code"), error.get("message")
    if type(code) is int and 400 <= code < 600:  # some servers repeat the status there
        status = status or code
    code = code if isinstance(code, str) else ""
    type_ = error.get("type") if isinstance(error.get("type"), str) else ""
    message = message if isinstance(message, str) and message else "the upstream failed without saying why"
    kind = _kind(code, type_, status)
    if kind == "bad_request" and says_context_too_long(message):
        kind = "context_too_long"
    return Failure(kind, message, status or status_of(kind), code or type_)


def _kind(code: str, type: str, status: int) -> FailureKind:
    """The code is the most precise; a status is more so than a type that several kinds share."""
    known = CODES.decode(code) or ("billing" if type == "insufficient_quota" else "")
    if known:
        return known
    return kind_of(status) if status >= 400 else TYPES.decode(type) or "server"
