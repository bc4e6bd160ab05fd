"""One GET of a public address. The host is resolved once, all its addresses must be public, the connection
uses an address that was checked, and each redirect is checked again: no page leads to a private service.

Everything ends at the deadline, also headers that arrive a byte at a time: a timer closes the socket.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

from dragoman.toolkit.limits import Limits
from dragoman.toolkit.root import Refused

REDIRECTS = 5
_HEADERS = {
    "User-Agent": "dragoman",
    "Accept": "text/*, application/json, */*;q=0.5",
    "Accept-Encoding": "identity",
}
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # NAT64: an IPv4 address in its last 32 bits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Allowed = Callable[[Address], bool]


@dataclass(frozen=True, slots=True)
class WebPage:
    url: str
    media_type: str
    charset: str
    body: bytes
    cut: bool


def is_public(address: Address) -> bool:
    """Whether it is globally reachable. IPv4 inside IPv6 is judged as IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TRANSLATED:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        if inner:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def download(url: str, limits: Limits, allowed: Allowed = is_public) -> WebPage:
    deadline = time.monotonic() + limits.seconds
    for _ in range(REDIRECTS + 1):
        found = _get(url, limits, allowed, deadline)
        if isinstance(found, WebPage):
            return found
        url = urljoin(url, found)
    raise Refused(f"{url}: more than {REDIRECTS} redirects")


def _get(url: str, limits: Limits, allowed: Allowed, deadline: float) -> WebPage | str:
    """The page, or the address that it redirects to."""
    parts = _split(url)
    connection = _connection(parts, _resolve(parts, allowed), deadline)
    try:
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        with _closed_at(deadline, connection):
            connection.request("GET", path, headers=_HEADERS)
            reply = connection.getresponse()
        moved = reply.headers.get("Location")
        if reply.status in (301, 302, 303, 307, 308) and moved:
            return moved
        if reply.status >= 400:
            raise Refused(f"{url}: the server answered {reply.status} {reply.reason}")
        body, cut = _body(reply, limits.file, deadline)
        charset = reply.headers.get_content_charset() or "utf-8"
        return WebPage(url, reply.headers.get_content_type(), charset, body, cut)
    except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
        late = time.monotonic() >= deadline
        problem = f"no answer within {limits.seconds:g} s" if late else str(error) or type(error).__name__
        raise Refused(f"{url}: {problem}") from None
    finally:
        connection.close()


@contextmanager
def _closed_at(deadline: float, connection: http.client.HTTPConnection) -> Generator[None]:
    """The timeout of a socket is per read, and a server that sends a byte a second never exceeds it."""

    def close() -> None:
        with suppress(OSError):
            if connection.sock:
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0), close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused(f"{url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Refused(f"{url}: only http and https addresses are fetched")
    if parts.username or parts.password:
        raise Refused(f"{url}: an address with a name or a password is not fetched")
    return parts


def _resolve(parts: SplitResult, allowed: Allowed) -> list[str]:
    host = parts.hostname or ""
    try:
        found = socket.getaddrinfo(host, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"{host}: {error}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not allowed(ipaddress.ip_address(address.partition("%")[0])):
            raise Refused(f"{host} is a private address ({address}) and is not fetched")
    return addresses


def _connection(parts: SplitResult, addresses: list[str], deadline: float) -> http.client.HTTPConnection:
    """A connection to the first address that answers; TLS and Host use the name."""
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port)
    connection.sock = _connect(host, port, addresses, deadline)
    if parts.scheme == "https":
        connection.default_port = 443  # what Host leaves out
        try:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        except (OSError, ValueError) as error:
            connection.close()
            raise Refused(f"{host}: {error}") from None
    return connection


def _connect(host: str, port: int, addresses: list[str], deadline: float) -> socket.socket:
    problem: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=max(deadline - time.monotonic(), 0.1))
        except OSError as error:
            problem = error
    raise Refused(f"{host}: {problem}")


def _body(reply: http.client.HTTPResponse, most: int, deadline: float) -> tuple[bytes, bool]:
    body = bytearray()
    while data := reply.read1(65536):
        body += data
        if len(body) > most:
            return bytes(body[:most]), True
        if time.monotonic() > deadline:
            raise Refused("the page takes too long")
    return bytes(body), False
