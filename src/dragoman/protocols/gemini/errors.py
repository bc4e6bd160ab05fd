"""Errors, and bodies that are no reply."""

from __future__ import annotations

from typing import Any

from dragoman.core.failures import not_a_reply
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.google import decode_error_object


def decode_error(body: Any, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply: it has neither a candidate nor a blocked prompt."""
    if is_array(body) and len(body) == 1:  # Google wraps the error of a stream that is not SSE
        body = body[0]
    if not is_object(body):
        return None
    if body.get("error"):
        return decode_error_object(body["error"], status if status >= 400 else 0)
    whole = 0 < status < 400  # 0: an event of a stream
    replied = body.get("candidates") or _is_blocked(body)
    return not_a_reply(body, "candidates") if whole and not replied else None


def _is_blocked(body: Wire) -> bool:
    feedback = body.get("promptFeedback")
    return is_object(feedback) and feedback.get("blockReason") is not None
