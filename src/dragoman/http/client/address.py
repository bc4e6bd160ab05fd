"""Where a request goes: the address of a URL, which is the key of the connection pool, and its path."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.core.errors import ConfigError


class Address(Struct, frozen=True):
    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}"


@lru_cache(maxsize=1024)
def address_of(url: str) -> tuple[Address, str]:
    """The address and the path with its query."""
    if not url.isascii() or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise ConfigError(f"a URL has only ASCII letters, no spaces and no control characters: {url!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"not a URL: {url!r} ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"not an http or https URL: {url!r}")
    if parts.username is not None:
        raise ConfigError(f"{parts.hostname}: a URL holds no credentials; use api_key or headers")
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname, port or (443 if tls else 80), tls), path
