"""Errors: as the body of an answer, as an event of a stream, as an interaction that failed."""

from __future__ import annotations

from typing import Any

from dragoman.core.failures import not_a_reply
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.gemini_interactions.response import is_reply, reason_of_failure
from dragoman.protocols.google import decode_error_object, encode_error


def decode_error(body: Any, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply."""
    if is_array(body) and len(body) == 1:
        body = body[0]
    if not is_object(body):
        return None
    if body.get("error"):
        return decode_error_object(_named(body["error"]), status if status >= 400 else 0)
    if body.get("status") == "failed":
        return decode_error_object(_named(reason_of_failure(body)), status if status >= 400 else 0)
    if body.get("event_type") == "error":
        return Failure("server", "the upstream failed without saying why", 500)
    whole = 0 < status < 400  # 0: an event of a stream
    return not_a_reply(body, "steps") if whole and not is_reply(body) else None


def encode_failure(failure: Failure) -> Wire:
    """The `error` of an event: here SDKs take a code that is a string."""
    error = encode_error(failure)[1]["error"]
    return {"code": error["status"], "message": error["message"]}


def _named(error: Any) -> Any:
    """The types of the SDK call `code` a URI. Its last segment is the word that `status` has elsewhere."""
    if is_object(error) and isinstance(code := error.get("code"), str) and not error.get("status"):
        return {**error, "status": code.rpartition("/")[2].upper()}
    return error
