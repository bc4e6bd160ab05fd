"""A client that sends exact bytes, and an application that echoes what it received."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from dragoman.core import jsontext
from dragoman.http.server import ClientGone, MemoryFull, ResponseWriter, ServerRequest, TooLarge, TooSlow

LARGEST = 100_000


class Echo:
    """Echoes requests. /stream: in pieces; /wait: never; /deaf: without reading; /flood: without end;
    /raise: and fails then."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.cancelled = 0
        self.under_way = 0

    async def start(self) -> None:
        self.events.append("start")

    async def stop(self) -> None:
        self.events.append("stop")

    async def __call__(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        self.under_way += 1
        try:
            await self._answer(incoming, answer)
        except (asyncio.CancelledError, ClientGone):
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1

    async def _answer(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        self.events.append(incoming.path)
        match incoming.path:
            case "/deaf":
                await answer.json(401, {"no": "thanks"})
            case "/wait":
                await asyncio.sleep(60)
            case "/stream":
                await answer.begin("text/plain", [(b"x-more", b"1")])
                for word in (b"one ", b"", b"two "):
                    await answer.piece(word)
                await answer.end(b"three")
            case "/cut":
                await answer.begin("text/plain")
                await answer.piece(b"half")
            case "/flood":
                await answer.begin("text/plain")
                while True:
                    await answer.piece(b"x" * 65536)
            case "/huge":
                await answer.whole(200, b"x" * 8_000_000, kind=b"text/plain")
            case "/unasked":  # the body is not read
                await asyncio.sleep(0.5)
                self.events.append(f"{incoming.size} bytes")
                await answer.json(200, {})
            case "/task":
                await answer.json(200, {"task": repr(id(asyncio.current_task()))})
            case "/raise":
                await answer.json(200, {"raises": True})
                raise RuntimeError("after the response")
            case "/slow":
                await asyncio.sleep(1)
                await answer.json(200, {"slow": True})
            case _:
                await self._echo(incoming, answer)

    async def _echo(self, incoming: ServerRequest, answer: ResponseWriter) -> None:
        try:
            body = await incoming.read(LARGEST)
        except TooLarge as error:
            await answer.json(413, {"error": str(error)})
        except MemoryFull as error:
            await answer.json(503, {"error": str(error)})
        except TooSlow as error:
            await answer.json(408, {"error": str(error)})
        else:
            echoed = {
                "method": incoming.method,
                "path": incoming.path,
                "query": incoming.query.decode(),
                "body": body.decode(),
                "x": incoming.headers.get("x-said", ""),
            }
            await answer.json(200, echoed)


class Raw:
    """A socket, and the answers that come out of it."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.left = b""

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def hear(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: its status, its headers and its body."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *rest = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in rest if line)
        if "chunked" in headers.get("transfer-encoding", ""):
            return int(first.split()[1]), headers, self._chunks()
        return int(first.split()[1]), headers, self._exactly(int(headers.get("content-length", 0)))

    def hear_json(self) -> Any:
        return jsontext.decode(self.hear()[2])

    def rest(self) -> bytes:
        """All that comes until the connection ends."""
        pieces = [self.left]
        while piece := self._receive():
            pieces.append(piece)
        return b"".join(pieces)

    def _chunks(self) -> bytes:
        pieces: list[bytes] = []
        while size := int(self._until(b"\r\n"), 16):
            pieces.append(self._exactly(size))
            self._exactly(2)
        self._exactly(2)
        return b"".join(pieces)

    def _until(self, end: bytes) -> bytes:
        while end not in self.left:
            self._more()
        found, _, self.left = self.left.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self.left) < size:
            self._more()
        found, self.left = self.left[:size], self.left[size:]
        return found

    def _more(self) -> None:
        piece = self._receive()
        assert piece, f"the connection ended after {self.left!r}"
        self.left += piece

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""
