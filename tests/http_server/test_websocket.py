"""The server's WebSocket: frames as clients send them, limits, and how each connection ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import Protocol as FrameProtocol
from websockets.server import ServerProtocol
from websockets.sync.client import ClientConnection, connect

from dragoman.gateway.config import Config
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import HttpServer, MemoryBudget, ResponseWriter, ServerRequest, run, websocket
from dragoman.http.server.connection import ServerConnection
from gateway.running import serving, wait_for
from waiting import LONG, wait_until

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
    with connect(address, compression=None, open_timeout=LONG) as connection:
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
    with connect(address, open_timeout=LONG) as peer:
        peer.send("a")
        assert peer.recv() == "a"


def test_a_ping_is_answered(peer: ClientConnection) -> None:
    assert peer.ping().wait(LONG)


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
        peer.recv(LONG)
    assert (ended.value.rcvd.code if ended.value.rcvd else 1006) == code
    wait_until(lambda: app.ended == 1)


def test_a_close_of_the_client(peer: ClientConnection, app: Repeater) -> None:
    peer.close()
    assert peer.close_code == 1000
    wait_until(lambda: app.ended == 1)


def test_a_client_that_disappears(address: str, app: Repeater) -> None:
    with connect(address, open_timeout=LONG) as peer:
        peer.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: app.ended == 1)


@pytest.mark.parametrize("ending", ["closed", "cut", "quit", "http", "too large", "malformed"])
def test_a_connection_that_has_ended_leaves_nothing_to_the_collector(
    address: str, app: Repeater, ending: str
) -> None:
    def left() -> int:
        kinds = (ServerConnection, websocket.WebSocket, FrameProtocol, ServerProtocol)
        return sum(type(each) in kinds for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = left()
        for number in range(1, 4):
            if ending == "http":
                place = urlsplit(address)
                with socket.create_connection((place.hostname, place.port)) as plain:
                    plain.sendall(b"GET /no HTTP/1.1\r\nhost: x\r\n\r\n")
                    assert plain.recv(100)
                continue
            with connect(address, open_timeout=LONG) as peer:
                peer.send("x")
                peer.recv()
                if ending == "quit":
                    peer.send("quit")
                    with pytest.raises(ConnectionClosed):
                        peer.recv()
                elif ending == "too large":
                    peer.send("x" * (LARGEST + 1))
                    with pytest.raises(ConnectionClosed):
                        peer.recv()
                elif ending == "malformed":
                    peer.socket.sendall(b"\xff" * 20)
                    with pytest.raises(ConnectionClosed):
                        peer.recv()
                elif ending == "cut":
                    peer.socket.shutdown(socket.SHUT_RDWR)
            wait_until(lambda number=number: app.ended == number)
        wait_until(lambda: left() <= before)
    finally:
        gc.enable()


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
    with (
        serving(Repeater(), memory=memory) as url,
        connect(url.replace("http", "ws"), open_timeout=LONG) as peer,
    ):
        with pytest.raises(ConnectionClosed) as ended:  # noqa: PT012 - the first part is taken
            peer.socket.sendall(b"\x81\xfe\x03\x00\x00\x00\x00\x00" + b"x" * 300)
            peer.recv(LONG)
        assert ended.value.rcvd
        assert ended.value.rcvd.code == 1013
    assert memory.used == 0


def test_a_shutdown_ends_with_1001() -> None:
    config, app = Config(port=0), Repeater()
    listener = bind(config)
    server = HttpServer(app, LONG)
    thread = threading.Thread(target=run, args=(server, listener), daemon=True)
    thread.start()
    wait_for(lambda: server.started, thread)
    with connect(url(config, listener).replace("http", "ws"), open_timeout=LONG) as peer:
        peer.send("a")
        assert peer.recv() == "a"
        server.end_soon()
        assert peer.recv(LONG) == "bye"
        with pytest.raises(ConnectionClosed) as ended:
            peer.recv(LONG)
        assert ended.value.rcvd
        assert ended.value.rcvd.code == 1001
    thread.join(LONG)
    assert not thread.is_alive()


class Wire:
    """The connection below: what was written, and whether reading is paused."""

    def __init__(self) -> None:
        self.written, self.full, self.paused, self.ended = b"", False, False, False

    def write(self, data: bytes, /) -> None:
        self.written += data

    async def drain(self) -> None: ...

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def end_socket(self) -> None:
        self.ended = True


def frame(opcode: int, data: bytes = b"", last: bool = True) -> bytes:
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if last else 0) | opcode]) + length + bytes(4) + data


def with_socket(
    use: Callable[[websocket.WebSocket, Wire, MemoryBudget], Coroutine[Any, Any, None]], limit: int = 0
) -> None:
    async def run() -> None:
        wire, memory = Wire(), MemoryBudget(limit)
        socket = websocket.WebSocket(wire, 1_000_000, memory)
        await use(socket, wire, memory)
        socket.lose_peer()
        assert memory.used == 0

    asyncio.run(run())


FLOODS = {
    "pings": (frame(9) * 40_000, 1008),
    "pongs": (frame(10, b"x" * 125) * 2_000, 1008),
    "empty fragments": (frame(1, b"{", False) + frame(0, b"", False) * 40_000, 1008),
    "fragments of a byte": (frame(1, b"{", False) + frame(0, b"x", False) * 37_000, 1008),
    "tiny messages": (frame(1, b"{}") * 32_000, 0),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_frames_is_parsed_a_few_at_a_time(name: str) -> None:
    """Counted, not timed: between two turns of the event loop the library sees few frames."""
    data, code = FLOODS[name]

    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        frames = list[int]()
        receive = socket._frames.receive_data  # pyright: ignore[reportPrivateUsage] - what is parsed is counted
        heads = websocket.FrameHeads()

        def count(piece: bytes) -> None:
            at = parsed = 0
            while at < len(piece):
                at, parsed = heads.cut(piece, at, 1), parsed + 1
            frames.append(parsed)
            receive(piece)

        socket._frames.receive_data = count  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        socket.feed(data)
        turns = 0
        while not wire.ended and len(socket._messages) < 16 and turns < 5_000:  # pyright: ignore[reportPrivateUsage]
            assert memory.used <= len(data)
            turns += 1
            await asyncio.sleep(0)
        assert max(frames) <= 33
        assert sum(frames) < 3_000, "most of it is never parsed"
        if code:
            assert wire.ended
            assert code.to_bytes(2, "big") in wire.written[-130:]
            assert memory.used == 0
        else:
            assert wire.paused

    with_socket(use)


def test_messages_wait_unparsed_until_others_are_taken() -> None:
    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        socket.feed(b"".join(frame(1, b"%d" % number) for number in range(100)))
        got = [await socket.receive() for _ in range(100)]
        await asyncio.sleep(0)
        assert got == [b"%d" % number for number in range(100)]
        assert (wire.paused, memory.used) == (False, 0)

    with_socket(use)


def test_pongs_wait_while_the_peer_does_not_read() -> None:
    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        wire.full = True
        socket.feed(frame(9, b"a" * 100) * 40)
        before = len(wire.written)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (len(wire.written), wire.paused) == (before, True)
        wire.full = False
        socket.resume()
        for _ in range(3):
            await asyncio.sleep(0)
        assert wire.written.count(b"a" * 100) == 40
        assert (wire.paused, memory.used) == (False, 0)

    with_socket(use)


def test_what_was_parsed_is_not_held() -> None:
    """Only what a message still needs is counted, whatever came between."""

    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        for _ in range(50):
            socket.feed(frame(9, b"p" * 125) * 10)
            assert memory.used == 0
            socket.tick(0.0)
        socket.feed(frame(1, b"x" * 1000, last=False))
        assert memory.used == 1000
        socket.feed(frame(9) + frame(0, b"x" * 1000)[:300])
        assert memory.used == 1300
        socket.feed(frame(0, b"x" * 1000)[300:])
        assert memory.used == 2000
        assert await socket.receive() == b"x" * 2000
        assert memory.used == 0

    with_socket(use)


def test_a_message_may_take_as_long_as_a_body() -> None:
    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        for now in range(200):  # between messages there is no limit
            assert socket.tick(float(now)) or now > 60
            socket.feed(frame(10))
        socket.feed(frame(1, b"x" * 20_480, last=False))
        for now in range(200, 271):
            socket.feed(frame(10))  # it is alive, and sends nothing else
            socket.tick(float(now))
            assert not wire.ended
        socket.tick(272.0)
        assert wire.ended
        assert b"the message took too long" in wire.written
        assert memory.used == 0

    with_socket(use)


def test_a_full_memory_ends_the_connection() -> None:
    async def use(socket: websocket.WebSocket, wire: Wire, memory: MemoryBudget) -> None:
        socket.feed(frame(1, b"x" * 3000, last=False))
        assert wire.ended
        assert (1013).to_bytes(2, "big") in wire.written
        assert memory.used == 0

    with_socket(use, limit=2000)


@given(
    frames=st.lists(st.tuples(st.sampled_from([0, 1, 8, 9, 10]), st.sampled_from([0, 1, 125, 126, 70_000]))),
    cuts=st.lists(st.integers(0, 200), max_size=20),
    most=st.integers(1, 3),
)
def test_heads_are_found_wherever_the_network_cuts(
    frames: list[tuple[int, int]], cuts: list[int], most: int
) -> None:
    data = b"".join(frame(opcode, b"x" * size) for opcode, size in frames)
    ends, at = list[int](), 0
    for opcode, size in frames:
        at += len(frame(opcode, b"x" * size))
        ends.append(at)
    heads, start = websocket.FrameHeads(), 0
    for size in [*cuts, len(data)]:
        piece, at = data[start : start + size], 0
        while at < len(piece):
            before, at = at, heads.cut(piece, at, most)
            assert at > before
            done = sum(1 for end in ends if end <= start + at)
            whole = ends[done - 1] if done else 0
            assert heads.partial == start + at - whole
            assert sum(1 for end in ends if start + before < end <= start + at) <= most + 1
        start += len(piece)
    assert heads.controls == sum(1 for opcode, _ in frames if opcode & 8)
