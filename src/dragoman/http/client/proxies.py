"""HTTP proxies from the environment: which one leads to an address, and the tunnel through it.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` as curl reads them. Loopback is never proxied.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.transport import ConnectFailed
from dragoman.http.client.address import Address

_LARGEST_HEAD = 16 * 1024


class Proxy(Struct, frozen=True):
    """`credentials` is the value of `proxy-authorization`, empty where the proxy asks for none."""

    host: str
    port: int
    credentials: str = ""

    @property
    def header(self) -> str:
        return f"proxy-authorization: {self.credentials}\r\n" if self.credentials else ""

    def __str__(self) -> str:
        return f"proxy {self.host}:{self.port}"


def proxy_for(address: Address, environ: Mapping[str, str]) -> Proxy | None:
    if _is_loopback(address.host) or _is_excepted(address, _variable(environ, "no_proxy")[1]):
        return None
    name, url = _variable(environ, "https_proxy" if address.tls else "http_proxy")
    if not url:
        name, url = _variable(environ, "all_proxy")
    return _proxy(name, url) if url else None


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """The lower-case spelling goes first, as in curl."""
    for spelling in (name, name.upper()):
        if environ.get(spelling):
            return spelling, environ[spelling]
    return name.upper(), ""


def _proxy(name: str, url: str) -> Proxy:
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


def _is_excepted(address: Address, listed: str) -> bool:
    return any(_covers(entry.strip().lower(), address) for entry in listed.split(","))


def _covers(entry: str, address: Address) -> bool:
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
    """A connection through `proxy` that ends at `address`, still without TLS."""
    loop = asyncio.get_running_loop()
    transport, tunnel = await loop.create_connection(_Tunnel, proxy.host, proxy.port)
    place = (
        f"{address.host}:{address.port}" if ":" not in address.host else f"[{address.host}]:{address.port}"
    )
    transport.write(f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n{proxy.header}\r\n".encode("latin-1"))
    try:
        status = await tunnel.answered
    except BaseException:
        transport.abort()
        raise
    if status != 200:
        transport.abort()
        raise ConnectFailed(f"{proxy} refused a tunnel to {address}: status {status}")
    return transport


class _Tunnel(asyncio.Protocol):
    """Reads the proxy's answer to CONNECT; what follows belongs to whoever stands behind it."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > _LARGEST_HEAD:
            words = self._head.split(b"\r\n", 1)[0].split()
            plausible = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit()
            self._settle(int(words[1]) if plausible else 0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(ConnectFailed("the proxy closed the connection"))

    def _settle(self, status: int) -> None:
        if not self.answered.done():
            self.answered.set_result(status)
