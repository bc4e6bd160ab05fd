"""Silence, slowness and leaving: each ends in time, and nothing stays open behind it."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest

from dragoman.http.client import Client, ConnectFailed, TimedOut, Timeouts
from dragoman.http.client.reply import HIGH_WATER
from http_client.conftest import Run
from http_client.servers import answering, listening, read_request, until
from ports import closed_port

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LONG = 30.0


def test_a_closed_port_is_a_failed_connection(run: Run) -> None:
    async def work() -> None:
        url = f"http://{closed_port()}"
        with pytest.raises(ConnectFailed, match=f"no connection to {re.escape(url)}"):
            await Client(environ={}).send("POST", f"{url}/", {}, b"", Timeouts())

    run(work())


def test_a_name_without_an_address_is_a_failed_connection(run: Run) -> None:
    with pytest.raises(ConnectFailed, match=r"no connection to http://nobody\.invalid"):
        run(Client(environ={}).send("POST", "http://nobody.invalid/", {}, b"", Timeouts(LONG, LONG, LONG)))


def test_a_peer_that_never_finishes_its_handshake(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(then="hang")) as seen:
            client = Client(environ={})
            url = seen.url.replace("http:", "https:")
            with pytest.raises(ConnectFailed, match=r"within 0\.2 s"):
                await client.send("POST", url, {}, b"", Timeouts(connect=0.2))
            assert client.connections == 0

    run(work())


@pytest.mark.parametrize(
    "pieces, timeouts, problem",
    [
        ((), Timeouts(LONG, 0.2, LONG), "to answer"),
        ((b"HTTP/1.1 200 O",), Timeouts(LONG, 0.2, LONG), "to answer"),
        ((HEAD,), Timeouts(LONG, LONG, 0.2), "to go on"),
        ((HEAD, b"2\r\nab\r\n"), Timeouts(LONG, LONG, 0.2), "to go on"),
    ],
    ids=["no byte", "half a head", "no body", "half a body"],
)
def test_silence_ends_in_time(pieces: tuple[bytes, ...], timeouts: Timeouts, problem: str, run: Run) -> None:
    async def work() -> None:
        async with listening(answering(*pieces, then="hang")) as seen:
            client = Client(environ={})

            async def ask() -> None:
                reply = await client.send("POST", seen.url, {}, b"", timeouts)
                await reply.read(1000)

            with pytest.raises(TimedOut, match=problem):
                await ask()
            await seen.closed.wait()  # the upstream sees the closed connection
            assert client.connections == 0

    run(work())


def test_many_short_silences_are_no_long_one(run: Run) -> None:
    """Each piece starts the time limit anew."""
    turn = asyncio.Semaphore(0)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader, writer)
        for piece in (HEAD, *[b"1\r\na\r\n"] * 5, b"0\r\n\r\n"):
            writer.write(piece)
            await turn.acquire()

    async def work() -> None:
        async with listening(script) as seen:
            client = Client(environ={})
            reply = await client.send("POST", seen.url, {}, b"", Timeouts(LONG, LONG, LONG))
            waiting = asyncio.ensure_future(reply.read(1000))
            for _ in range(5):
                await asyncio.sleep(0.01)
                before = reply._connection.deadline
                turn.release()
                await until(lambda before=before: reply._connection.deadline > before)
            turn.release()
            assert await waiting == b"a" * 5
            await client.close()

    run(work())


def test_a_slow_reader_is_no_silent_upstream(run: Run) -> None:
    async def work() -> None:
        async with listening(
            answering(HEAD, b"2\r\nab\r\n", b"2\r\ncd\r\n", b"0\r\n\r\n", pause=0.05)
        ) as seen:
            client = Client(environ={})
            reply = await client.send("POST", seen.url, {}, b"", Timeouts(LONG, LONG, idle=0.8))
            got = []
            async for piece in reply:
                got.append(piece)
                await asyncio.sleep(0.9)
            assert b"".join(got) == b"abcd"
            await client.close()

    run(work())


@pytest.mark.parametrize("moment", ["connecting", "before the head", "in the body"])
def test_leaving_closes_the_connection(moment: str, run: Run) -> None:
    async def work() -> None:
        pieces = (HEAD, b"2\r\nab\r\n") if moment == "in the body" else ()
        async with listening(answering(*pieces, then="hang")) as seen:
            client = Client(environ={})
            scheme = "https:" if moment == "connecting" else "http:"
            came: list[bytes] = []
            reached = {
                "connecting": lambda: seen.opened,
                "before the head": lambda: seen.requests,
                "in the body": lambda: came,
            }

            async def ask() -> None:
                reply = await client.send("POST", seen.url.replace("http:", scheme), {}, b"", Timeouts())
                try:
                    async for piece in reply:
                        came.append(piece)
                finally:
                    reply.close()

            task = asyncio.create_task(ask())
            await until(reached[moment])
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await seen.closed.wait()
            assert client.connections == 0

    run(work())


def test_a_reader_that_does_not_read_stops_the_upstream(run: Run) -> None:
    """However much the upstream has to say, only a bounded part of it waits here."""
    total = 64 * 1024 * 1024
    written = 0

    async def work() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            await read_request(reader, writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
            for _ in range(total // 65536):
                writer.write(b"x" * 65536)
                await writer.drain()
                written += 65536
            await reader.read()

        async with listening(script) as seen:
            client = Client(environ={})
            reply = await client.send("POST", seen.url, {}, b"", Timeouts())
            await asyncio.sleep(0.3)
            assert reply.buffered <= HIGH_WATER + 256 * 1024  # the mark, and one read of the socket
            assert written < total // 2  # the rest is in nobody's memory yet
            size = 0
            async for piece in reply:
                size += len(piece)
            assert (size, written, reply.buffered) == (total, total, 0)
            await client.close()

    run(work())
