"""One GET of a public address. The host is resolved once, all its addresses must be public, the connection
uses an address that was checked, and each redirect is checked again: no page leads to a private service.

Everything ends at the deadline, also headers that arrive a byte at a time: a timer closes the socket.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from dragoman.fetch.guard import AddressGuard, FetchError

REDIRECTS = 5
# Codecs that are no charsets: punycode takes quadratic time, idna raises whatever `errors` says.
_NO_CHARSETS = frozenset(("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"))
_IN_URLS = "!#$%&'(*+),/:;=?@[]~"  # stays as it is; anything else, such as an umlaut, is quoted
_HEADERS = {
    "User-Agent": "dragoman",
    "Accept": "text/*, application/json, */*;q=0.5",
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class WebPage:
    url: str
    media_type: str
    charset: str
    body: bytes
    cut: bool

    def text(self) -> str:
        charset = self.charset.lower().replace("_", "-")
        try:
            return self.body.decode("utf-8" if charset in _NO_CHARSETS else charset, errors="replace")
        except (LookupError, UnicodeError):
            return self.body.decode(errors="replace")


def download(
    url: str,
    guard: AddressGuard,
    *,
    seconds: float,
    most: int,
    is_wanted: Callable[[str], bool] = lambda url: True,
) -> WebPage:
    """It blocks, for `seconds` at most. `most`: bytes that are read of the page. `is_wanted`: whether a
    redirect may lead to an address."""
    deadline = time.monotonic() + seconds
    try:
        for _ in range(REDIRECTS + 1):
            found = _get(url, guard, most, deadline)
            if isinstance(found, WebPage):
                return found
            url = found
            if not is_wanted(url):
                raise FetchError(f"{url}: a redirect leads to a domain that is not allowed", "not_allowed")
    except FetchError as error:
        if error.problem != "unavailable" or time.monotonic() < deadline:
            raise
        raise FetchError(f"{url}: no answer within {seconds:g} s", "timeout") from None
    raise FetchError(f"{url}: more than {REDIRECTS} redirects", "not_accessible")


def _get(url: str, guard: AddressGuard, most: int, deadline: float) -> WebPage | str:
    """The page, or the address that it redirects to."""
    parts = _split(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    addresses = guard.resolve(host, port)
    try:
        with closing(http.client.HTTPConnection(host, port)) as connection:
            connection.sock = _connect(host, port, addresses, deadline)
            with _close_at(deadline, connection.sock):
                return _ask(connection, url, parts, most)
    except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
        raise FetchError(f"{url}: {str(error) or type(error).__name__}") from None


def _ask(connection: http.client.HTTPConnection, url: str, parts: SplitResult, most: int) -> WebPage | str:
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    if parts.scheme == "https":
        connection.default_port = 443  # what Host leaves out
        context = ssl.create_default_context()
        connection.sock = context.wrap_socket(
            connection.sock, server_hostname=connection.host, do_handshake_on_connect=False
        )
        connection.sock.do_handshake()
    connection.request("GET", quote(path, safe=_IN_URLS), headers=_HEADERS)
    reply = connection.getresponse()
    moved = reply.headers.get("Location")
    if reply.status in (301, 302, 303, 307, 308) and moved:  # http.client reads headers as Latin-1
        return urljoin(url, quote(moved.encode("latin-1", "replace"), safe=_IN_URLS))
    if reply.status >= 400:
        raise FetchError(f"{url}: the server answered {reply.status} {reply.reason}", "not_accessible")
    body, cut = _unpack(reply, *_body(reply, most), most)
    charset = reply.headers.get_content_charset() or "utf-8"
    return WebPage(url, reply.headers.get_content_type(), charset, body, cut)


@contextmanager
def _close_at(deadline: float, connected: socket.socket) -> Generator[None]:
    """The timeout of a socket is per read, and a server that sends a byte a second never exceeds it. What was
    read of a socket that was closed looks whole at times: it raises TimeoutError."""

    def close() -> None:
        with suppress(OSError):
            held.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0), close)
    with connected.dup() as held:  # TLS and http.client take the other one with them
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
    if time.monotonic() >= deadline:
        raise TimeoutError


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise FetchError(f"{url}: {error}", "invalid") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise FetchError(f"{url}: only http and https addresses are fetched", "invalid")
    if parts.username or parts.password:
        raise FetchError(f"{url}: an address with a name or a password is not fetched", "not_allowed")
    return parts


def _connect(host: str, port: int, addresses: list[str], deadline: float) -> socket.socket:
    """To the first address that answers."""
    problem: OSError | None = None
    for address in addresses:
        if (left := deadline - time.monotonic()) <= 0:
            break
        try:
            return socket.create_connection((address, port), timeout=left)
        except OSError as error:
            problem = error
    raise FetchError(f"{host}: {problem}")


def _body(reply: http.client.HTTPResponse, most: int) -> tuple[bytes, bool]:
    body = bytearray()
    while data := reply.read1(65536):
        body += data
        if len(body) > most:
            return bytes(body[:most]), True
    return bytes(body), bool(reply.length)  # less came than was announced


def _unpack(reply: http.client.HTTPResponse, body: bytes, cut: bool, most: int) -> tuple[bytes, bool]:
    """Some servers compress whatever the client accepts."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body, cut
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise FetchError(f"the server answers in {encoding}, which it was not asked for")
    unpacker = zlib.decompressobj(wbits=47)  # the headers of both
    try:
        return unpacker.decompress(body, most), cut or bool(unpacker.unconsumed_tail)
    except zlib.error as error:
        raise FetchError(f"the page cannot be unpacked: {error}") from None
