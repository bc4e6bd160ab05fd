"""Errors: `{"message": …}`; the type stands in a header, and in a stream it is the type of the message."""

from __future__ import annotations

import re

from dragoman.core.failures import kind_of, not_a_reply, recognise_overflow, status_of, with_opening, words
from dragoman.core.model import Failure, Wire
from dragoman.protocols.aws import explain
from dragoman.protocols.bedrock_converse.wire import ERRORS

_TOO_LONG = re.compile("input is too long", re.IGNORECASE)


def decode_error(body: Wire, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply. A proxy of AWS spells `message` as `Message`."""
    if status and status < 400:
        return None if "output" in body else not_a_reply(body, "output")
    message = words(body.get("message") or body.get("Message"))
    name = words(body.get("__type")).rpartition("#")[2]
    if not status:
        return decode_exception(name, body) if name else None
    if not message and not name:
        return None
    kind = ERRORS.decode(_spelled(name)) if name else kind_of(status)
    return Failure(recognise_overflow(kind, message, name), explain(message or name), status, name)


def decode_exception(name: str, body: Wire) -> Failure | None:
    """Of a message of a stream; None for an event."""
    if name == "error":  # the framing gives its code and text
        name = words(body.get("code")) or "internalServerException"
    elif not name.endswith("Exception"):
        return None
    message = words(body.get("message") or body.get("originalMessage")) or name
    kind = recognise_overflow(ERRORS.decode(_spelled(name)), message, name)
    status = body.get("originalStatusCode")
    return Failure(kind, message, status if type(status) is int and status >= 400 else status_of(kind), name)


def _spelled(name: str) -> str:
    """Types begin with a small letter in streams and a capital elsewhere."""
    return name[:1].lower() + name[1:]


def encode_error(failure: Failure) -> tuple[int, Wire]:
    message = failure.message
    if failure.kind == "context_too_long":
        message = with_opening(message, "Input is too long for requested model", _TOO_LONG)
    return status_of(failure.kind), {"__type": ERRORS.encode(failure.kind), "message": message}
