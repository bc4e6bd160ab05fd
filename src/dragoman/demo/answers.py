"""A request on the wire of any protocol -> the scripted model's answer on the same wire.

Nothing here touches a socket: `Answered` says what to send, and `Answered.fault` how to misbehave with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, PartStart, ResponseFailed, ResponseStart, unfold
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request, Response, Wire
from dragoman.core.server import ProtocolServer, RouteMatch
from dragoman.demo import textual
from dragoman.demo.faults import STATUS, Fault, Memory, fault_of
from dragoman.demo.script import reply, size_of
from dragoman.framing import jsonarray, sse
from dragoman.protocols import codec, names, server

MODEL = "demo"


class Answered(Struct, frozen=True):
    """`pieces` are sent one by one, so that a stream is a stream."""

    status: int
    content_type: str
    pieces: tuple[bytes, ...]
    fault: Fault | None = None
    headers: dict[str, str] = {}


def answer(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes, memory: Memory
) -> Answered:
    """The path tells which protocol a request speaks."""
    for name in names() if method == "POST" else reversed(names()):
        served = server(name).recognise(method, path, query, headers)
        if served:
            return _served(name, served, body, memory)
    return Answered(404, "application/json", (b'{"error":{"message":"demo: no such path"}}',))


def unauthorised(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Answered:
    """The answer to a wrong key, in the protocol of the path."""
    speaker = next(
        (name for name in names() if server(name).recognise(method, path, query, headers)), names()[0]
    )
    return _failed(codec(speaker), STATUS["401"])


def _served(name: str, served: RouteMatch, body: bytes, memory: Memory) -> Answered:
    speaker, serves = codec(name), server(name)
    match served.action:
        case "models":
            return _json(serves.encode_models((MODEL,)))
        case "model":
            return _json(serves.encode_model(served.model))
        case "retrieve" | "delete" | "items" if serves.kept:
            return _failed(speaker, serves.kept.absent(served.id))
        case _:
            pass
    try:
        wire = read_body(body, name)
        if refusal := _unkept(serves, served, wire):
            return _failed(speaker, refusal)
        if served.action == "count":
            return _json(serves.encode_count(size_of(_request(speaker, wire))))
        request = _request(speaker, wire)
        request = replace(request, model=served.model) if served.model else request
        return _generate(speaker, served, request, memory)
    except WireError as error:
        return _failed(speaker, Failure("bad_request", str(error), 400))


def _unkept(serves: ProtocolServer, served: RouteMatch, wire: Wire) -> Failure | None:
    """The demo keeps no conversations."""
    for field, code in serves.stateful.items():
        if wire.get(field):
            return Failure("bad_request", f"demo: {field} is not supported", 400, code)
    wish = serves.kept.wish(wire) if serves.kept else None
    return serves.kept.unknown(wish.continues) if serves.kept and wish and wish.continues else None


def _request(speaker: Codec, wire: Wire) -> Request:
    return speaker.decode_request(wire, Losses())


def _generate(speaker: Codec, served: RouteMatch, request: Request, memory: Memory) -> Answered:
    fault = fault_of(request)
    if fault and not memory.still_fails(fault):
        fault = None
    if fault and fault.name in STATUS:
        return _failed(speaker, STATUS[fault.name])
    rendered = textual.read(request)
    response = reply(rendered or request, speaker.name)
    if isinstance(response, Failure):
        return _failed(speaker, response)
    if rendered:
        response = textual.write(response)
    elif fault and fault.name == "leak":
        response = textual.leaked(response)
    if fault and fault.name == "garbage":
        return Answered(200, "text/html", (b"<html><body>Welcome to nginx!</body></html>",))
    if not (request.stream if served.stream is None else served.stream):
        return _whole(speaker, request, response, fault)
    return Answered(
        200, "text/event-stream", tuple(_stream(speaker, served, request, response, fault)), fault
    )


def _whole(speaker: Codec, request: Request, response: Response, fault: Fault | None) -> Answered:
    if fault and fault.name == "fail":
        return _failed(speaker, STATUS["529"])
    printed = jsontext.encode(speaker.encode_response(response, Losses(), request))
    middle = len(printed) // 2
    return Answered(200, "application/json", (printed[:middle], printed[middle:]), fault)


def _json(value: Wire) -> Answered:
    return Answered(200, "application/json", (jsontext.encode(value),))


def _failed(speaker: Codec, failure: Failure) -> Answered:
    _, body = speaker.encode_error(failure)
    headers = {} if failure.retry_after is None else {"retry-after-ms": str(int(failure.retry_after * 1000))}
    return Answered(failure.status, "application/json", (jsontext.encode(body),), headers=headers)


def _stream(
    speaker: Codec, served: RouteMatch, request: Request, response: Response, fault: Fault | None
) -> Iterator[bytes]:
    """Word by word, as real ones stream."""
    encoder = speaker.stream_encoder(Losses(), request)
    printer = jsonarray.Encoder() if served.array else sse.Encoder()
    for event in _failing(unfold(response)) if fault and fault.name == "fail" else unfold(response):
        for small in _in_words(event):
            for frame in encoder.feed(small):
                yield from printer.feed(frame)
    for frame in encoder.close():
        yield from printer.feed(frame)
    yield from printer.close()


def _failing(events: Iterable[Event]) -> Iterator[Event]:
    """The protocol's own error in place of the first words."""
    for event in events:
        if not isinstance(event, ResponseStart | PartStart):
            break
        yield event
    yield ResponseFailed(STATUS["529"])


def _in_words(event: Event) -> Iterable[Event]:
    if not isinstance(event, PartDelta) or not event.text:
        return (event,)
    words = event.text.split(" ")
    return [PartDelta(event.index, word if i == 0 else f" {word}") for i, word in enumerate(words)]
