"""The key of a request, wherever the client's protocol puts it; whose it is, `limits.callers` knows."""

from __future__ import annotations

from collections.abc import Mapping

_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


def key_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key that a client sent, in any of the places the four protocols know."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return next((headers[name] for name in _HEADERS if headers.get(name)), query.get("key", ""))
