"""Kinds of failure and the HTTP statuses that go with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.model import Failure, FailureKind, Wire

_STATUS: dict[FailureKind, int] = {
    "bad_request": 400,
    "context_too_long": 400,
    "too_large": 413,
    "unauthenticated": 401,
    "billing": 429,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "rate_limit": 429,
    "server": 500,
    "overloaded": 503,
    "timeout": 504,
    "truncated": 502,
}
_KIND: dict[int, FailureKind] = {
    400: "bad_request",
    401: "unauthenticated",
    402: "billing",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    422: "bad_request",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
UNKNOWN_ROUTE = "unknown_route"  # the code of a path that does not exist, unlike that of a model
_DAY = 24 * 3600.0
# How servers say that a conversation does not fit the model. The words are theirs, seen in their errors.
_TOO_LONG = re.compile(
    "|".join(
        (
            r"context[ _](?:length|window|size|limit)",  # OpenAI, vLLM, llama.cpp, LM Studio
            r"maximum context",
            r"(?:prompt|input) is too long",  # Anthropic, Fireworks; Bedrock
            r"too many (?:input )?tokens",  # Cohere
            r"input token count",  # Google
            r"maximum prompt length",  # xAI
            r"reduce the length of the (?:messages|prompt|input)",  # Groq, Cerebras
            r"prompt token count|max_prompt_tokens_exceeded",  # GitHub Copilot
            r"exceed(?:s|ed)? (?:the |its )?(?:model )?(?:max(?:imum)? |available )?(?:number of )?"
            r"(?:input )?(?:tokens?|context|length)",  # Moonshot, Z.ai and others
            r"inputs` tokens \+ `max_new_tokens",  # Together, Hugging Face
            r"range of input length",  # DashScope
            r"longer than the maximum model length",  # vLLM
            r"inputs` must have less than",  # TGI
        )
    ),
    re.IGNORECASE,
)
# A request that is larger than what a minute allows (OpenAI 429, Groq 413): waiting does not help
_LARGER_THAN_RATE = re.compile(r"request too large for .{1,300}tokens per min", re.IGNORECASE | re.DOTALL)


def status_of(kind: FailureKind) -> int:
    return _STATUS[kind]


def kind_of(status: int) -> FailureKind:
    return _KIND.get(status) or ("bad_request" if 400 <= status < 500 else "server")


def recognise_overflow(kind: FailureKind, message: str, code: str = "") -> FailureKind:
    """`kind`, or context_too_long where the words of the error say that: agents then compact (G36:
    CLIProxyAPI#3476, colibri#725).

    Servers use any status for it: 400 mostly, 413, 422, 500, and none in a stream.
    """
    if kind in ("bad_request", "too_large", "server"):
        found = _TOO_LONG.search(message) or _TOO_LONG.search(code)
    else:
        found = _LARGER_THAN_RATE.search(message) if kind == "rate_limit" else None
    return "context_too_long" if found else kind


def with_opening(message: str, opening: str, known: re.Pattern[str]) -> str:
    """`message` as agents recognise it: where none of the `known` words are in it, after `opening`."""
    return message if known.search(message) else f"{opening}: {message}"


def not_a_reply(body: Wire, missing: str) -> Failure:
    """A body with status 200 that is no reply, such as `{"detail": …}`, `{"errors": […]}` or `{}`."""
    found = next((body[key] for key in ("message", "detail", "errors") if body.get(key)), None)
    message = found if found is None or isinstance(found, str) else jsontext.dumps(found)
    return Failure("server", message or f"the upstream's reply has no {missing}", 502)


def read_error_body(
    decode_error: Callable[[Wire, int], Failure | None], status: int, body: Wire | bytes | str
) -> Failure:
    """The failure in a reply with an error status, whatever its body looks like: JSON, HTML or nothing."""
    failure = None
    try:
        value: Any = jsontext.decode(body) if isinstance(body, bytes | str) else body
        # Google answers a failed stream with an array of one error
        value = value[0] if jsontext.is_array(value) and len(value) == 1 else value
        failure = decode_error(value, status) if jsontext.is_object(value) else None
    except ValueError:
        pass
    if failure:
        return failure
    text = _opening_text(body)
    kind = recognise_overflow(kind_of(status), text)
    return Failure(kind, f"the upstream answered {status}{': ' + text if text else ''}", status)


def _opening_text(body: Wire | bytes | str) -> str:
    if isinstance(body, bytes):
        return body[:500].decode("utf-8", "replace").strip()
    return (body if isinstance(body, str) else jsontext.dumps(body))[:500].strip()


def truncated(missing: str) -> Failure:
    return Failure("truncated", f"the upstream's stream ended without {missing}", 502)


def bounded_wait(seconds: float) -> float | None:
    """A wait that an upstream asks for, at most a day; None for `inf` and `nan`."""
    return min(max(seconds, 0.0), _DAY) if math.isfinite(seconds) else None


def words(value: Any) -> str:
    """What an error says, whatever its sender made of it: a report of trouble is never refused."""
    return value if isinstance(value, str) else "" if value is None else str(value)
