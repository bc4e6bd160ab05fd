"""Requests as clients really send them, and as nobody should: what the server makes of each."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from dragoman.http.server import ServerLimits
from gateway.running import serving
from http_server.clients import LARGEST, Echo, Raw
from waiting import wait_until

HASTY = ServerLimits(idle=1, head=1, body=0.5, min_rate=1_000_000, unread=0.5, linger=0.5)


@pytest.fixture(scope="module")
def calm() -> Iterator[tuple[Echo, str]]:
    app = Echo()
    with serving(app) as url:
        yield app, url


@pytest.fixture
def client(calm: tuple[Echo, str]) -> Iterator[Raw]:
    calm[0].cancelled = 0
    raw = Raw(calm[1])
    yield raw
    raw.socket.close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[str]:
    with serving(Echo(), HASTY) as url:
        yield url


def post(path: str, body: bytes = b"", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_one_after_the_other(client: Raw) -> None:
    for number in range(3):
        client.say(post(f"/a%20b?n={number}", b"hello", "X-Said: yes"))
        status, headers, _ = client.hear()
        assert (status, headers["content-type"], "date" in headers, "connection" in headers) == (
            200, "application/json", True, False,
        )  # fmt: skip
    client.say(post("/a%20b?n=7", b"hello", "X-Said: yes"))
    expected = {"method": "POST", "path": "/a b", "query": "n=7", "body": "hello", "x": "yes"}
    assert client.hear_json() == expected


def test_in_pieces(client: Raw) -> None:
    for letter in post("/slowly", b"abc"):
        client.say(bytes([letter]))
    assert client.hear_json()["body"] == "abc"


def test_several_at_once_are_answered_in_order(client: Raw) -> None:
    client.say(post("/slow") + post("/second", b"2") + post("/stream") + post("/fourth", b"4"))
    assert client.hear_json() == {"slow": True}
    assert client.hear_json()["path"] == "/second"
    assert client.hear()[2] == b"one two three"
    assert client.hear_json()["body"] == "4"
    client.say(post("/fifth"))
    assert client.hear_json()["path"] == "/fifth"


def test_a_body_in_chunks(client: Raw) -> None:
    head = b"POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    client.say(head + b"3\r\nabc\r\n")
    client.say(b"2;ext=1\r\nde\r\n0\r\nx-said: no\r\n\r\n")
    assert client.hear_json() == {"method": "POST", "path": "/c", "query": "", "body": "abcde", "x": ""}
    client.say(post("/next"))
    assert client.hear_json()["x"] == ""


def test_a_whole_url(client: Raw) -> None:
    client.say(post("http://example.org/p?q=1"))
    echoed = client.hear_json()
    assert (echoed["path"], echoed["query"]) == ("/p", "q=1")


def test_streams(client: Raw) -> None:
    client.say(post("/stream"))
    status, headers, body = client.hear()
    assert (status, headers["x-more"], headers["x-accel-buffering"], body) == (
        200,
        "1",
        "no",
        b"one two three",
    )


def test_an_old_client_gets_a_stream_that_ends_with_the_connection(client: Raw) -> None:
    client.say(post("/stream", version="1.0"))
    head, _, body = client.rest().partition(b"\r\n\r\n")
    assert (b"chunked" in head, b"connection: close" in head, body) == (False, True, b"one two three")


def test_head_has_no_body(client: Raw) -> None:
    client.say(b"HEAD /h HTTP/1.1\r\nhost: x\r\n\r\n" + post("/next"))
    head = client._until(b"\r\n\r\n")
    assert b"content-length: " in head
    assert client.hear_json()["path"] == "/next"


def test_close_is_honoured(client: Raw) -> None:
    client.say(post("/bye", b"", "connection: close"))
    status, headers, _ = client.hear()
    assert (status, headers["connection"], client.rest()) == (200, "close", b"")


def test_expect_continue(client: Raw) -> None:
    client.say(b"POST /e HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
    assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.say(b"ok")
    assert client.hear_json()["body"] == "ok"


def test_a_refused_request_gets_no_100_continue(client: Raw) -> None:
    client.say(b"POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
    status, headers, _ = client.hear()
    assert (status, headers["connection"]) == (401, "close")  # the body may never come


@pytest.mark.parametrize("chunked", [False, True])
def test_too_large(client: Raw, chunked: bool) -> None:
    """The client hears it although it is still sending."""
    size = LARGEST + 1
    if chunked:
        client.say(b"POST /l HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        client.say(b"%x\r\n" % size + b"x" * size)
    else:
        client.say(b"POST /l HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * 1000)
    status, headers, _ = client.hear()
    assert (status, headers.get("connection", "close")) == (413, "close")
    client.say(b"x" * 1000)  # nobody minds


def test_refused_before_its_body_came(client: Raw) -> None:
    """A short body is waited for, and the connection goes on; a long one ends it."""
    for body in (b"short", b"x" * 60000):
        client.say(b"POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
        status, headers, _ = client.hear()
        assert (status, "connection" in headers) == (401, False)
        client.say(body + post("/next"))
        assert client.hear_json()["path"] == "/next"
    client.say(b"POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\n\r\n" + b"x" * 300000)
    status, headers, _ = client.hear()
    assert (status, headers["connection"]) == (401, "close")
    client.say(b"x" * 100000)
    assert client.rest() == b""


@pytest.mark.parametrize("head", [
    b"POST / HTTP/1.1\r\nx: " + b"y" * 70000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + b"x: y\r\n" * 20000 + b"\r\n",
    b"GET /" + b"y" * 70000 + b" HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nx: " + b"y" * 300000,
], ids=["a header", "many headers", "a path", "without an end"])  # fmt: skip
def test_heads_have_a_limit(client: Raw, head: bytes) -> None:
    client.say(head)
    assert client.rest().startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4, 20])
def test_a_body_larger_than_heads_may_be(client: Raw, cut: int) -> None:
    """However the head before it is cut into pieces."""
    request = post("/b", b"x" * 90000)
    start = request.index(b"\r\n\r\n") + cut
    client.say(request[:start])
    time.sleep(0.02)
    client.say(request[start:])
    assert len(client.hear_json()["body"]) == 90000
    client.say(post("/next"))
    assert client.hear_json()["path"] == "/next"


@pytest.mark.parametrize("before", [b"", post("/small") * 800], ids=["alone", "after others"])
def test_a_large_head_may_come_in_pieces(client: Raw, before: bytes) -> None:
    request = before + post("/large", b"", *["x: " + "y" * 60] * 900)
    client.say(request[:-20000])
    time.sleep(0.02)
    client.say(request[-20000:])
    for _ in range(before.count(b"POST")):
        assert client.hear_json()["path"] == "/small"
    assert client.hear_json()["path"] == "/large"


def test_many_small_requests_are_no_large_head(client: Raw) -> None:
    client.say(post("/many") * 2000)
    for _ in range(2000):
        assert client.hear_json()["path"] == "/many"


@pytest.mark.parametrize("data", [
    b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
])  # fmt: skip
def test_what_is_not_http(client: Raw, data: bytes) -> None:
    client.say(data)
    assert client.rest().startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_nonsense_after_requests_does_not_cost_their_answers(client: Raw, pause: float) -> None:
    pieces = [post("/slow") + post("/second"), b"nonsense\r\n\r\n"]
    for data in pieces if pause else [b"".join(pieces)]:
        client.say(data)
        time.sleep(pause)
    assert client.hear_json() == {"slow": True}
    assert client.hear_json()["path"] == "/second"
    assert client.rest() == b""


def test_a_body_that_turns_into_nonsense_ends_its_request(calm: tuple[Echo, str], client: Raw) -> None:
    client.say(b"POST /body HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    wait_until(lambda: calm[0].under_way == 1)
    client.say(b"zz\r\n")
    assert client.rest() == b""
    wait_until(lambda: calm[0].under_way == 0)


@pytest.mark.parametrize("more", [b"nonsense\r\n\r\n", b"GET /late HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_what_follows_the_last_word_gets_no_answer(
    calm: tuple[Echo, str], client: Raw, more: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client.say(b"POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n12345")
    assert client.hear()[0] == 401
    client.say(b"x" * 99995 + more)
    assert client.rest() == b""
    assert not caplog.records  # nor is anything written to a socket that has ended
    assert "/late" not in calm[0].events


def test_an_upgrade_is_answered_as_a_request(client: Raw) -> None:
    client.say(
        b"GET /u HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81\x05hello"
    )
    assert client.hear_json()["path"] == "/u"
    assert client.rest() == b""


def test_a_connect_whose_body_has_no_end(client: Raw, caplog: pytest.LogCaptureFixture) -> None:
    client.say(b"CONNECT h:1 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: identity\r\n\r\n12345")
    assert client.hear()[0] == 400
    assert client.rest() == b""
    assert not caplog.records


@pytest.mark.parametrize("path", ["/wait", "/body", "/flood"])
def test_a_client_that_leaves(calm: tuple[Echo, str], client: Raw, path: str) -> None:
    app = calm[0]
    app.events.clear()
    client.say(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345" % path.encode())
    wait_until(lambda: path in app.events)
    client.socket.close()
    wait_until(lambda: (app.cancelled, app.under_way) == (1, 0))


def test_an_application_that_gives_up_cuts_the_connection(client: Raw) -> None:
    client.say(post("/cut"))
    assert client.rest().endswith(b"4\r\nhalf\r\n")


def test_a_slow_head_is_let_go(hasty: str) -> None:
    raw = Raw(hasty)
    raw.say(b"POST / HTTP/1.1\r\nhost")
    assert raw.rest().startswith(b"HTTP/1.1 408 ")


def test_a_slow_body_is_reported(hasty: str) -> None:
    raw = Raw(hasty)
    raw.say(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345")
    status, _, body = raw.hear()
    assert (status, b"took too long" in body) == (408, True)
    assert raw.rest() == b""


def test_an_idle_connection_ends(hasty: str) -> None:
    raw = Raw(hasty)
    assert raw.rest() == b""
    raw = Raw(hasty)
    raw.say(post("/a"))
    raw.hear()
    assert raw.rest() == b""


def test_a_client_that_never_reads_is_let_go() -> None:
    app = Echo()
    with serving(app, HASTY) as url:
        raw = Raw(url)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.say(post("/flood"))
        wait_until(lambda: app.cancelled == 1)


def test_streams_wait_for_slow_readers(calm: tuple[Echo, str], client: Raw) -> None:
    """What a client does not take is not made."""
    client.say(post("/flood"))
    time.sleep(0.3)
    assert calm[0].under_way == 1
    client.socket.close()
    wait_until(lambda: calm[0].under_way == 0)


def test_one_task_answers_all_requests_of_a_connection(calm: tuple[Echo, str], client: Raw) -> None:
    tasks = set[str]()
    for _ in range(3):
        client.say(post("/task"))
        tasks.add(client.hear_json()["task"])
    assert len(tasks) == 1


def test_the_next_request_is_answered_though_the_application_raised_after_its_response(client: Raw) -> None:
    client.say(post("/raise") + post("/second", b"2"))
    assert client.hear_json() == {"raises": True}
    assert client.hear_json()["body"] == "2"


@pytest.mark.parametrize("first", [0, 1, 50_000, LARGEST])
def test_a_large_body_arrives_as_it_was_sent(client: Raw, first: int) -> None:
    """The part that the application waits for is parsed at once, the part before it in slices."""
    body = b"0123456789" * (LARGEST // 10)
    sent = post("/large", body)
    cut = len(sent) - len(body) + first
    client.say(sent[:cut])
    if 0 < first < LARGEST:
        time.sleep(0.05)
    client.say(sent[cut:] + post("/after", b"next"))
    assert client.hear_json()["body"] == body.decode()
    assert client.hear_json()["body"] == "next"


HEADS = {
    "no Host": b"GET /a HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /a HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
    "two equal Hosts": b"GET /a HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
    "a Host with a path": b"GET /a HTTP/1.1\r\nhost: x/y\r\n\r\n",
    "a Host with a user": b"GET /a HTTP/1.1\r\nhost: me@x\r\n\r\n",
    "a port that is none": b"GET /a HTTP/1.1\r\nhost: x:80a\r\n\r\n",
    "another version": b"GET /a HTTP/2.0\r\nhost: x\r\n\r\n",
    "a body": b"POST /a HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_without_a_valid_host_is_refused(calm: tuple[Echo, str], client: Raw, name: str) -> None:
    """Whatever its key and its path are; and what follows it is not answered."""
    before = len(calm[0].events)
    client.say(HEADS[name] + b"GET /late HTTP/1.1\r\nhost: x\r\n\r\n")
    assert client.hear()[0] == 400
    assert client.rest() == b""
    assert calm[0].events[before:] == []


@pytest.mark.parametrize("host", ["x", "127.0.0.1:80", "[::1]:80", "a.b-c_d", "x:", ""])
def test_a_valid_host_is_taken(client: Raw, host: str) -> None:
    client.say(f"GET /a HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    assert client.hear()[0] == 200
