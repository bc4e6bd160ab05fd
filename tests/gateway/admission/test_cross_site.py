"""Which requests a web page may have caused: a keyless gateway refuses them."""

from __future__ import annotations

import socket

import pytest

from dragoman.gateway.admission.authentication import is_cross_site_request
from gateway.stands import Stand

LOCAL = "127.0.0.1:8787"
PROGRAMS = {
    "no host (HTTP/1.0)": {},
    "a program": {"host": LOCAL},
    "by name": {"host": "localhost"},
    "IPv6": {"host": "[::1]:8787"},
    "a page of this machine": {
        "host": LOCAL,
        "origin": "http://localhost:3000",
        "sec-fetch-site": "cross-site",
    },
    "the browser's address bar": {"host": LOCAL, "sec-fetch-site": "none"},
    "another page of this machine": {"host": LOCAL, "origin": "http://app.localhost:3000"},
    "a page of this machine by IPv6": {"host": LOCAL, "origin": "http://[::1]:3000"},
    "a page of the gateway itself": {"host": "box.local:8787", "origin": "http://box.local:8787"},
    "an extension": {"host": LOCAL, "origin": "chrome-extension://abc"},
    "a desktop application": {"host": LOCAL, "origin": "vscode-webview://abc"},
    "a name of the house": {"host": "box.local:8787"},
}
PAGES = {
    "a page": {"host": LOCAL, "origin": "https://evil.com"},
    "a sandboxed frame": {"host": LOCAL, "origin": "null"},
    "capitals": {"host": LOCAL, "origin": "HTTP://evil.com"},
    "a page of another machine of the house": {"host": LOCAL, "origin": "http://router"},
    "a page of an address of the house": {"host": LOCAL, "origin": "http://192.168.1.5:3000"},
    "a page behind carrier-grade NAT": {"host": LOCAL, "origin": "http://100.64.0.9"},
    "a name of mDNS": {"host": LOCAL, "origin": "http://evil.local"},
    "a scheme alone": {"host": "", "origin": "http://"},
    "a WebSocket": {"host": LOCAL, "origin": "wss://evil.com"},
    "without an origin": {"host": LOCAL, "sec-fetch-site": "cross-site"},
    "IPv4 inside IPv6": {"host": LOCAL, "origin": "http://[::ffff:808:808]"},
    "NAT64": {"host": LOCAL, "origin": "http://[64:ff9b::808:808]"},
    "6to4": {"host": LOCAL, "origin": "http://[2002:808:808::1]"},
    "a public name (DNS rebinding)": {"host": "evil.com:8787"},
    "an address in a public name": {"host": "127.0.0.1.nip.io"},
    "a user name": {"host": "::1@evil.com"},
    "after the bracket": {"host": "[::1]evil.com"},
    "a stray bracket": {"host": "x]evil.com"},
    "two hosts, combined by the server": {"host": "127.0.0.1, evil.com"},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_answered(name: str) -> None:
    assert not is_cross_site_request(PROGRAMS[name])


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_refused(name: str) -> None:
    assert is_cross_site_request(PAGES[name])


@pytest.mark.parametrize("host", ["evil.com", "evil.com:80", "user@evil.com"])
def test_the_host_of_an_absolute_url_goes_before_the_header(embedded: Stand, host: str) -> None:
    address = embedded.url.removeprefix("http://")
    name, _, port = address.partition(":")
    with socket.create_connection((name, int(port)), timeout=30) as connection:
        request = f"GET http://{host}/v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(100).split()[1] == b"403"
