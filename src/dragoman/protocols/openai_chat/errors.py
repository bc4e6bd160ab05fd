"""Error bodies differ between servers; OpenAI's `{error: {message, type, param, code}}` is what we write."""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.failures import UNKNOWN_ROUTE, kind_of, not_a_reply, recognise_overflow, status_of
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.openai import error_message
from dragoman.protocols.openai_chat.wire import CODES, TYPES


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
