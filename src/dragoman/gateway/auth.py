"""Who may ask: keys, checked in constant time, wherever a client's protocol puts them."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


def key_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key that a client sent, in any of the places the four protocols know."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return next((headers[name] for name in _HEADERS if headers.get(name)), query.get("key", ""))


def allowed(key: str, keys: tuple[str, ...]) -> bool:
    """Whether `key` is one of `keys`. Every one is compared, so time tells nothing. No keys: anyone may."""
    if not keys:
        return True
    given = key.encode("utf-8", "surrogateescape")
    same = [compare_digest(given, known.encode()) for known in keys]
    return any(same)
