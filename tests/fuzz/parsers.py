"""What reads bytes from outside, each as a function that may raise only what the design allows."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random
from typing import Any

from msgspec import Struct

from dialects.parsing import events, tool
from dialects.strategies import FRAGMENTS
from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Stop
from dragoman.core.transport import Timeouts, TransportError
from dragoman.demo.answers import answer
from dragoman.demo.faults import STATUS, Memory
from dragoman.dialects import dialect
from dragoman.dialects import names as dialect_names
from dragoman.framing import jsonarray, sse
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.framing.multipart import FormError, read_form
from dragoman.gateway.config import Config, load
from dragoman.gateway.process.reload import ConfigReloader
from dragoman.http.client.address import address_of
from dragoman.http.client.connection import ClientConnection
from dragoman.http.client.reply import HttpReply
from dragoman.http.memory_budget import MemoryBudget
from dragoman.http.server import WebSocket
from dragoman.http.write_batch import WriteBatch
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.protocols import codec, names, server, upstream, upstream_names
from dragoman.serving.routes import RouteTable
from fuzz import samples
from fuzz.mutations import cut, everywhere, mixed, printed, spoiled
from spoken import AT_CLOUDS

Inputs = Callable[[Random], Iterator[Any]]


class Target(Struct, frozen=True):
    """`read` takes one input and may raise `allowed`; `inputs` never end."""

    name: str
    read: Callable[[Any, Random], None]
    inputs: Inputs
    allowed: tuple[type[Exception], ...] = (WireError,)


def targets() -> list[Target]:
    each = [target for protocol in names() for target in _of_clients(protocol)]
    each += [target for protocol in upstream_names() for target in _of_upstreams(protocol)]
    spoken = [Target(f"dialect {name}", _dialect(name), _texts, ()) for name in dialect_names()]
    rest = [
        Target("server-sent events", _framing(sse.Decoder), _of_bytes(_streams()), ()),
        Target("JSON arrays", _framing(jsonarray.Decoder), _of_bytes(_arrays())),
        Target("replies over HTTP", _http_reply, _of_bytes(_http_replies()), (TransportError,)),
        Target("forms", _form, _of_bytes(_forms()), (FormError,)),
        Target("WebSocket frames", _websocket, _of_bytes(_frames()), ()),
        Target("reloaded files", _reload, _of_bytes([RELOADED]), ()),
        Target("dragoman.toml", _config, _of_bytes([CONFIG]), (ConfigError,)),
    ]
    return each + spoken + rest


def _of_clients(protocol: str) -> list[Target]:
    inputs = _of_values(samples.requests(protocol), samples.donors(protocol))
    return [
        Target(f"{protocol} requests", _request(protocol), inputs),
        Target(f"{protocol} conversations", _conversation(protocol), inputs),
        Target(f"{protocol} to the scripted model", _demo(protocol), inputs, ()),
    ]


def _of_upstreams(protocol: str) -> list[Target]:
    donors = samples.donors(protocol)
    return [
        Target(f"{protocol} replies", _reply(protocol), _of_values(samples.replies(protocol), donors)),
        Target(f"{protocol} errors", _error(protocol), _of_values(errors(protocol), donors), ()),
        Target(f"{protocol} streams", _stream(protocol), of_frames(protocol), ()),
    ]


# Inputs


def _of_values(values: list[Any], donors: list[Any]) -> Inputs:
    """Every place of every value with every odd value; then, without end, several changes at once."""

    def inputs(random: Random) -> Iterator[Any]:
        both = zip(_shuffled(random, values), _mixtures(random, values, donors), strict=False)
        yield from (value for pair in both for value in pair)
        yield from _mixtures(random, values, donors)

    return inputs


def _shuffled(random: Random, values: list[Any]) -> Iterator[Any]:
    """All of `everywhere`, in an order that shows much of it early."""
    under_way = [everywhere(value) for value in values]
    while under_way:
        at = random.randrange(len(under_way))
        for _ in range(random.randint(1, 60)):
            value = next(under_way[at], under_way)
            if value is under_way:
                del under_way[at]
                break
            yield value


def _mixtures(random: Random, values: list[Any], donors: list[Any]) -> Iterator[Any]:
    while True:
        yield mixed(random, random.choice(values), donors)


def of_frames(protocol: str) -> Inputs:
    """Streams with one event changed, events swapped, lost or repeated, or their bytes spoiled."""
    streams, donors = samples.frames(protocol), samples.donors(protocol)
    write = _framed if protocol == samples.CONVERSE else _printed

    def inputs(random: Random) -> Iterator[bytes]:
        while True:
            stream = list(random.choice(streams))
            for _ in range(random.randint(1, 3)):
                _disturb(random, stream, donors)
            data = b"".join(write(event, value) for event, value in stream)
            yield data if random.randrange(4) else spoiled(random, data)

    return inputs


def _disturb(random: Random, stream: list[tuple[str, Any]], donors: list[Any]) -> None:
    at = random.randrange(len(stream))
    event, value = stream[at]
    match random.randrange(8):
        case 0 if len(stream) > 1:
            del stream[at]
        case 1:
            stream.insert(random.randrange(len(stream)), stream[at])
        case 2:
            other = random.randrange(len(stream))
            stream[at], stream[other] = stream[other], stream[at]
        case 3:
            stream[at] = (random.choice(stream)[0], value)
        case _:
            stream[at] = (event, mixed(random, value, donors))


def _printed(event: str, value: Any) -> bytes:
    data = value.encode("utf-8", "replace") if isinstance(value, str) else printed(value)
    return (b"event: %b\n" % event.encode() if event else b"") + b"data: %b\n\n" % data


def _framed(event: str, value: Any) -> bytes:
    data = value.encode("utf-8", "replace") if isinstance(value, str) else printed(value)
    return b"".join(AWS_EVENTS.encoder().feed(Frame(event, data)))


def _of_bytes(values: list[bytes]) -> Inputs:
    def inputs(random: Random) -> Iterator[bytes]:
        while True:
            yield spoiled(random, random.choice(values))

    return inputs


def _texts(random: Random) -> Iterator[str]:
    while True:
        yield "".join(random.choices(FRAGMENTS, k=random.randint(1, 40)))


def errors(protocol: str) -> list[Any]:
    bodies = [upstream(protocol).encode_error(failure)[1] for failure in STATUS.values()]
    return [jsontext.decode(jsontext.encode(body)) for body in bodies]


def _streams() -> list[bytes]:
    return [stream for protocol in names() for stream in samples.streams(protocol)]


def _arrays() -> list[bytes]:
    return [
        b"[" + b",\r\n".join(printed(value) for _, value in stream) + b"]"
        for stream in samples.frames("gemini")
    ]


def _http_replies() -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    chunked = b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    packed = gzip.compress(b"a" * 200_000)
    return [
        head + b"content-length: 5\r\n\r\nhello",
        head + chunked,
        head + b"\r\nuntil the end",
        head + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed,
        b"HTTP/1.1 100 Continue\r\n\r\n" + head + chunked,
        b"HTTP/1.1 429 Too Many\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 204 No Content\r\n\r\n",
    ]


# What reads them


def _request(protocol: str) -> Callable[[Any, Random], None]:
    upstreams = cycle(
        [(name, None) for name in upstream_names()] + [(names()[0], name) for name in dialect_names()]
    )

    def read(value: Any, random: Random) -> None:
        body = printed(value)
        target, spoken = next(upstreams)
        codec(protocol).decode_request(read_body(body, protocol), Losses())
        exchange = Exchange(protocol, target, spoken)
        jsontext.encode(exchange.request(body, "m" if random.randrange(2) else None))

    return read


def _conversation(protocol: str) -> Callable[[Any, Random], None]:
    """A request translates as it does without memory, when it is learnt and when it is known."""
    upstreams = cycle([name for name in names() if name != protocol])
    memory = ConversationMemory()

    def read(value: Any, random: Random) -> None:
        body, target = printed(value) + b" " * 512, next(upstreams)  # small bodies are not remembered
        plain = _outcome(Exchange(protocol, target), body)
        for _ in range(3):
            remembered = _outcome(Exchange(protocol, target, memory=memory), body)
            assert remembered == plain, "remembered otherwise"

    return read


def _outcome(exchange: Exchange, body: bytes) -> Any:
    try:
        sent: Any = exchange.request_bytes(body)
    except WireError as error:
        sent = str(error)
    return sent, exchange.losses, exchange.path, exchange.headers


def _reply(protocol: str) -> Callable[[Any, Random], None]:
    clients = cycle(names())

    def read(value: Any, random: Random) -> None:
        body = printed(value)
        upstream(protocol).decode_response(read_body(body, protocol), Losses())
        exchange = Exchange(next(clients), protocol, random.choice([None, "hermes"]))
        jsontext.encode(exchange.response(body))

    return read


def _error(protocol: str) -> Callable[[Any, Random], None]:
    def read(value: Any, random: Random) -> None:
        if isinstance(value, dict):
            failure = upstream(protocol).decode_error(value, random.choice([0, 400, 429, 500, 529, 999]))
            if failure:
                for client in names():
                    jsontext.encode(codec(client).encode_error(failure)[1])

    return read


def _stream(protocol: str) -> Callable[[Any, Random], None]:
    """Every stream that we emit passes its protocol's grammar, whatever came in."""
    clients = cycle([name for name in names() if name != protocol])

    def read(data: bytes, random: Random) -> None:
        client = next(clients)
        stream = Exchange(client, protocol, random.choice([None, "hermes"])).stream()
        out = b"".join(stream.feed(piece) for piece in cut(random, data)) + stream.close()
        if AT_CLOUDS.get(protocol) != client:  # its own parts go back as they came, broken ones too
            _check_grammar(client, out)
        forwarded = Exchange(protocol if protocol in names() else client, protocol).stream()
        for piece in cut(random, data):
            forwarded.feed(piece)
        forwarded.close()

    return read


