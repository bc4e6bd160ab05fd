"""Kinds of failure and the HTTP statuses that go with them."""

from __future__ import annotations

import math
import re
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
_TOO_LONG = re.compile(
    r"context[ _](length|window)|prompt is too long|too many (input )?tokens|maximum context|"
    r"exceeds? the (maximum|available) (number of )?(input )?(tokens|context)|input token count",
    re.IGNORECASE,
)


def status_of(kind: FailureKind) -> int:
    return _STATUS[kind]


def kind_of(status: int) -> FailureKind:
    return _KIND.get(status) or ("bad_request" if 400 <= status < 500 else "server")


def says_context_too_long(message: str) -> bool:
    """Providers say it in words; agents compact only when they recognise it."""
    return _TOO_LONG.search(message) is not None


def not_a_reply(body: Wire, missing: str) -> Failure:
    """A body with status 200 that is no reply, such as `{"detail": …}`, `{"errors": […]}` or `{}`."""
    found = next((body[key] for key in ("message", "detail", "errors") if body.get(key)), None)
    message = found if found is None or isinstance(found, str) else jsontext.dumps(found)
    return Failure("server", message or f"the upstream's reply has no {missing}", 502)


def bounded_wait(seconds: float) -> float | None:
    """A wait that an upstream asks for, at most a day; None for `inf` and `nan`."""
    return min(max(seconds, 0.0), _DAY) if math.isfinite(seconds) else None


def words(value: Any) -> str:
    """What an error says, whatever its sender made of it: a report of trouble is never refused."""
    return value if isinstance(value, str) else "" if value is None else str(value)
