"""What is asked of a server rather than of a model: health, and what agents try before they talk."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman import __version__
from dragoman.http.server import ResponseWriter

_ALIVE = ("/", "/healthz", "/readyz", "/api/hello")  # the last one is Claude Code's
_UPGRADABLE = ("/v1/responses", "/responses")


async def answered(
    method: str, path: str, headers: Mapping[str, str], saturated: bool, answer: ResponseWriter
) -> bool:
    """Whether this was a probe; then it has its answer.

    A saturated gateway is ready all the same: taken out of a balancer's list, it would leave its load to the
    others until none is left, while each of them answers what it cannot take in a millisecond.
    """
    match method, path:
        case "GET", "/readyz":
            await answer.json(200, {"status": "ok", "dragoman": __version__, "saturated": saturated})
        case (("GET" | "HEAD"), _) if path in _ALIVE:
            await answer.json(200, {"status": "ok", "dragoman": __version__})
        case "GET", _ if path in _UPGRADABLE and headers.get("upgrade", "").lower() == "websocket":
            # Codex tries a WebSocket first; by this status it falls back at once
            error = {"message": "this gateway speaks HTTP only", "type": "invalid_request_error"}
            await answer.json(426, {"error": error}, [(b"upgrade", b"HTTP/1.1")])
        case _:
            return False
    return True