def _check_grammar(client: str, out: bytes) -> None:
    framing, grammar = sse.Decoder(), codec(client).grammar()
    for frame in (*framing.feed(out), *framing.close()):
        list(grammar.feed(Frame(frame.event, frame.data)))
    list(grammar.close())


def _demo(protocol: str) -> Callable[[Any, Random], None]:
    exchange = Exchange(protocol, protocol)

    def read(value: Any, random: Random) -> None:
        exchange.request({"model": "m"}, stream=bool(random.randrange(2)))
        path = exchange.path if "/v1" in exchange.path else f"/v1{exchange.path}"
        path, _, query = path.partition("?")
        given = dict(pair.split("=") for pair in query.split("&")) if query else {}
        assert RouteTable((route, protocol) for route in server(protocol).routes).find(
            "POST", path, given, {}
        )
        answer("POST", path, given, {}, printed(value), Memory())

    return read


def _framing(decoder: Callable[[], Any]) -> Callable[[Any, Random], None]:
    def read(data: bytes, random: Random) -> None:
        stage = decoder()
        for piece in cut(random, data):
            list(stage.feed(piece))
        list(stage.close())

    return read


def _dialect(name: str) -> Callable[[Any, Random], None]:
    tools = (tool("read", path="string", lines={"type": "array"}), tool("bash", command="string"))

    def read(text: str, random: Random) -> None:
        pieces = [piece.decode("utf-32") for piece in _letters(random, text)]
        events(dialect(name).parser(tools, Losses()), pieces, Stop("end"))

    return read


