"""Requests as bytes and the sockets that send them: for checks, counts, first events and open streams."""

import socket
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Self

SECONDS = 30
END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class BenchRequest:
    port: int
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def all_headers(self) -> dict[str, str]:
        usual = {"content-type": "application/json", "authorization": "Bearer k", "x-api-key": "k"}
        return {**usual, "anthropic-version": "2023-06-01", **self.headers}

    @property
    def wire(self) -> bytes:
        headers = {"host": f"127.0.0.1:{self.port}", **self.all_headers, "content-length": len(self.body)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + self.body


def send(request: BenchRequest) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", request.port, timeout=SECONDS)
    try:
        connection.request("POST", request.path, request.body, request.all_headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except HTTPException as error:
        raise ConnectionError(f"not an HTTP response: {error!r}") from error
    finally:
        connection.close()


@contextmanager
def opened(request: BenchRequest, count: int, until: bytes) -> Generator[None]:
    """`count` streams at once, each read up to `until`."""
    sockets = [socket.create_connection(("127.0.0.1", request.port), timeout=SECONDS) for _ in range(count)]
    try:
        for sock in sockets:
            sock.sendall(request.wire)
        for sock in sockets:
            read_until(sock, until)
        yield
    finally:
        for sock in sockets:
            sock.close()


class Connections:
    """Connections that are kept: each sends a request, then the reply of each is read."""

    def __init__(self, port: int, count: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._sockets:
            sock.close()

    def exchange(self, wires: Sequence[bytes]) -> None:
        for sock, wire in zip(self._sockets, wires, strict=True):
            sock.sendall(wire)
        for sock in self._sockets:
            read_whole(sock)


def read_whole(sock: socket.socket) -> None:
    """A reply with status 200, to its end: delimited by its length or by chunks."""
    got = read_until(sock, b"\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"answered with {got[:300]!r}")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    if length:
        while len(body) < int(length):
            body += sock.recv(65536)
    elif not body.endswith(END):
        read_until(sock, END, body[-len(END) :])


def first_event_seconds(request: BenchRequest, count: int, first: bytes) -> list[float]:
    """Seconds until the first text, each time; each stream is read to its end before the next request."""
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", request.port), timeout=SECONDS) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            start = time.perf_counter()
            sock.sendall(request.wire)
            got = read_until(sock, first)
            taken.append(time.perf_counter() - start)
            if not got.endswith(END):
                read_until(sock, END, got[-len(END) :])
    return taken


def read_until(sock: socket.socket, needle: bytes, got: bytes = b"") -> bytes:
    until = time.monotonic() + SECONDS
    while needle not in got:
        more = sock.recv(65536)
        if not more or time.monotonic() > until:
            raise ConnectionError(f"expected {needle!r}, received {got[:300]!r}")
        got += more
    return got
