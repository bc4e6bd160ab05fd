"""Paths, headers and error bodies of the Gemini API."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, says_context_too_long, status_of, words
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.core.server import rows
from dragoman.protocols.gemini.wire import ERRORS

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_RESOURCES = ("tunedModels/", "publishers/", "projects/")  # names that are paths themselves


def path(model: str, stream: bool) -> str:
    name = model.removeprefix("models/")
    resource = name if name.startswith(_RESOURCES) else f"models/{quote(name, safe='')}"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/{quote(resource, safe='/%')}:{method}"


HTTP = Http(path=path, auth=lambda key: {"x-goog-api-key": key}, model_in_body=False)


def decode_error(body: Any, status: int) -> Failure | None:
    """Streams that are not SSE wrap their error in an array."""
    if is_array(body) and len(body) == 1:
        body = body[0]
    error = body.get("error") if is_object(body) else None
    if not is_object(error):
        return None
    code, message, name = _status(error.get("code")), words(error.get("message")), words(error.get("status"))
    details = rows(error.get("details"))
    kind = ERRORS.decode(name) if name else kind_of(status or code)
    if kind == "bad_request" and says_context_too_long(message):
        kind = "context_too_long"
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        kind = "unauthenticated"
    return Failure(kind, message, status or code or status_of(kind), name, _retry_after(details))


def encode_error(failure: Failure) -> tuple[int, Wire]:
    """`error` is the first and only key: google-genai sees it nowhere else."""
    message, status = failure.message, status_of(failure.kind)
    if failure.kind == "context_too_long" and "token count" not in message:
        message = f"The input token count exceeds the maximum number of tokens allowed: {message}"
    error: Wire = {"code": status, "message": message, "status": ERRORS.encode(failure.kind)}
    if failure.retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{failure.retry_after:g}s"}]
    return status, {"error": error}


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def _status(code: Any) -> int:
    return code if isinstance(code, int) and 400 <= code < 600 else 0


def _retry_after(details: list[Wire]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return float(found[1])
    return None
