"""The scripted model behind the transport seam, and as a server of its own for tests.

Both answer the wire of every protocol: the path tells which one a request speaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, unfold
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request, Response, Stop, Text, ToolCall
from dragoman.core.server import Served
from dragoman.demo.faults import Fault, fault_of
from dragoman.demo.script import reply
from dragoman.framing import jsonarray, sse
from dragoman.protocols import codec, names, server
from dragoman.transport.messages import ReplyBroken, Timeouts

_STATUS: dict[Fault, Failure] = {
    "400": Failure("bad_request", "demo: bad request", 400),
    "401": Failure("unauthenticated", "demo: bad key", 401),
    "404": Failure("not_found", "demo: no such model", 404),
    "429": Failure("rate_limit", "demo: slow down", 429, retry_after=0.05),
    "500": Failure("server", "demo: something broke", 500),
    "529": Failure("overloaded", "demo: too busy", 529),
}


class Answered(Struct, frozen=True):
    """What the scripted model sends back; `fault` tells the carrier how to misbehave."""

    status: int
    content_type: str
    pieces: tuple[bytes, ...]
    fault: Fault | None = None
    headers: dict[str, str] = {}


def answer(method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Answered:
    for name in names():
        served = server(name).recognise(method, path, query, headers)
        if served and served.action == "generate":
            return _generate(codec(name), served, body)
    return Answered(404, "application/json", (b'{"error":{"message":"demo: no such path"}}',))


def _generate(speaker: Codec, served: Served, body: bytes) -> Answered:
    try:
        request = speaker.decode_request(read_body(body, speaker.name), Losses())
    except WireError as error:
        return _failed(speaker, Failure("bad_request", str(error), 400))
    fault = fault_of(request)
    if fault in _STATUS:
        return _failed(speaker, _STATUS[fault])
    response = reply(request, speaker.name)
    if isinstance(response, Failure):
        return _failed(speaker, response)
    if fault == "leak":
        response = _leaked(response)
    streamed = request.stream if served.stream is None else served.stream
    if not streamed:
        printed = jsontext.encode(speaker.encode_response(response, Losses(), request))
        return Answered(200, "application/json", (printed,), fault)
    return Answered(200, "text/event-stream", tuple(_stream(speaker, served, request, response)), fault)


def _failed(speaker: Codec, failure: Failure) -> Answered:
    _, body = speaker.encode_error(failure)
    headers = {} if failure.retry_after is None else {"retry-after-ms": str(int(failure.retry_after * 1000))}
    return Answered(failure.status, "application/json", (jsontext.encode(body),), headers=headers)


def _stream(speaker: Codec, served: Served, request: Request, response: Response) -> Iterable[bytes]:
    """Word by word, as real ones stream."""
    encoder = speaker.stream_encoder(Losses(), request)
    printer = jsonarray.Encoder() if served.array else sse.Encoder()
    for event in unfold(response):
        for small in _in_words(event):
            for frame in encoder.feed(small):
                yield from printer.feed(frame)
    for frame in encoder.close():
        yield from printer.feed(frame)
    yield from printer.close()


def _in_words(event: Event) -> Iterable[Event]:
    if not isinstance(event, PartDelta) or not event.text:
        return (event,)
    words = event.text.split(" ")
    return [PartDelta(event.index, word if i == 0 else f" {word}") for i, word in enumerate(words)]


def _leaked(response: Response) -> Response:
    """The call as text, as weak models leak it."""

    def text(part: ToolCall) -> Text:
        arguments = jsontext.decode_object(part.arguments) or {}
        return Text(
            f"<tool_call>\n{jsontext.dumps({'name': part.name, 'arguments': arguments})}\n</tool_call>"
        )

    parts = tuple(text(part) if isinstance(part, ToolCall) else part for part in response.parts)
    return replace(response, parts=parts, stop=Stop("end"))


class DemoTransport:
    """The seam without a network: requests to the demo provider are answered in the process."""

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> DemoReply:
        parts = urlsplit(url)
        answered = answer(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
        if answered.fault == "hang":
            await asyncio.sleep(timeouts.first_byte)
            raise ReplyBroken("demo: hung", sent=True)
        return DemoReply(answered)


class DemoReply:
    def __init__(self, answered: Answered) -> None:
        self.status = answered.status
        self.headers = {"content-type": answered.content_type, **answered.headers}
        self._answered = answered

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in misbehaving(self._answered):
            yield piece

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        pass


async def misbehaving(answered: Answered) -> AsyncIterator[bytes]:
    """The pieces of an answer, with the fault that was asked for."""
    pieces = answered.pieces
    for index, piece in enumerate(pieces):
        if answered.fault == "cut" and index >= len(pieces) // 2:
            raise ReplyBroken("demo: cut", sent=True)
        if answered.fault == "malformed" and index == len(pieces) // 2:
            yield b"data: {broken\n\n"
        if answered.fault == "slow":
            await asyncio.sleep(0.05)
        if answered.fault == "empty":
            return
        yield piece
        await asyncio.sleep(0)
