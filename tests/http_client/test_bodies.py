"""Every form in which HTTP/1.1 delivers an answer, whole and byte by byte, and every way to get it wrong."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from dragoman.http.client import Client, ReplyBroken, Timeouts
from dragoman.http.client.connection import MAX_HEAD
from dragoman.http.memory_budget import MemoryBudget, MemoryFull
from http_client.conftest import Run
from http_client.servers import answering, listening

OK = b"HTTP/1.1 200 OK\r\n"
TEXT = b"data: hello\n\n" * 40
PACKED = gzip.compress(TEXT)


def chunked(body: bytes, size: int = 50) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def sized(body: bytes, head: bytes = OK) -> bytes:
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


GZIP = OK + b"content-encoding: gzip\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n"

# answer, what the server does then -> status, body, whether the connection may serve again
GOOD = {
    "a length": (sized(TEXT), "wait", 200, TEXT, 1),
    "no body": (sized(b""), "wait", 200, b"", 1),
    "chunks": (CHUNKED + b"\r\n" + chunked(TEXT), "wait", 200, TEXT, 1),
    "chunks and trailers": (
        CHUNKED + b"\r\n" + chunked(TEXT).removesuffix(b"\r\n") + b"x-sum: 1\r\n\r\n",
        "wait",
        200,
        TEXT,
        1,
    ),
    "until it closes": (OK + b"\r\n" + TEXT, "close", 200, TEXT, 0),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n" + TEXT, "close", 200, TEXT, 0),
    "it says that it will close": (sized(TEXT, OK + b"connection: close\r\n"), "close", 200, TEXT, 0),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "wait", 204, b"", 1),
    "an error status": (sized(b"{}", b"HTTP/1.1 529 \r\n"), "wait", 529, b"{}", 1),
    "100 Continue first": (b"HTTP/1.1 100 Continue\r\n\r\n" + sized(TEXT), "wait", 200, TEXT, 1),
    "early hints first": (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2 + sized(TEXT),
        "wait",
        200,
        TEXT,
        1,
    ),
    "gzip with a length": (sized(PACKED, OK + b"content-encoding: gzip\r\n"), "wait", 200, TEXT, 1),
    "gzip in chunks": (
        CHUNKED + b"content-encoding: gzip\r\n\r\n" + chunked(PACKED, 7),
        "wait",
        200,
        TEXT,
        1,
    ),
    "gzip in several members": (
        sized(gzip.compress(TEXT[:9]) + gzip.compress(b"") + gzip.compress(TEXT[9:]), GZIP),
        "wait",
        200,
        TEXT,
        1,
    ),
    "gzip with padding": (sized(PACKED + bytes(20), GZIP), "wait", 200, TEXT, 1),
    "deflate": (sized(zlib.compress(TEXT), OK + b"content-encoding: deflate\r\n"), "wait", 200, TEXT, 1),
    "identity": (sized(TEXT, OK + b"content-encoding: identity\r\n"), "wait", 200, TEXT, 1),
}

BAD = {
    "cut in the head": (b"HTTP/1.1 200 OK\r\ncontent-le", "close", "closed the connection"),
    "nothing at all": (b"", "close", "closed the connection"),
    "cut in a length": (sized(TEXT)[:-9], "close", "closed the connection"),
    "cut in a chunk": (CHUNKED + b"\r\n" + chunked(TEXT)[:-20], "close", "closed the connection"),
    "cut before the last chunk": (CHUNKED + b"\r\n" + chunked(TEXT)[:-5], "close", "closed the connection"),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.7\r\n", "hang", "not HTTP"),
    "a chunk size of nonsense": (CHUNKED + b"\r\nzz\r\n", "hang", "not HTTP"),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc",
        "hang",
        "another protocol",
    ),
    "many headers": (OK + b"x: " + b"y" * 70 + b"\r\n" + b"z: 1\r\n" * 20_000, "hang", "larger than"),
    "one endless header": (OK + b"x: " + b"y" * (MAX_HEAD + 1), "hang", "larger than"),
    "an encoding nobody asked for": (sized(TEXT, OK + b"content-encoding: br\r\n"), "wait", "encoded as br"),
    "gzip that is none": (sized(TEXT, OK + b"content-encoding: gzip\r\n"), "wait", "compression is broken"),
    "gzip cut in its second member": (sized(PACKED + PACKED[:-12], GZIP), "wait", "inside its compression"),
    "gzip cut short": (
        sized(PACKED[:-12], OK + b"content-encoding: gzip\r\n"),
        "wait",
        "inside its compression",
    ),
}


async def fetch(pieces: list[bytes], then: str, limit: int = 1 << 20) -> tuple[int, bytes, int]:
    async with listening(answering(*pieces, then=then)) as seen:
        client = Client(environ={})
        try:
            reply = await client.send("POST", seen.url, {"x": "1"}, b"{}", Timeouts(30, 30, 30))
            body = await reply.read(limit)
            return reply.status, body, client.connections
        finally:
            await client.close()
            assert client.connections == 0


@pytest.mark.parametrize("cut", ["whole", "bytewise"])
@pytest.mark.parametrize("name", GOOD)
def test_an_answer_arrives(name: str, cut: str, run: Run) -> None:
    answer, then, *expected = GOOD[name]
    pieces = [answer] if cut == "whole" else [answer[at : at + 1] for at in range(len(answer))]
    assert run(fetch(pieces, then)) == tuple(expected)


@pytest.mark.parametrize("name", BAD)
def test_a_broken_answer_is_an_error(name: str, run: Run) -> None:
    answer, then, problem = BAD[name]
    with pytest.raises(ReplyBroken, match=problem):
        run(fetch([answer], then))


def test_a_body_longer_than_the_limit_is_an_error(run: Run) -> None:
    with pytest.raises(ReplyBroken, match="longer than 100 bytes"):
        run(fetch([sized(TEXT)], "wait", limit=100))


def test_compression_unfolds_in_bounded_pieces(run: Run) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)

    async def work() -> list[int]:
        async with listening(answering(sized(bomb, OK + b"content-encoding: gzip\r\n"))) as seen:
            client = Client(environ={})
            reply = await client.send("POST", seen.url, {}, b"", Timeouts())
            sizes = [len(piece) async for piece in reply]
            await client.close()
            return sizes

    sizes = run(work())
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 64 * 1024


def test_two_answers_to_one_request_end_the_connection(run: Run) -> None:
    """The second one must never become the answer to the next request."""
    status, body, open_connections = run(fetch([sized(b"first") + sized(b"second")], "hang"))
    assert (status, body, open_connections) == (200, b"first", 0)


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_whole_reply_waits_for_memory(run: Run, framing: str) -> None:
    """It is counted before it is read, given back when it was, and refused where no memory comes."""
    large = b"x" * 600_000
    answer = sized(large) if framing == "length" else CHUNKED + b"\r\n" + chunked(large, 50_000)

    async def work() -> tuple[int, int, bool]:
        memory = MemoryBudget(500_000)
        async with listening(answering(answer)) as seen:
            client = Client(environ={}, memory=memory)
            memory.used = 500_000
            reply = await client.send("POST", seen.url, {}, b"", Timeouts())
            reading = asyncio.create_task(reply.read(10**9))
            await asyncio.sleep(0.2)
            waits = not reading.done()
            memory.used -= 400_000
            size = len(await reading)
            memory.used += 400_000
            refused = await client.send("POST", seen.url, {}, b"", Timeouts(idle=0.1))
            with pytest.raises(MemoryFull):
                await refused.read(10**9)
            await client.close()
            return size, memory.used, waits

    assert run(work()) == (600_000, 500_000, True)


class WatchedBudget(MemoryBudget):
    """Remembers the most that was used."""

    highest = 0

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "used":
            self.highest = max(self.highest, self.used)


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_one_whole_reply_at_a_time_goes_beyond_the_memory(run: Run, framing: str) -> None:
    """Two that are each larger than what is left would otherwise hold twice the limit together."""
    large = b"x" * 800_000
    answer = sized(large) if framing == "length" else CHUNKED + b"\r\n" + chunked(large, 10_000)

    async def work() -> tuple[set[int], int, object, int]:
        memory = WatchedBudget(500_000)
        async with listening(answering(answer)) as seen:
            client = Client(environ={}, memory=memory)
            replies = [await client.send("POST", seen.url, {}, b"", Timeouts()) for _ in range(3)]
            bodies = await asyncio.gather(*(reply.read(10**9) for reply in replies))
            await client.close()
        return {len(body) for body in bodies}, memory.used, memory.overdrawn_by, memory.highest

    sizes, used, overdrawn_by, highest = run(work())
    assert (sizes, used, overdrawn_by) == ({800_000}, 0, None)
    assert highest <= 500_000 + 800_000 + 256 * 1024  # so much is counted at a time