def _letters(random: Random, text: str) -> list[bytes]:
    size = random.choice([1, 3, 4, 1000])
    return [text[at : at + size].encode("utf-32") for at in range(0, len(text), size)]


class _Wire:
    """A socket that takes everything and says nothing."""

    def write(self, data: bytes) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


def _http_reply(data: bytes, random: Random) -> None:
    asyncio.run(_read_reply(cut(random, data)))


async def _read_reply(pieces: list[bytes]) -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    connection = ClientConnection(address_of("http://x/")[0], set(), lambda connection: None, batch)
    connection.connection_made(_Wire())  # type: ignore[arg-type]
    reply = HttpReply(connection, Timeouts())
    connection.begin(reply, b"")
    for piece in pieces:
        if not connection.closed:
            connection.data_received(piece)
    connection.connection_lost(None)
    await reply.read(1 << 20)


CONFIG = b"""# as in the reference
[server]
host = "127.0.0.1"
port = 8787
keys = ["env:DRAGOMAN_KEY", "k"]
max_body_mb = 8
[log]
verbose = true
file = "x.log"
[providers.mine]
protocol = "anthropic"
base_url = "http://127.0.0.1:9"
api_key = "env:KEY"
dialect = "hermes"
recover = true
headers = { "x-a" = "b" }
timeouts = { connect = 1.5, first_byte = 20, idle = 3 }
max_concurrency = 4
models = ["a", "b"]
[models]
"claude-*" = ["mine:a", "mine:*"]
"b" = "mine:b"
[store]
url = "sqlite:///x.db"
"""


