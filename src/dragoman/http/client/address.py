"""Where a request goes: the address of a URL, which is the key of the connection pool, and its proxy.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are read as curl reads them (curl's manual page,
Environment). Loopback is never proxied.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.transport import ConnectFailed

_LARGEST_HEAD = 16 * 1024


class Address(Struct, frozen=True, cache_hash=True):
    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        return host if self.port == usual else f"{host}:{self.port}"

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
        raise ConfigError(f"{parts.hostname}: Write no credentials into a URL. Use api_key or headers.")
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname, port or (443 if tls else 80), tls), path


class Proxy(Struct, frozen=True):
    """`credentials` is the value of `proxy-authorization`; empty: none."""

    host: str
    port: int
    credentials: str = ""

    @property
    def header(self) -> str:
        return f"proxy-authorization: {self.credentials}\r\n" if self.credentials else ""

    def __str__(self) -> str:
        return f"proxy {self.host}:{self.port}"


def proxy_for(address: Address, environ: Mapping[str, str]) -> Proxy | None:
    if _is_loopback(address.host) or _is_excluded(address, _variable(environ, "no_proxy")[1]):
        return None
    name, url = _variable(environ, "https_proxy" if address.tls else "http_proxy")
    if not url:
        name, url = _variable(environ, "all_proxy")
    return read_proxy(name, url) if url else None


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """The lower-case name has precedence, as in curl."""
    for spelling in (name, name.upper()):
        if environ.get(spelling):
            return spelling, environ[spelling]
    return name.upper(), ""


def read_proxy(name: str, url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{name}: not a URL ({error})") from None
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(f"{name}: only http:// proxies are supported, not {parts.scheme}://")
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    basic = f"Basic {b64encode(pair.encode()).decode()}" if parts.username else ""
    return Proxy(parts.hostname, port or 80, basic)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excluded(address: Address, no_proxy: str) -> bool:
    return any(_matches(entry.strip().lower(), address) for entry in no_proxy.split(","))


def _matches(entry: str, address: Address) -> bool:
    """`*`, a domain with its subdomains, `host:port`, an IP address or a network of them."""
    if not entry:
        return False
    if "/" in entry:
        try:
            return ip_address(address.host) in ip_network(entry, strict=False)
        except ValueError:
            return False
    host, colon, port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if colon and port != str(address.port):
        return False
    host = host.strip("[]").removeprefix("*").lstrip(".")
    return not host or address.host == host or address.host.endswith(f".{host}")


async def open_tunnel(proxy: Proxy, address: Address) -> asyncio.Transport:
    """A connection through `proxy` to `address`, before TLS."""
    loop = asyncio.get_running_loop()
    transport, tunnel = await loop.create_connection(_Tunnel, proxy.host, proxy.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
    target = f"{host}:{address.port}"
    transport.write(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{proxy.header}\r\n".encode("latin-1"))
    try:
        status = await tunnel.status
    except BaseException:
        transport.abort()
        raise
    if status != 200:
        transport.abort()
        raise ConnectFailed(f"{proxy} refused a tunnel to {address}: status {status}")
    return transport


class _Tunnel(asyncio.Protocol):
    """Reads the proxy's response to CONNECT; what follows comes from the upstream."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > _LARGEST_HEAD:
            words = self._head.split(b"\r\n", 1)[0].split()
            plausible = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit()
            if not self.status.done():
                self.status.set_result(int(words[1]) if plausible else 0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.status.done():
            self.status.set_exception(ConnectFailed("the proxy closed the connection"))
