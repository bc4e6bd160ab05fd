"""A head that repeats the last one of its connection is not parsed. What the application gets and what the
client is answered is the same as on a new connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.http.server import ResponseWriter, ServerRequest
from dragoman.http.server import connection as module
from gateway.running import serving
from http_server.clients import Raw

BASE = b"POST /v1/x?a=%20b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-Key: k\r\n\r\n12345"


class Mirror:
    """Answers with all that it got."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __call__(self, request: ServerRequest, response: ResponseWriter) -> None:
        body = await request.read(100)
        request.headers["x-key"] += "!"  # the headers of a request are its own
        about: Any = [request.method, request.path, request.query.decode(), request.headers, body.decode()]
        await response.json(200, about)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Mirror()) as address:
        yield address


class Noting(Mirror):
    """Answers with what it noted about an earlier request with this head."""

    async def __call__(self, request: ServerRequest, response: ResponseWriter) -> None:
        await request.read(100)
        noted, request.memo.found = request.memo.found, request.headers["x-key"]
        await response.json(200, noted)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The paths of the requests whose head was parsed."""
    heads: list[bytes] = []
    on_url = module.ServerConnection.on_url
    monkeypatch.setattr(
        module.ServerConnection, "on_url", lambda self, url: (heads.append(url), on_url(self, url))[1]
    )
    return heads


def answers(url: str, *requests: bytes) -> list[Any]:
    """One after the other on one connection; of a connection that was closed, what came before its end."""
    client = Raw(url)
    client.socket.settimeout(5)
    try:
        return [_answer(client, request) for request in requests]
    finally:
        client.socket.close()


def _answer(client: Raw, request: bytes) -> Any:
    client.say(request)
    try:
        status, headers, body = client.hear()
    except AssertionError:
        return "closed"
    headers.pop("date", "")
    return status, headers, jsontext.decode(body) if status == 200 else body


def other(old: bytes, new: bytes) -> bytes:
    assert old in BASE
    return BASE.replace(old, new)


REPEATS = {
    "the same": BASE,
    "another body": other(b"12345", b"abcde"),
    "a longer body": other(b": 5", b": 12").replace(b"12345", b"123456789012"),
    "no body": other(b": 5", b": 0").replace(b"12345", b""),
    "zeros before the length": other(b": 5", b": 0005"),
}
OTHERS = {
    "another value": other(b"X-Key: k", b"X-Key: q"),
    "one header more": other(b"X-Key: k\r\n", b"X-Key: k\r\nX-More: 1\r\n"),
    "one more before": other(b"Host: h\r\n", b"Host: h\r\nX-More: 1\r\n"),
    "another path": other(b"/v1/x", b"/v1/y"),
    "a second host": other(b"X-Key: k\r\n", b"X-Key: k\r\nHost: i\r\n"),
    "two lengths": other(b"X-Key: k\r\n", b"X-Key: k\r\nContent-Length: 5\r\n"),
    "a length in two lines": other(b": 5\r\n", b": 5\r\n 5\r\n"),
    "a signed length": other(b": 5", b": +5"),
    "a length with a space": other(b": 5", b": 5 "),
    "two numbers": other(b": 5", b": 5, 5"),
    "no number": other(b": 5", b": "),
    "a length that no parser takes": other(b": 5", b": 99999999999999999999999"),
    "chunked": other(b"X-Key: k\r\n", b"X-Key: k\r\nTransfer-Encoding: chunked\r\n"),
    "the last one": other(b"X-Key: k\r\n", b"X-Key: k\r\nConnection: close\r\n"),
    "the old version": other(b"HTTP/1.1", b"HTTP/1.0"),
    "a body that is too long": other(b": 5", b": 101").replace(b"12345", b"x" * 101),
    "an upgrade": other(b"X-Key: k\r\n", b"X-Key: k\r\nUpgrade: h2c\r\nConnection: upgrade\r\n"),
    "not HTTP": b"\0" + BASE,
}


@pytest.mark.parametrize("request_", [*REPEATS.values(), *OTHERS.values()], ids=[*REPEATS, *OTHERS])
def test_a_request_after_another_is_answered_as_on_a_new_connection(url: str, request_: bytes) -> None:
    assert answers(url, BASE, request_)[1:] == answers(url, request_)
    assert answers(url, request_, BASE)[:1] == answers(url, request_)


@pytest.mark.parametrize("request_", REPEATS.values(), ids=REPEATS)
def test_what_repeats_the_last_head_is_not_parsed(
    url: str, parsed: list[bytes], request_: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # on a busy machine the connection is idle for a while between two requests
    monkeypatch.setattr(module.ServerConnection, "check_timeouts", lambda self, now: None)
    answers(url, BASE, request_, BASE)
    assert len(parsed) == 1


def test_what_the_application_notes_about_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.ServerConnection, "check_timeouts", lambda self, now: None)
    another = OTHERS["another value"]
    with serving(Noting()) as address:
        noted = [body for *_, body in answers(address, BASE, *REPEATS.values(), another, another, BASE)]
        assert noted == [None, *["k"] * len(REPEATS), None, "q", None]
        assert answers(address, BASE)[0][2] is None  # another connection


@pytest.mark.parametrize("cut", range(1, len(BASE), 7))
def test_pieces_of_a_repeated_request(url: str, cut: int) -> None:
    client = Raw(url)
    try:
        expected = _answer(client, BASE)
        client.say(BASE[:cut])
        assert _answer(client, BASE[cut:]) == expected
        client.say(BASE + BASE[:cut])  # pipelined
        assert [_answer(client, b""), _answer(client, BASE[cut:]), _answer(client, BASE)] == [expected] * 3
    finally:
        client.socket.close()


def test_a_connection_whose_heads_differ_remembers_none_any_more(url: str, parsed: list[bytes]) -> None:
    unlike = [other(b"X-Key: k", b"X-Key: %d" % number) for number in range(module._MOST_UNLIKE + 1)]
    answers(url, *unlike, BASE, BASE)
    assert len(parsed) == len(unlike) + 2


def test_an_idle_connection_forgets_its_head(
    url: str, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = module.ServerConnection.check_timeouts
    forgotten: set[int] = set()  # ports: connections of other tests may be open still

    def observed(self: module.ServerConnection, now: float) -> None:
        known = self._known
        check(self, now)
        if known and not self._known:
            forgotten.add(self._transport.get_extra_info("peername")[1])

    monkeypatch.setattr(module.ServerConnection, "check_timeouts", observed)
    client = Raw(url)
    try:
        first = _answer(client, BASE)
        while client.socket.getsockname()[1] not in forgotten:
            client.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
        client.socket.settimeout(5)
        assert _answer(client, BASE) == first
    finally:
        client.socket.close()
    assert len(parsed) == 2
