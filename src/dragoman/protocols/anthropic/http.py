"""Paths, headers and error bodies of the Messages API."""

from __future__ import annotations

from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, says_context_too_long, status_of
from dragoman.core.fields import Fields
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.anthropic.wire import ERRORS, PROTOCOL

HTTP = Http(
    path=lambda model, stream: "/v1/messages",
    auth=lambda key: {"x-api-key": key},
    headers={"anthropic-version": "2023-06-01"},
)

_STATUS = {"overloaded": 529, "billing": 402}


def decode_error(body: Wire, status: int) -> Failure | None:
    error = body.get("error")
    if body.get("type") != "error" or not is_object(error):
        return None
    fields = Fields(error, "error", PROTOCOL)
    name, message = fields.text("type"), fields.text("message")
    kind = ERRORS.decode(name) if name else kind_of(status)
    if kind == "bad_request" and says_context_too_long(message):
        kind = "context_too_long"
    return Failure(kind, message, status or _STATUS.get(kind) or status_of(kind), name)


def encode_error(failure: Failure) -> tuple[int, Wire]:
    message = failure.message
    if failure.kind == "context_too_long" and "prompt is too long" not in message.lower():
        message = f"prompt is too long: {message}"  # the words that make Claude Code compact
    body = {"type": "error", "error": {"type": ERRORS.encode(failure.kind), "message": message}}
    return _STATUS.get(failure.kind) or status_of(failure.kind), body


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)
