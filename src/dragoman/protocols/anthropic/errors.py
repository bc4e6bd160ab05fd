"""Errors: the same body whole and in a stream."""

from __future__ import annotations

import re

from dragoman.core.failures import kind_of, not_a_reply, recognise_overflow, status_of, with_opening, words
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.anthropic.wire import ERRORS

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
