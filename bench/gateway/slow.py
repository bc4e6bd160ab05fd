"""A slow upstream, with frames as chunks of HTTP.

`/<upstream>/pause/…` waits a moment after the first text, `/<upstream>/hold/…` until the other side goes, and
`/<upstream>/pace/…` sends each frame by itself.
"""

import asyncio
import sys
from contextlib import suppress

from bench.gateway.bodies import FIRST_TEXT, frames
from bench.gateway.pairs import UPSTREAMS

PAUSE_SECONDS, PACE_SECONDS = 0.1, 0.005
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def pieces(chunks: list[bytes]) -> tuple[bytes, bytes]:
    """The stream up to its first text, and what follows."""
    first = next(index for index, made in enumerate(chunks) if FIRST_TEXT in made) + 1
    return b"".join(chunks[:first]), b"".join(chunks[first:])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKS = {upstream: [chunk(frame) for frame in [*frames(upstream), b""]] for upstream in UPSTREAMS}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await answer(reader, writer)
    writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    await read_body(reader, head.lower())
    upstream, kind = head.decode().split("/", 3)[1:3]
    if kind == "pace":
        await pace(writer, CHUNKS[upstream])
        return
    first, rest = pieces(CHUNKS[upstream])
    writer.write(HEAD + first)
    if kind == "hold":
        await reader.read()
        raise ConnectionResetError("the other side has gone")
    await asyncio.sleep(PAUSE_SECONDS)
    writer.write(rest)


async def pace(writer: asyncio.StreamWriter, chunks: list[bytes]) -> None:
    writer.write(HEAD)
    for made in chunks:
        writer.write(made)
        await asyncio.sleep(PACE_SECONDS)


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
