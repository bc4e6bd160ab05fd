"""Paths, headers and error bodies of the Chat API."""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, says_context_too_long, status_of
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai_chat.wire import CODES, TYPES

HTTP = Http(
    path=lambda model, stream: "/chat/completions",
    auth=lambda key: {"authorization": f"Bearer {key}"},
)


def decode_error(body: Wire, status: int) -> Failure | None:
    """OpenAI's `{error: {…}}`, and the shorter bodies of other servers."""
    error = body.get("error")
    if not error:
        if body.get("object") != "error" and (status < 400 or "choices" in body):
            return None
        error = body
    if not is_object(error):
        error = {"message": error}
    code, kind_name = error.get("code"), error.get("type")
    message = _message(error)
    status = status if status >= 400 else _status(code)
    kind = _kind(code, kind_name, status)
    if kind == "bad_request" and says_context_too_long(message):
        kind = "context_too_long"
    name = code if isinstance(code, str) and code else kind_name
    return Failure(
        kind, message, status if status >= 400 else status_of(kind), name if isinstance(name, str) else ""
    )


def encode_error(failure: Failure) -> tuple[int, Wire]:
    code = CODES.encode(failure.kind) or None
    error = {"message": failure.message, "type": TYPES.encode(failure.kind), "param": None, "code": code}
    return status_of(failure.kind), {"error": error}


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def _message(error: Wire) -> str:
    message: Any = error.get("message") or error.get("detail") or error
    return message if isinstance(message, str) else jsontext.dumps(message)


def _status(code: Any) -> int:
    """OpenRouter says the status as the code."""
    text = str(code)
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else 0


def _kind(code: Any, name: Any, status: int) -> FailureKind:
    """The code is the most exact; a status says more than a type, which is often the same for all."""
    if isinstance(code, str) and CODES.decode(code) != "server":
        return CODES.decode(code)
    if status >= 400:
        return kind_of(status)
    return TYPES.decode(name) if isinstance(name, str) else "server"
