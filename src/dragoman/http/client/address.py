"""Where a request goes, and its head: the URL's address is the pool's key, its path stands in the head."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.core.errors import ConfigError

_LINE_ENDS = ("\r", "\n", "\0")


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


def request_head(
    method: str, path: str, address: Address, headers: dict[str, str], length: int, extra: str = ""
) -> bytes:
    """`extra` is complete header lines. Raises ConfigError for a header that would end its line."""
    lines = _lines(method, path, address, tuple(headers.items()), extra)
    return b"%bcontent-length: %d\r\n\r\n" % (lines, length)


@lru_cache(maxsize=256)
def _lines(method: str, path: str, address: Address, items: tuple[tuple[str, str], ...], extra: str) -> bytes:
    """Everything but the length, which alone differs between two requests of a provider."""
    headers = dict(items)
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
        raise _illegal(headers)
    encoding = "" if "accept-encoding" in headers else "accept-encoding: identity\r\n"
    text = f"{method} {path} HTTP/1.1\r\nhost: {address.authority}\r\n{lines}{extra}{encoding}"
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise _illegal(headers) from None


def _illegal(headers: dict[str, str]) -> ConfigError:
    """Names the header, not its value, which may be a key."""
    for name, value in headers.items():
        if any(end in name or end in value for end in _LINE_ENDS):
            return ConfigError(f"the header {name!r} has a line break or a zero in it")
        if any(ord(letter) > 255 for letter in name + value):
            return ConfigError(f"the header {name!r} has characters that HTTP cannot carry")
    return ConfigError("a header cannot be sent as it is")
