"""The key of a request, wherever the client's protocol puts it; whose it is, `limits.callers` knows.

Where no key is needed, everyone on this machine may ask, and a browser on it asks for whoever made the page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa")  # names that nobody can buy


def client_key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key that a client sent, in any of the places the four protocols know."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for name in _HEADERS:
        if key := headers.get(name):
            return key
    return query.get("key", "")


def owner_of(key: str, keys: tuple[str, ...]) -> str:
    """Whose is what the store keeps: a hash of the client's key; nobody's where no key is needed."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest() if keys else ""


def is_cross_site_request(headers: Mapping[str, str]) -> bool:
    """Whether a page from elsewhere may have made a browser ask: it says so itself, or calls this machine by
    a public name, which the page's owner can lead anywhere (DNS rebinding)."""
    scheme, _, page = headers.get("origin", "").partition("://")
    return (scheme in ("http", "https") and not _is_private(page)) or not _is_private(headers.get("host", ""))


@lru_cache(maxsize=256)
def _is_private(authority: str) -> bool:
    """A name without dots, one of a private domain, or an address that the internet does not lead to."""
    host = authority.partition("]")[0].lstrip("[") if "[" in authority else authority.partition(":")[0]
    host = host.lower().rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE)
