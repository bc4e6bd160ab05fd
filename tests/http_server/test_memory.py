"""What a client can make the server buffer: unread responses, unasked bodies, and requests behind them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.http.server import MemoryBudget, ServerLimits
from gateway.running import serving
from http_server.clients import Echo, Raw
from http_server.test_connection import post
from waiting import wait_until

KERNEL = 8_000_000  # bytes that the socket buffers of both sides may take


@pytest.fixture
def app() -> Echo:
    return Echo()


@pytest.fixture
def client(app: Echo) -> Iterator[Raw]:
    with serving(app) as url:
        raw = Raw(url)
        yield raw
        raw.socket.close()


def flood(client: Raw, piece: bytes, most: int) -> int:
    """How many bytes the server takes until it stops reading."""
    client.socket.settimeout(0.5)
    sent = 0
    try:
        while sent < most:
            sent += client.socket.send(piece)
    except TimeoutError:
        pass
    client.socket.settimeout(60)
    return sent


def test_unread_pipelined_responses_stop_the_next_ones(app: Echo, client: Raw) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    request = b"GET /deaf HTTP/1.1\r\nhost: x\r\n\r\n"
    flood(client, request * 2000, 4 * KERNEL)
    answered = len(app.events)
    assert answered * 120 < KERNEL
    wait_until(lambda: client.socket.recv(1 << 20) is not None and len(app.events) > answered)


def test_pipelined_requests_are_answered_in_order(app: Echo, client: Raw) -> None:
    count = 3000
    client.say(b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(count)))
    for number in range(count):
        assert client.hear_json()["path"] == f"/{number}"


def test_a_body_that_is_not_asked_for_is_not_buffered(app: Echo, client: Raw) -> None:
    client.say(b"GET /unasked HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    flood(client, b"10000\r\n" + b"x" * 65536 + b"\r\n", 4 * KERNEL)
    wait_until(lambda: len(app.events) == 3)
    size = int(app.events[-1].split()[0])
    assert size < 1_000_000, "about one read of the socket"


def test_an_unread_whole_response_is_still_under_way(app: Echo, client: Raw) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.say(post("/huge"))
    wait_until(lambda: "/huge" in app.events)
    time.sleep(0.3)
    assert app.under_way == 1
    assert len(client.hear()[2]) == 8_000_000
    wait_until(lambda: app.under_way == 0)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_an_upgrade_is_ignored_and_the_body_read(client: Raw, chunked: bool, at_once: bool) -> None:
    """java.net.http sends `Upgrade: h2c` with its first request of each host."""
    framing = "transfer-encoding: chunked" if chunked else "content-length: 5"
    upgrade = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c"
    head = f"POST /a HTTP/1.1\r\nhost: x\r\n{upgrade}\r\n{framing}\r\n\r\n"
    body = b"5\r\nhello\r\n0\r\n\r\n" if chunked else b"hello"
    if at_once:
        client.say(head.encode() + body)
    else:
        for letter in head.encode() + body:
            client.say(bytes([letter]))
    assert client.hear_json()["body"] == "hello"


def test_an_upgrade_without_a_body(client: Raw) -> None:
    client.say(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n")
    assert client.hear_json()["path"] == "/a"


def test_a_slow_body_is_the_clients_timeout() -> None:
    hasty = ServerLimits(body=0.2, min_rate=1_000_000)
    with serving(Gateway(Config(), AccessLog(lambda line: None)), hasty) as url:
        raw = Raw(url)
        raw.say(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert raw.hear()[0] == 408
        raw.socket.close()


def test_a_body_beyond_the_budget_of_the_process_is_refused_and_given_back() -> None:
    memory = MemoryBudget(200_000)  # a body counts four times
    with serving(Echo(), memory=memory) as url:
        for size, status in ((40_000, 200), (90_000, 503), (40_000, 200)):
            raw = Raw(url)
            raw.say(post("/a", b"x" * size))
            assert raw.hear()[0] == status
            raw.socket.close()
            wait_until(lambda: memory.used == 0)


def test_unread_responses_and_clients_that_leave_are_given_back() -> None:
    memory, app = MemoryBudget(10_000_000), Echo()
    with serving(app, memory=memory) as url:
        raw = Raw(url)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        raw.say(post("/huge"))
        wait_until(lambda: memory.used > 1_000_000)
        half = Raw(url)
        half.say(post("/a", b"x" * 90_000)[:-1])
        used = memory.used
        wait_until(lambda: memory.used > used or "/a" in app.events)
        half.socket.close()
        raw.socket.close()
        wait_until(lambda: memory.used == 0)


def test_a_full_gateway_refuses_requests_before_their_body() -> None:
    gateway = Gateway(Config(memory=1000), AccessLog(lambda line: None))
    with serving(gateway, memory=gateway.memory) as url:
        raw = Raw(url)
        gateway.memory.used += 1000
        raw.say(post("/v1/chat/completions", b"{}"))
        status, headers, body = raw.hear()
        assert (status, "retry-after" in headers, b"server.memory_mb" in body) == (503, True, True)
        gateway.memory.used -= 1000
        raw.socket.close()


def test_connections_of_one_address_are_bounded() -> None:
    with serving(Echo(), ServerLimits(connections_per_address=2)) as url:
        first, second = Raw(url), Raw(url)
        for raw in (first, second):
            raw.say(post("/a"))
            assert raw.hear()[0] == 200
        third = Raw(url)
        assert third.rest() == b""
        first.socket.close()
        wait_until(lambda: _is_answered(url))
        second.socket.close()


def _is_answered(url: str) -> bool:
    raw = Raw(url)
    try:
        raw.say(post("/a", b"", "connection: close"))
        return b"200 OK" in raw.rest()
    except OSError:
        return False
    finally:
        raw.socket.close()
