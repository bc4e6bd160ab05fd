"""One GET: addresses with odd characters, packed pages, servers that drip or break off."""

import gzip
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dragoman.fetch import AddressGuard, FetchError, WebPage, download

PAGE = "Köln".encode() * 100
PACKED = {"gzip": gzip.compress(PAGE), "deflate": zlib.compress(PAGE), "identity": PAGE}
MOVED = {
    "/relative": "/k%C3%B6ln?a=b c",
    "/raw": "/köln?a=b c",
    "/broken": "http://[/",
    "/scheme": "file:///etc/passwd",
    "/again": "/again",
    "/password": "http://user:secret@127.0.0.1/",
}


class Server(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if moved := MOVED.get(self.path):
            self.wfile.write(f"HTTP/1.0 302 Found\r\nLocation: {moved}\r\n\r\n".encode())
            return
        encoding = self.path[1:] if self.path[1:] in (*PACKED, "br", "broken-gzip") else "identity"
        self.send_response(200)
        self.send_header("content-type", "text/plain; charset=utf-8")
        if self.path == "/short":
            self.send_header("content-length", str(len(PAGE) + 1))
        self.send_header("content-encoding", encoding.removeprefix("broken-"))
        self.end_headers()
        self.wfile.write(PACKED.get(encoding, b"\x1f\x8b\x08 no"))

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Server,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def get(path: str, most: int = 1_000_000) -> tuple[WebPage, list[str]]:
    with serving() as (host, asked):
        return download(
            f"http://{host}{path}", AddressGuard(frozenset((host,))), seconds=20, most=most
        ), asked


@pytest.mark.parametrize("path", ["/köln?a=b c", "/k%C3%B6ln?a=b%20c", "/relative", "/raw"])
def test_odd_characters_are_quoted(path: str):
    page, asked = get(path)
    assert asked[-1] == "/k%C3%B6ln?a=b%20c"
    assert page.body == PAGE


@pytest.mark.parametrize("encoding", PACKED)
def test_a_packed_page_is_unpacked_up_to_the_limit(encoding: str):
    page, _ = get(f"/{encoding}")
    assert (page.body, page.cut) == (PAGE, False)
    page, _ = get(f"/{encoding}", most=100)
    assert (page.body, page.cut) == (PAGE[:100], True)


@pytest.mark.parametrize(
    "path, message",
    [
        ("/br", "answers in br"),
        ("/broken-gzip", "cannot be unpacked"),
        ("/broken", "Invalid IPv6 URL"),
        ("/again", "more than 5 redirects"),
        ("/scheme", "only http and https"),
        ("/password", "with a name or a password"),
    ],
)
def test_what_cannot_be_read_says_why(path: str, message: str):
    with pytest.raises(FetchError, match=message):
        get(path)


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
DRIPS = {  # what comes at once, then the byte that comes again and again
    "a handshake": ("https", b"\x16\x03\x03\x40\x00", b"\x02"),
    "a header": ("http", b"HTTP/1.1 200 OK\r\nx: ", b"x"),
    "the size of a chunk": ("http", CHUNKED, b"0"),
    "what may follow it": ("http", CHUNKED + b"1;", b"x"),
    "a trailer": ("http", CHUNKED + b"1\r\nx\r\n0\r\n", b"x"),
    "a body": ("http", b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("scheme, begin, again", DRIPS.values(), ids=DRIPS)
def test_what_drips_ends_at_the_deadline(scheme: str, begin: bytes, again: bytes):
    """Each byte comes in time; the whole never ends."""
    left = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(begin)
            while not left.wait(0.05):
                connection.sendall(again)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        host = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(FetchError) as failed:
            download(f"{scheme}://{host}/", AddressGuard(frozenset((host,))), seconds=1, most=100_000)
        left.set()
    assert failed.value.problem == "timeout"


def test_a_page_that_breaks_off_is_cut():
    page, _ = get("/short")
    assert (page.body, page.cut) == (PAGE, True)


@pytest.mark.parametrize("host", ["a b", "x\0y", "\x7f", "127.0.0.1 b"])
def test_a_host_that_is_no_name(host: str, monkeypatch: pytest.MonkeyPatch):
    """Also where the resolver takes it for one."""
    with pytest.raises(FetchError):
        download(f"http://{host}/", AddressGuard(), seconds=20, most=100)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.1", 80))])
    with pytest.raises(FetchError):
        download(f"http://{host}/", AddressGuard(allowed=lambda _: True), seconds=20, most=100)
