"""Paths, headers and error bodies of the Messages API."""

from __future__ import annotations

from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, says_context_too_long, status_of, words
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.protocols.anthropic.wire import ERRORS

_STATUS: dict[FailureKind, int] = {"overloaded": 529, "billing": 402}


def _auth(key: str) -> dict[str, str]:
    """Tokens of a login are bearers, keys are not."""
    return {"authorization": f"Bearer {key}"} if key.startswith("sk-ant-oat") else {"x-api-key": key}


def _betas(body: Wire) -> dict[str, str]:
    return {"anthropic-beta": "mcp-client-2025-11-20"} if "mcp_servers" in body else {}


HTTP = Http(
    path=lambda model, stream: "/v1/messages",
    auth=_auth,
    headers={"anthropic-version": "2023-06-01"},
    headers_for=_betas,
)


def decode_error(body: Wire, status: int) -> Failure | None:
    """Servers that imitate Anthropic leave out the outer `type`, or make `error` a mere string."""
    error = body.get("error")
    if body.get("type") != "error" and ("content" in body or not error):
        return None
    if not is_object(error):
        error = {"message": error}
    name, message = words(error.get("type")), words(error.get("message"))
    kind = _kind(name, status)
    if kind == "bad_request" and says_context_too_long(message):
        kind = "context_too_long"
    details = error.get("details")
    code = words(details.get("error_code")) if is_object(details) else ""
    return Failure(kind, message, status or _STATUS.get(kind) or status_of(kind), code or name)


def encode_error(failure: Failure) -> tuple[int, Wire]:
    message = failure.message
    if failure.kind == "context_too_long" and "prompt is too long" not in message.lower():
        message = f"prompt is too long: {message}"  # the words that make Claude Code compact
    error: Wire = {"type": ERRORS.encode(failure.kind), "message": message}
    if failure.code.startswith("thread_"):  # by these the SDKs decide to send the whole conversation again
        error["details"] = {"error_code": failure.code}
    body: Wire = {"type": "error", "error": error}
    return _STATUS.get(failure.kind) or status_of(failure.kind), body


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def _kind(name: str, status: int) -> FailureKind:
    """The type decides where it is one of Anthropic's, the status otherwise."""
    kind = ERRORS.decode(name)
    return kind if ERRORS.encode(kind) == name or not status else kind_of(status)
