"""What one turn of the loop writes goes out together, in order, and never piles up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.http.client import ReplyBroken, Timeouts
from dragoman.http.client.address import address_of
from dragoman.http.client.connection import ClientConnection
from dragoman.http.client.reply import HttpReply
from dragoman.http.write_batch import WriteBatch
from http_client.conftest import Run


class Desk:
    """An batch, and what has left it."""

    def __init__(self) -> None:
        self.batch = WriteBatch(asyncio.get_running_loop())
        self.gone: list[bytes] = []

    def put(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.batch.put(self.gone.append, piece)

    async def turn(self) -> list[bytes]:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gone, self.gone[:] = self.gone[:], []
        return gone


def test_the_first_write_after_a_quiet_turn_goes_out_at_once(run: Run) -> None:
    async def work() -> None:
        desk = Desk()
        for _ in range(3):
            desk.put(b"1", b"2")
            assert desk.gone == [b"1"]
            assert await desk.turn() == [b"1", b"2"]

    run(work())


def test_after_a_busy_turn_all_go_out_together(run: Run) -> None:
    async def work() -> None:
        desk = Desk()
        desk.put(b"1", b"2", b"3")
        assert await desk.turn() == [b"1", b"2", b"3"]
        desk.put(b"4")
        assert desk.gone == []
        desk.put(b"5")
        assert await desk.turn() == [b"4", b"5"]
        desk.put(b"6")  # the turn before was a quiet one
        assert desk.gone == [b"6"]

    run(work())


def test_what_is_large_does_not_wait_nor_overtake(run: Run) -> None:
    async def work() -> None:
        desk = Desk()
        desk.put(b"1", b"2", b"x" * 20_000)
        assert desk.gone == [b"1", b"2", b"x" * 20_000]

    run(work())


def test_writes_of_an_endless_turn_do_not_pile_up(run: Run) -> None:
    async def work() -> None:
        desk = Desk()
        for number in range(1000):
            desk.put(b"%d" % number)
            assert number - len(desk.gone) < 300
        assert await desk.turn() == [b"%d" % number for number in range(1000)]

    run(work())


def test_a_write_that_fails_holds_up_nobody(run: Run) -> None:
    def fail(data: bytes) -> None:
        raise RuntimeError(data)

    async def work() -> None:
        desk, reported = Desk(), list[object]()
        desk.batch.loop.set_exception_handler(lambda _, context: reported.append(context["exception"].args))
        desk.put(b"1")
        desk.batch.put(fail, b"2")
        desk.put(b"3")
        assert await desk.turn() == [b"1", b"3"]
        assert reported == [(b"2",)]

    run(work())


def test_an_upstream_that_speaks_before_it_is_asked_is_not_asked(run: Run) -> None:
    """A goodbye that crosses with a request must not pass for its answer."""

    class Socket(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.written, self.open = list[bytes](), True

        def write(self, data: Any) -> None:
            self.written.append(data)

        def is_closing(self) -> bool:
            return not self.open

        def abort(self) -> None:
            self.open = False

    async def work() -> None:
        desk, socket, given_back = Desk(), Socket(), list[ClientConnection]()
        desk.put(b"1")
        connection = ClientConnection(address_of("http://a/")[0], set(), given_back.append, desk.batch)
        connection.connection_made(socket)
        reply = HttpReply(connection, Timeouts())
        connection.begin(reply, b"headbody")
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        with pytest.raises(ReplyBroken, match="replied before the request was sent"):
            await reply.read(1)
        assert await desk.turn() == [b"1"]
        assert (socket.written, socket.open, given_back) == ([], False, [])

    run(work())
