"""`stream_into`: a sink gets the same bytes as a reader, each piece as it arrives."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from dragoman.http.client import Client, ReplyBroken, TimedOut, Timeouts
from http_client.conftest import Run
from http_client.servers import answering, listening
from waiting import LONG

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
GZIPPED = HEAD.replace(b"OK\r\n", b"OK\r\ncontent-encoding: gzip\r\n")
LAST = b"0\r\n\r\n"
LATER = Timeouts(connect=30, first_byte=30, idle=30)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


PACKED = gzip.compress(b"abcd" * 1000)
BODIES = {
    "small pieces": ([chunk(b"ab"), chunk(b"cd"), chunk(b"ef")], HEAD, b"abcdef"),
    "several in one read": ([chunk(b"ab") + chunk(b"cd"), chunk(b"ef")], HEAD, b"abcdef"),
    "a large piece": ([chunk(b"x" * 300_000), chunk(b"yz")], HEAD, b"x" * 300_000 + b"yz"),
    "compressed": ([chunk(PACKED[:20]), chunk(PACKED[20:])], GZIPPED, b"abcd" * 1000),
    "nothing": ([], HEAD, b""),
}


@pytest.mark.parametrize("full", [False, True], ids=["", "stopped by each piece"])
@pytest.mark.parametrize("name", BODIES)
def test_a_sink_gets_the_whole_body(name: str, full: bool, run: Run) -> None:
    pieces, head, body = BODIES[name]
    got = list[bytes]()

    def sink(data: bytes) -> bool:
        got.append(data)
        return full

    async def work() -> None:
        async with listening(answering(head, *pieces, LAST, pause=0.01)) as seen:
            client = Client(environ={})
            for _ in range(2):  # the connection is used again
                reply = await client.send("POST", seen.url, {}, b"", LATER)
                while await reply.stream_into(sink):
                    assert full
            assert b"".join(got) == body * 2
            assert seen.opened == 1
            await client.close()

    run(work())


def failing(data: bytes) -> bool:
    raise ZeroDivisionError


# what the sink does, how the peer ends, the seconds of silence it gets, and the error
ENDS: dict[str, tuple[Callable[[bytes], bool], str, float, type[Exception], str]] = {
    "the sink raises": (failing, "hang", LONG, ZeroDivisionError, "^$"),
    "silence": (lambda data: False, "hang", 0.5, TimedOut, "to go on"),
    "the peer closes": (lambda data: False, "close", LONG, ReplyBroken, "before its answer ended"),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_reply_reaches_its_reader(name: str, run: Run) -> None:
    sink, then, idle, error, problem = ENDS[name]

    async def work() -> None:
        async with listening(answering(HEAD, chunk(b"ab"), chunk(b"cd"), then=then, pause=0.02)) as seen:
            client = Client(environ={})
            reply = await client.send("POST", seen.url, {}, b"", Timeouts(LONG, LONG, idle))
            with pytest.raises(error, match=problem):
                await reply.stream_into(sink)
            reply.close()
            assert client.connections == 0
            await client.close()

    run(work())
