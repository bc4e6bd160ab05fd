"""Pages from a real server, whose address is private and therefore refused unless a test allows it."""

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dragoman.fetch import is_public
from dragoman.fetch.pagetext import page_text
from dragoman.toolkit import Hit, Limits
from dragoman.toolkit.web import addresses
from waiting import finish

HERE = {"allowed": lambda address: address.is_loopback}
PAGE = b"<title>News</title><script>no()</script><p>First &amp; <b>best</b>.<ul><li>one<li>two</ul>"


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        routes = {
            "/": (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE),
            "/data": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
            "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
            "/moved": (302, {"Location": "/data"}, b""),
            "/away": (302, {"Location": "http://169.254.169.254/latest/meta-data"}, b""),
            "/file": (302, {"Location": "file:///etc/passwd"}, b""),
            "/round": (302, {"Location": "/round"}, b""),
            "/idna": (200, {"Content-Type": "text/plain; charset=idna"}, b"a" * 100 + b"\xff"),
            "/punycode": (200, {"Content-Type": "text/plain; charset=punycode"}, b"-" + b"9" * 200_000),
            "/big": (200, {"Content-Type": "text/plain"}, b"x" * 5000),
        }
        status, headers, body = routes.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_pages_become_text(site: str, use):
    found = use("web_fetch", HERE, prompt=f"Sum up {site}/ and {site}/moved, please.")
    assert found.text == (
        f"--- {site}/ ---\nNews\n\nFirst & best.\n\n- one\n- two\n--- {site}/moved ---\n" + '{"a": 1}'
    )


FAILURES = {
    "/none": "the server answered 404 Not Found",
    "/image": "is image/png (4 bytes), not text",
    "/away": "169.254.169.254 is a private address (169.254.169.254) and is not fetched",
    "/file": "only http and https addresses are fetched",
    "/round": "more than 5 redirects",
}


@pytest.mark.parametrize("path, text", FAILURES.items(), ids=FAILURES)
def test_failures_say_why(path: str, text: str, site: str, use):
    found = use("web_fetch", HERE, prompt=f"{site}{path}")
    assert found.failed
    assert text in found.text


def test_one_page_of_two_is_enough(site: str, use):
    found = use("web_fetch", HERE, prompt=f"{site}/none {site}/data")
    assert not found.failed
    assert "404" in found.text


def test_pages_are_bounded(site: str, use):
    found = use("web_fetch", {**HERE, "limits": Limits(output=200, file=1000)}, prompt=f"{site}/big")
    assert len(found.text) < 400
    assert "[the page goes on]" in found.text


def test_private_addresses_are_refused(site: str, use):
    for url in (site, site.replace("127.0.0.1", "localhost"), site.replace("127.0.0.1", "2130706433")):
        found = use("web_fetch", prompt=url)
        assert found.failed
        assert "is a private address" in found.text


def test_a_prompt_needs_an_address(use):
    assert use("web_fetch", prompt="the news").text == "Refused: the prompt names no http or https address"
    assert "not fetched" in use("web_fetch", HERE, prompt="http://me:pw@127.0.0.1/").text


PUBLIC = {
    "8.8.8.8": True,
    "2606:4700::1111": True,
    "10.0.0.1": False,
    "100.64.0.1": False,
    "127.0.0.1": False,
    "169.254.169.254": False,
    "192.168.1.1": False,
    "0.0.0.0": False,
    "224.0.0.1": False,
    "255.255.255.255": False,
    "::": False,
    "::1": False,
    "fe80::1": False,
    "fd00::1": False,
    "ff02::1": False,
    "::ffff:127.0.0.1": False,
    "::ffff:8.8.8.8": True,
    "64:ff9b::7f00:1": False,
    "2002:7f00:1::": False,
    "fec0::1": False,
    "3fff::1": False,
    "192.88.99.1": False,
    "168.63.129.16": False,
    "192.0.0.192": False,
}


@pytest.mark.parametrize("address, public", PUBLIC.items())
def test_which_addresses_are_public(address: str, public: bool):
    assert is_public(ipaddress.ip_address(address)) is public


def test_addresses_in_a_prompt():
    assert addresses("See https://a.org/x?y=1. (and http://b.org), https://a.org/x?y=1") == [
        "https://a.org/x?y=1",
        "http://b.org",
    ]


def test_a_head_that_never_ends_hides_nothing():
    assert page_text("<head><title>A</title><body><p>B") == "A\n\nB"


def test_searches_ask_the_backend(use):
    async def backend(query: str) -> list[Hit]:
        return [Hit("Python", "https://python.org", f"about {query}")]

    found = use("google_web_search", {"search": backend}, query="snakes")
    assert found.text == (
        'Web search results for "snakes":\n\n[1] Python\nabout snakes\n\n'
        "Sources:\n[1] Python (https://python.org)"
    )
    assert use("google_web_search", {"search": lambda _: []}, query="x").text == 'No search results for "x".'


UNITS = (
    "<!--",
    "<a ",
    "</a",
    "<![",
    "<?",
    "&#",
    "<div>",
    "<svg>",
    "<script>",
    "<title>x",
    "<a '",
    '<a "',
    "</svg>",
)


@pytest.mark.parametrize("unit", UNITS)
def test_no_page_takes_long(unit: str):
    """html.parser takes minutes for some of these."""
    finish(page_text, unit * (500_000 // len(unit)))


PAGES = {
    "comment": ("a<!-- b > c -->d", "ad"),
    "quoted >": ('<p title="a > b">c</p>', "c"),
    "quote that is not closed": ("<p title='a>b</p>", "b"),
    "script with markup": ("a<script>if (1 < 2) '<p>'</script>b", "ab"),
    "stray <": ("1 < 2 <3", "1 < 2 <3"),
    "upper case": ("<P>a</P><SCRIPT>b</SCRIPT>", "a"),
    "nested hidden": ("<svg><title>x</title><g>y</g></svg>z", "x\n\nz"),
    "entities": ("<p>&lt;b&gt; &eacute;", "<b> é"),
    "never closed": ("a<!-- b", "a"),
}


@pytest.mark.parametrize("html, text", PAGES.values(), ids=PAGES)
def test_texts_of_pages(html: str, text: str):
    assert page_text(html) == text


@pytest.mark.parametrize("path", ["idna", "punycode"])
def test_a_codec_that_is_no_charset_is_not_used(path: str, site: str, use):
    assert not use("web_fetch", HERE, prompt=f"{site}/{path}").failed


def test_headers_that_drip_end_at_the_time_limit(use):
    def drip() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                threading.Thread(target=drop_by_drop, args=(connection,), daemon=True).start()
            except OSError:
                return

    def drop_by_drop(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while True:
                connection.sendall(b"a")
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options = {**HERE, "limits": Limits(seconds=1)}
        found = finish(use, "web_fetch", options, prompt=" ".join(f"{url}/{number}" for number in range(3)))
        assert found.failed
        assert "no answer within 1 s" in found.text
