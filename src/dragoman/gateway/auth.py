"""The key of a request, wherever the client's protocol puts it; whose it is, `limits.callers` knows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


def key_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key that a client sent, in any of the places the four protocols know."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return next((headers[name] for name in _HEADERS if headers.get(name)), query.get("key", ""))


def owner_of(key: str, keys: tuple[str, ...]) -> str:
    """Whose is what the store keeps: a hash of the client's key; nobody's where no key is needed."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest() if keys else ""
