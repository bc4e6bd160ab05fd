"""The server's WebSocket: frames as clients send them, limits, and how each connection ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dragoman.gateway.config import Config
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import HttpServer, MemoryBudget, ResponseWriter, ServerRequest, run, websocket
from gateway.running import serving, wait_for
from waiting import wait_until

LARGEST = 1000


class Repeater:
    """Sends each message back; `quit` ends with a code, `raise` with an exception, `no` is refused."""

    def __init__(self) -> None:
        self.ended = 0
        self.cancelled = 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __call__(self, request: ServerRequest, response: ResponseWriter, /) -> None:
        if request.path == "/no":
            await response.json(401, {"error": "no"})
            return
        socket = response.upgrade(LARGEST)
        if socket is None:
            return
        try:
            while (message := await socket.receive()) is not None:
                if message == b"quit":
                    await socket.close(1011, "as requested")
                elif message == b"raise":
                    raise RuntimeError("as requested")
                else:
                    await socket.send(message * (1000 if message == b"many" else 1))
            if socket.stopping:
                await socket.send(b"bye")
                await socket.close(1001)
        except BaseException:
            self.cancelled += 1
            raise
        finally:
            self.ended += 1


@pytest.fixture
def app() -> Repeater:
    return Repeater()


@pytest.fixture
def address(app: Repeater) -> Iterator[str]:
    with serving(app) as url:
        yield url.replace("http", "ws")


@pytest.fixture
def peer(address: str) -> Iterator[ClientConnection]:
    with connect(address, compression=None) as connection:
        yield connection


def test_messages_come_back(peer: ClientConnection) -> None:
    for text in ("a", "ä" * 400, ""):
        peer.send(text)
        assert peer.recv() == text


def test_a_message_in_fragments(peer: ClientConnection) -> None:
    peer.send(["a", "b", "c"])
    assert peer.recv() == "abc"


def test_an_offered_extension_is_declined(address: str) -> None:
    """Codex offers permessage-deflate."""
    with connect(address) as peer:
        peer.send("a")
        assert peer.recv() == "a"


def test_a_ping_is_answered(peer: ClientConnection) -> None:
    assert peer.ping().wait(5)


ENDS = {
    "a binary message": (b"x", 1003),
    "a message that is too large": ("x" * (LARGEST + 1), 1009),
    "fragments that are together too large": (["x" * 600, "x" * 600], 1009),
    "a close of the application": ("quit", 1011),
    "an application that raises": ("raise", 1006),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_end(peer: ClientConnection, app: Repeater, name: str) -> None:
    message, code = ENDS[name]
    with pytest.raises(ConnectionClosed) as ended:  # noqa: PT012 - the server may close while it is sent
        peer.send(message)
        peer.recv(5)
    assert (ended.value.rcvd.code if ended.value.rcvd else 1006) == code
    wait_until(lambda: app.ended == 1)


def test_a_close_of_the_client(peer: ClientConnection, app: Repeater) -> None:
    peer.close()
    assert peer.close_code == 1000
    wait_until(lambda: app.ended == 1)


def test_a_client_that_disappears(address: str, app: Repeater) -> None:
    with connect(address) as peer:
        peer.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: app.ended == 1)


def test_the_application_may_refuse(address: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{address}/no")
    assert refused.value.response.status_code == 401


WRONG = {
    "no key": b"sec-websocket-version: 13\r\n",
    "an old version": b"sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_upgrade(address: str, name: str) -> None:
    host, port = address.removeprefix("ws://").split(":")
    with socket.create_connection((host, int(port)), 5) as raw:
        head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        raw.sendall(head + WRONG[name] + b"\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"426")


def test_messages_before_the_answer_are_read(address: str) -> None:
    host, port = address.removeprefix("ws://").split(":")
    with socket.create_connection((host, int(port)), 5) as raw:
        raw.sendall(
            b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            b"\x81\x82\x00\x00\x00\x00hi"
        )
        got = b""
        while not got.endswith(b"\x81\x02hi"):
            got += raw.recv(1000)
        assert got.startswith(b"HTTP/1.1 101 ")


def test_many_messages_at_once(peer: ClientConnection) -> None:
    """More than are queued: reading pauses and goes on."""
    texts = [str(number) for number in range(500)]
    for text in texts:
        peer.send(text)
    assert [peer.recv() for _ in texts] == texts


def test_a_client_that_does_not_answer_a_ping(app: Repeater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "_PING_AFTER", 0.5)
    with serving(app) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 5) as raw:
            raw.sendall(
                b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            wait_until(lambda: app.ended == 1)


def test_full_memory_closes() -> None:
    memory = MemoryBudget(100)
    with serving(Repeater(), memory=memory) as url, connect(url.replace("http", "ws")) as peer:
        with pytest.raises(ConnectionClosed) as ended:  # noqa: PT012 - the first part is taken
            peer.socket.sendall(b"\x81\xfe\x03\x00\x00\x00\x00\x00" + b"x" * 300)
            peer.recv(5)
        assert ended.value.rcvd
        assert ended.value.rcvd.code == 1013
    assert memory.used == 0


def test_a_shutdown_ends_with_1001() -> None:
    config, app = Config(port=0), Repeater()
    listener = bind(config)
    server = HttpServer(app, 5)
    thread = threading.Thread(target=run, args=(server, listener), daemon=True)
    thread.start()
    wait_for(lambda: server.started, thread)
    with connect(url(config, listener).replace("http", "ws")) as peer:
        peer.send("a")
        assert peer.recv() == "a"
        server.end_soon()
        assert peer.recv(5) == "bye"
        with pytest.raises(ConnectionClosed) as ended:
            peer.recv(5)
        assert ended.value.rcvd
        assert ended.value.rcvd.code == 1001
    thread.join(10)
    assert not thread.is_alive()
