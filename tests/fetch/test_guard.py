"""Which hosts are reached, and that the connection goes to an address that was checked."""

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from dragoman.fetch import AddressGuard, FetchError, download

PRIVATE = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1", "64:ff9b::a00:1")


def resolves_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Each look-up takes the next answer; what was asked for."""
    asked: list[str] = []

    def look_up(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host[0].isdigit():  # an address: the connection itself
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str):
    resolves_to(monkeypatch, ["93.184.215.14", address])
    with pytest.raises(FetchError, match="private address") as refused:
        AddressGuard().resolve("inside.example", 80)
    assert refused.value.problem == "not_allowed"


CASES = {
    "no list, a public host": ((), "a.example", 443, True),
    "the host is listed": (("a.example",), "A.example.", 443, True),
    "host and port are listed": (("a.example:8443",), "a.example", 8443, True),
    "another port": (("a.example:8443",), "a.example", 443, False),
    "another host": (("b.example",), "a.example", 443, False),
    "a longer name": (("a.example",), "a.example.evil", 443, False),
}


@pytest.mark.parametrize("listed, host, port, reached", CASES.values(), ids=CASES)
def test_a_list_of_hosts(
    monkeypatch: pytest.MonkeyPatch, listed: tuple[str, ...], host: str, port: int, reached: bool
):
    asked = resolves_to(monkeypatch, ["93.184.215.14"])
    guard = AddressGuard(frozenset(listed))
    if reached:
        assert guard.resolve(host, port) == ["93.184.215.14"]
    else:
        with pytest.raises(FetchError, match="not one of the allowed hosts"):
            guard.resolve(host, port)
        assert asked == []  # nobody is told the name of a host that is not allowed


def test_only_a_listed_host_may_be_private(monkeypatch: pytest.MonkeyPatch):
    resolves_to(monkeypatch, ["10.0.0.7"])
    assert AddressGuard(frozenset(("search.internal",))).resolve("search.internal", 80) == ["10.0.0.7"]


def test_the_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch):
    """An answer that changes between the check and the connection is not asked for."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    asked = resolves_to(monkeypatch, ["127.0.0.1"], ["192.0.2.1"])
    try:
        guard = AddressGuard(allowed=lambda address: str(address) == "127.0.0.1")
        page = download(f"http://changing.example:{server.server_port}/", guard, seconds=20, most=100)
    finally:
        server.shutdown()
        server.server_close()
    assert page.body == b"hello"
    assert asked == ["changing.example"]