def _forms() -> list[bytes]:
    head = b'Content-Disposition: form-data; name="%b"; filename="a\\"b.jsonl"; filename*=UTF-8\'\'a%%20b\r\n'
    fields = (head % b"purpose" + b"Content-Type: text/plain", b"batch"), (head % b"file", b"x\r\n--\r\n" * 9)
    body = b"".join(b"--BB\r\n" + head + b"\r\n\r\n" + data + b"\r\n" for head, data in fields)
    return [body + b"--BB--\r\n", b"\r\n" + body + b"--BB-- behind"]


def _form(data: bytes, random: Random) -> None:
    kind = random.choice(("multipart/form-data; boundary=BB", 'multipart/form-data; a="\\""; boundary="BB"'))
    parts = read_form(data, kind)
    assert all(0 <= part.start <= part.end <= len(data) for part in parts)
    spans = [place for part in parts for place in (part.start, part.end)]
    assert spans == sorted(spans), "parts follow each other"


def _config(data: bytes, random: Random) -> None:
    load(data.decode("utf-8", "replace"), {"DRAGOMAN_KEY": "k", "KEY": "k"})


class _SocketWire:
    full = False

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def end_socket(self) -> None: ...


def _frames() -> list[bytes]:
    def frame(opcode: int, data: bytes, last: bool = True) -> bytes:
        length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        return bytes([(0x80 if last else 0) | opcode]) + length + b"mask" + data

    parts = frame(1, b"{", False) + frame(0, b"x" * 300, False) + frame(9, b"ping") + frame(0, b"}")
    return [parts + frame(1, b"{}") * 40 + frame(8, b"\x03\xe8"), frame(10, b"") * 90, frame(1, b"x" * 5000)]


def _websocket(data: bytes, random: Random) -> None:
    asyncio.run(_feed_websocket(cut(random, data)))


async def _feed_websocket(pieces: list[bytes]) -> None:
    """Whatever comes, nothing is raised, and in the end no memory is counted."""
    memory = MemoryBudget(100_000)
    socket = WebSocket(_SocketWire(), 20_000, memory)
    for piece in pieces:
        socket.feed(piece)
        await asyncio.sleep(0)
        assert 0 <= memory.used <= sum(map(len, pieces))
    socket.tick(0.0)
    while socket._messages:  # pyright: ignore[reportPrivateUsage] - those that have arrived
        await socket.receive()
    socket.lose_peer()
    assert memory.used == 0


RELOADED = b"""[server]
host = "10.0.0.7"
keys = ["key-a"]
reload = true
[keys.team]
key = "key-b"
[inspector]
enabled = true
admin_keys = ["admin-a"]
"""


def _reload(data: bytes, random: Random) -> None:
    """A running gateway never loses its keys, whatever is in the file."""
    running = load(RELOADED.decode(), {})

    def read() -> Config:
        try:
            return load(data.decode("utf-8"), {})
        except UnicodeDecodeError as error:
            raise ConfigError(str(error)) from None

    reloader = ConfigReloader(running, read, bool)
    reloader.request()
    while reloader.requested:
        reloader.poll()
    assert reloader.config.keys
    assert reloader.config.host == "10.0.0.7"
