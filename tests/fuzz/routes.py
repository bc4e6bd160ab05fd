"""Every route of a gateway with spoiled requests, over real sockets: bodies that break their protocol, and
bytes that break HTTP."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError
from dragoman.framing import sse
from dragoman.protocols import codec, names, server, upstream_names
from fuzz import samples
from fuzz.mutations import ODD, changed, cut, mixed, paths, printed, spoiled

PROVIDERS = '[store]\nurl = "memory:"\n' + "".join(
    f'[providers.{name}]\nprotocol = "{name}"\nbase_url = "demo:"\napi_key = "fuzz"\n'
    for name in upstream_names()
)
PROVIDERS += '[providers.spoken]\nprotocol = "openai-chat"\nbase_url = "demo:"\ndialect = "hermes"\n'
UPSTREAMS = (*upstream_names(), "spoken")
PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
# Those of each protocol's own routes whose streams have its framing
PATHS = {
    name: tuple(
        PARAMETER.sub(lambda found: "{model}" if found[1] == "model" else "p", route.path) + query
        for route in server(name).routes
        if route.method == "POST" and route.action in ("generate", "count") and not route.framing
        for query in (("", "?alt=sse") if route.stream else ("",))
    )
    for name in names()
}
OTHERS = (
    "/", "/healthz", "/readyz", "/metrics", "/api/hello", "/v1/models", "/v1beta/models", "/v1/models/x",
    "/v1/responses/resp_1", "/v1/responses/resp_1/input_items", "/favicon.ico", "*", "http://x/v1/models",
)  # fmt: skip
# What asks the gateway itself to keep a conversation, or to find one again
KEEPING: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"store": True}, {"store": "x"}, {"previous_response_id": "resp_1"},
    {"previous_response_id": []}, {"thread": {"type": "create"}}, {"thread": {"type": "continue", "id": "x"}},
    {"thread": [None]},
)  # fmt: skip
METHODS = (
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "CONNECT",
    "TRACE",
    "get",
    "G\x00T",
    "",
)
HEADERS = (
    b"content-encoding: gzip", b"content-encoding: br", b"content-encoding: deflate, gzip",
    b"content-length: 5", b"content-length: -1", b"content-length: 99999999999999999999",
    b"content-length: 1, 1", b"content-length: \xb2", b"transfer-encoding: chunked",
    b"transfer-encoding: gzip, chunked", b"transfer-encoding: x", b"connection: close",
    b"expect: 100-continue", b"expect: x", b"upgrade: websocket\r\nconnection: upgrade", b"upgrade: h2c",
    b"authorization: Bearer \xff\xfe", b"x-api-key: \x00", b"anthropic-version: x", b"x-goog-api-key: k",
    b"content-type: text/plain; charset=utf-16", b"traceparent: 00-x", b"a" * 300 + b": b", b": empty",
    b"no colon", b" folded: x", b"x: " + b"y" * 70_000, b"host: a\r\nhost: b", b"accept: \xff",
)  # fmt: skip
TAILS = (
    b"%00", b"%ff", b"%", b"%zz", b"/..", b"//", b"?", b"?key=%ff", b"?alt=sse&alt=x", b"?" + b"a" * 9000,
    b"#x", b":generateContent", b"\xc3\xa9", b"\xff", b" HTTP/1.1", b"/" * 500,
)  # fmt: skip
VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1x", b"")
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z' -]*\r\n")  # not one that an error quotes
QUIET = 0.15  # seconds without an answer, after which a client closes its side
SLOWEST = 60.0  # seconds until it must be over then


class Sent(Struct, frozen=True):
    """`client`: whose answer is expected; empty where the request may be no request at all.

    `forwarded`: an upstream of the same protocol answers, so what it says passes as it is.
    """

    data: bytes
    client: str = ""
    forwarded: bool = False


def bodies(random: Random) -> Iterator[Sent]:
    """Requests that are good HTTP and bad anything else."""
    for client in cycle(names()):
        sample = random.choice(samples.requests(client))
        if random.randrange(2):
            yield _posted(random, client, mixed(random, sample, samples.donors(client)))
        else:
            path = random.choice(list(paths(sample)))
            yield _posted(random, client, changed(sample, path, lambda _: random.choice(ODD)))


def _posted(random: Random, client: str, value: Any) -> Sent:
    model, stream = f"{random.choice(UPSTREAMS)}:m", random.random() < 0.4
    path = random.choice(PATHS[client])
    if isinstance(value, dict) and client != "gemini" and random.randrange(9):
        value = {**value, "model": model, **({"stream": True} if stream else {})}
        value |= random.choice(KEEPING)
    body = printed(value)
    if not random.randrange(8):
        body = spoiled(random, body)
    head = [f"POST {path.format(model=model)} HTTP/1.1", "host: x", "connection: close"]
    if not random.randrange(8):
        head.append("content-encoding: gzip")
        body = gzip.compress(body, 1)
    header = "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode()
    return Sent(header + body, client)


def wild(random: Random) -> Iterator[Sent]:
    """Good requests with one or two things wrong about their HTTP."""
    known = [("POST", path.format(model="m")) for each in PATHS.values() for path in each]
    known += [("GET", path) for path in OTHERS]
    while True:
        method, path = random.choice(known)
        request = Raw(method=method.encode(), path=path.encode())
        if method == "POST":
            request.body = printed(random.choice(samples.requests(random.choice(names()))))
        for _ in range(random.randint(1, 2)):
            _break(random, request)
        data = request.data
        if not random.randrange(4):
            data += random.choice((data, b"\r\n" + data, b"GET / HTTP/1.1\r\n\r\n" * 50))  # pipelined
        yield Sent(data if random.randrange(4) else spoiled(random, data))


class Raw(Struct):
    """A request in its parts."""

    method: bytes
    path: bytes
    version: bytes = b"HTTP/1.1"
    headers: list[bytes] = []
    body: bytes = b""
    measured: bool = True  # by a content-length

    @property
    def data(self) -> bytes:
        length = [b"content-length: %d" % len(self.body)] if self.measured else []
        head = [b" ".join((self.method, self.path, self.version)), b"host: x", *self.headers, *length]
        return b"\r\n".join([*head, b"", b""]) + self.body


def _break(random: Random, request: Raw) -> None:
    match random.randrange(7):
        case 0:
            request.method = random.choice(METHODS).encode()
        case 1:
            request.path = request.path.partition(b"?")[0] + random.choice(TAILS)
        case 2:
            request.version = random.choice(VERSIONS)
        case 3:
            request.headers = [*request.headers, b"transfer-encoding: chunked"]
            request.body, request.measured = _chunked(random, request.body), False
        case 4:
            request.headers = [*request.headers, b"content-encoding: gzip"]
            request.body = random.choice((BOMB, BOMB[:99], gzip.compress(request.body)[:-9], b""))
        case _:
            request.headers = [*request.headers, random.choice(HEADERS)]


def _chunked(random: Random, body: bytes) -> bytes:
    size = random.choice((b"%x" % len(body), b"%x" % (len(body) + 9), b"-1", b"zz", b"f" * 40, b"5;a=b", b""))
    return size + b"\r\n" + body + random.choice((b"\r\n0\r\n\r\n", b"\r\n0\r\nx: y\r\n\r\n", b"\r\n", b"0"))


BOMB = gzip.compress(b"[" * (1 << 24), 9)


async def fire(port: int, sent: Sent, random: Random, blameless: bool = True) -> str:
    """What is wrong with the answer; nothing where all is well. `blameless`: there is no reason for a 500."""
    try:
        async with asyncio.timeout(SLOWEST):
            received = await _answer(port, sent, random)
    except TimeoutError:
        return f"no end after {SLOWEST:g} s"
    except OSError:  # it is the server's right to hang up on nonsense
        received = b""
    if received and not received.startswith(b"HTTP/1."):
        return f"not HTTP: {received[:60]!r}"
    statuses = [int(status) for status in STATUS_LINE.findall(received)]
    if blameless and any(status >= 500 for status in statuses):
        return f"status {statuses}: {received[-300:]!r}"
    return _wrong(sent, statuses, received) if sent.client else ""


async def _answer(port: int, sent: Sent, random: Random) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        for piece in cut(random, sent.data) if random.randrange(2) else [sent.data]:
            writer.write(piece)
            await writer.drain()
        if sent.client:
            return await reader.read()
        received = await _until_quiet(reader)
        writer.write_eof()
        return received + await reader.read()
    finally:
        writer.close()


async def _until_quiet(reader: asyncio.StreamReader) -> bytes:
    received = b""
    while True:
        try:
            async with asyncio.timeout(QUIET):
                piece = await reader.read(1 << 20)
        except TimeoutError:
            return received
        if not piece:
            return received
        received += piece


def _wrong(sent: Sent, statuses: list[int], received: bytes) -> str:
    """Whether a client of this protocol can read the answer."""
    head, _, body = received.partition(b"\r\n\r\n")
    if len(statuses) != 1 or b"request-id: req_" not in head:
        return f"answers {statuses}: {head[:200]!r}"
    if b"transfer-encoding: chunked" in head:
        body = _joined(body)
    try:
        if statuses[0] >= 400:
            failure = codec(sent.client).decode_error(jsontext.decode(body), statuses[0])
            return "" if failure else f"an error that is none: {body[:200]!r}"
        if sent.forwarded:
            return ""
        if b"content-type: text/event-stream" in head:
            _check(sent.client, body)
        else:
            jsontext.decode(body)
    except (DragomanError, ValueError) as error:
        return f"{type(error).__name__}: {error}: {body[:200]!r}"
    return ""


def _joined(chunked: bytes) -> bytes:
    pieces: list[bytes] = []
    while chunked:
        size, _, rest = chunked.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        chunked = rest[int(size, 16) + 2 :]
    return b"".join(pieces)


def _check(client: str, body: bytes) -> None:
    framing, grammar = sse.Decoder(), codec(client).grammar()
    for frame in (*framing.feed(body), *framing.close()):
        list(grammar.feed(Frame(frame.event, frame.data)))
    list(grammar.close())
