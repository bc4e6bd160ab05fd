"""An upstream that pauses: it streams up to the first text, then waits, or holds the stream open.

`/<upstream>/pause/…` ends after a moment, `/<upstream>/hold/…` when the other side goes.
"""

import asyncio
import sys
from contextlib import suppress

from bench.gateway.bodies import FIRST_TEXT, frames
from bench.gateway.pairs import UPSTREAMS

PAUSE_SECONDS = 0.02
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def pieces(upstream: str) -> tuple[bytes, bytes]:
    """The stream up to its first text, and what follows, as chunks of HTTP: one for each frame."""
    made = frames(upstream)
    first = next(index for index, frame in enumerate(made) if FIRST_TEXT in frame) + 1
    return b"".join(map(chunk, made[:first])), b"".join(map(chunk, made[first:])) + chunk(b"")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


PIECES = {upstream: pieces(upstream) for upstream in UPSTREAMS}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await answer(reader, writer)
    writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    await read_body(reader, head.lower())
    upstream, kind = head.decode().split("/", 3)[1:3]
    first, rest = PIECES[upstream]
    writer.write(HEAD + first)
    if kind == "hold":
        await reader.read()
        raise ConnectionResetError("the other side has gone")
    await asyncio.sleep(PAUSE_SECONDS)
    writer.write(rest)


async def read_body(reader: asyncio.StreamReader, head: bytes) -> None:
    _, found, length = head.partition(b"content-length:")
    if found:
        await reader.readexactly(int(length.partition(b"\r\n")[0]))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


async def main(port: int) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
