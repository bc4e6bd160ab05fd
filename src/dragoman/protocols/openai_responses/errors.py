"""Errors: a body, a response that failed, an `error` event in either of its two shapes."""

from __future__ import annotations

from typing import Any

from dragoman.core.failures import UNKNOWN_ROUTE, kind_of, not_a_reply, recognise_overflow, status_of
from dragoman.core.fields import word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai import error_message
from dragoman.protocols.openai_responses.wire import CODES, TYPES

# Kinds whose code clients of this API expect in an error body; other kinds have only a type
_CODED = word_set("context_too_long unauthenticated billing not_found rate_limit overloaded")
NOT_FOUND, LOCKED, ITEM_NOT_FOUND = "conversation_not_found", "conversation_locked", "item_not_found"
INVALID_LANE, LANE_LIMIT = "invalid_stream_id", "websocket_stream_limit_reached"
CONNECTION_LIMIT = "websocket_connection_limit_reached"
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
    if error and is_object(error):  # R writes null as {}
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
