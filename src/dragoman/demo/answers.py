"""A request on the wire of any protocol -> the scripted model's answer on the same wire.

Nothing here touches a socket: `ScriptedAnswer` is what to send, with the fault to commit on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec, Framing
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, PartStart, ResponseFailed, ResponseStart, unfold
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request, Response, Wire
from dragoman.core.token_estimate import estimate_tokens
from dragoman.demo import textual
from dragoman.demo.faults import STATUS, Fault, Memory, fault_of
from dragoman.demo.script import reply
from dragoman.protocols import names, routes, upstream_names
from dragoman.protocols import protocol as protocol_of
from dragoman.protocols import server as server_of
from dragoman.protocols import upstream as codec_of
from dragoman.serving.routes import RouteMatch, RouteTable
from dragoman.serving.server import ListedModel, ProtocolServer

MODEL = "demo"


class ScriptedAnswer(Struct, frozen=True):
    """`pieces` are sent one by one, so that a stream is a stream."""

    status: int
    content_type: str
    pieces: tuple[bytes, ...]
    fault: Fault | None = None
    headers: dict[str, str] = {}


def answer(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes, memory: Memory
) -> ScriptedAnswer:
    """The path and the headers say which protocol a request speaks."""
    found = _routes().find(method, path, query, headers)
    if found and found[0].action not in ("websocket", "forward"):
        return _handle(found[1], found[0], body, memory)
    for pattern, name, stream in _upstream_paths() if method == "POST" else ():
        if asked := pattern.search(path):
            model = unquote(asked["model"])
            return _handle(name, RouteMatch("generate", model, stream), body, memory)
    return ScriptedAnswer(404, "application/json", (b'{"error":{"message":"demo: no such path"}}',))


def refuse_key(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> ScriptedAnswer:
    """The answer to a wrong key, in the protocol of the path."""
    found = _routes().find(method, path, query, headers)
    return _fail(codec_of(found[1] if found else names()[0]), STATUS["401"])


@cache
def _routes() -> RouteTable[str]:
    return RouteTable(routes())


@cache
def _upstream_paths() -> list[tuple[re.Pattern[str], str, bool]]:
    """Of protocols that only upstreams speak and whose paths name the model: behind any base URL."""
    found: list[tuple[re.Pattern[str], str, bool]] = []
    for name in sorted({*upstream_names()} - {*names()}):
        http = codec_of(name).http
        for stream in (False, True) if not http.model_in_body else ():
            path = re.escape(http.path("MODEL", stream).partition("?")[0])
            found.append((re.compile(path.replace("MODEL", "(?P<model>[^/]+)") + "$"), name, stream))
    return found


def _handle(name: str, route: RouteMatch, body: bytes, memory: Memory) -> ScriptedAnswer:
    codec, protocol_server = codec_of(name), server_of(name)
    match route.action:
        case "models":
            return _json(protocol_server.encode_models((ListedModel(MODEL),)))
        case "model":
            return _json(protocol_server.encode_model(ListedModel(route.model)))
        case "retrieve" | "delete" | "items" if protocol_server.turn_codec:
            return _fail(codec, protocol_server.turn_codec.unknown_item(route.id))
        case _:
            pass
    try:
        wire = read_body(body, name)
        if refusal := _refuse_stored(protocol_server, route, wire):
            return _fail(codec, refusal)
        if route.action == "count":
            return _json(protocol_server.encode_count(estimate_tokens(_request(codec, wire))))
        for field in protocol_server.required:
            if wire.get(field) in (None, [], "") and not (route.model and field == "model"):  # of the URL
                raise WireError(name, field, "field required")
        request = _request(codec, wire)
        request = replace(request, model=route.model) if route.model else request
        if not request.messages:
            return _fail(codec, Failure("bad_request", f"{codec.turns}: expected at least one message", 400))
        return _generate(codec, route, request, memory)
    except WireError as error:
        return _fail(codec, Failure("bad_request", str(error), 400))


def _refuse_stored(protocol_server: ProtocolServer, route: RouteMatch, wire: Wire) -> Failure | None:
    """The failure for a request that continues a stored conversation: the demo stores none."""
    storage = protocol_server.turn_codec.decode_storage(wire) if protocol_server.turn_codec else None
    if protocol_server.turn_codec and storage and storage.previous_id:
        return protocol_server.turn_codec.unknown_conversation(storage.previous_id)
    return None


def _request(codec: Codec, wire: Wire) -> Request:
    return codec.decode_request(wire, Losses())


def _generate(codec: Codec, route: RouteMatch, request: Request, memory: Memory) -> ScriptedAnswer:
    fault = fault_of(request)
    if fault and not memory.still_fails(fault):
        fault = None
    if fault and fault.name in STATUS:
        return _fail(codec, STATUS[fault.name])
    if fault and fault.name == "garbage":
        return ScriptedAnswer(200, "text/html", (b"<html><body>Welcome to nginx!</body></html>",))
    response = _reply(codec, request, memory)
    if isinstance(response, Failure):
        return _fail(codec, response)
    if fault and fault.name == "leak":
        response = textual.leak(response)
    if not (request.stream if route.stream is None else route.stream):
        return _whole(codec, request, response, fault)
    framing = route.framing or protocol_of(codec.name).framing
    return ScriptedAnswer(
        200,
        framing.content_type or codec.http.stream_type,
        tuple(_stream(codec, framing, request, response, fault)),
        fault,
    )


def _reply(codec: Codec, request: Request, memory: Memory) -> Response | Failure:
    """What the model says, as text where its prompt says how to write calls."""
    rendered = textual.read(request)
    response = reply(rendered.request if rendered else request, codec.name)
    if isinstance(response, Failure):
        return response
    response = _set_ids(response, memory.count(response.id))
    return textual.write(response, rendered) if rendered else response


def _set_ids(response: Response, times: int) -> Response:
    """With ids that no other reply has, nor an item of one: stores find items by them."""
    id = f"{response.id}-{times}" if times > 1 else response.id
    parts = [
        replace(part, state=replace(part.state, id=f"rs_{id}")) if part.state and part.state.id else part
        for part in response.parts
    ]
    return replace(response, id=id, parts=tuple(parts))


def _whole(codec: Codec, request: Request, response: Response, fault: Fault | None) -> ScriptedAnswer:
    if fault and fault.name == "fail":
        return _fail(codec, STATUS["529"])
    encoded = jsontext.encode(codec.encode_response(response, Losses(), request))
    middle = len(encoded) // 2
    return ScriptedAnswer(200, "application/json", (encoded[:middle], encoded[middle:]), fault)


def _json(value: Wire) -> ScriptedAnswer:
    return ScriptedAnswer(200, "application/json", (jsontext.encode(value),))


def _fail(codec: Codec, failure: Failure) -> ScriptedAnswer:
    _, body = codec.encode_error(failure)
    headers = {} if failure.retry_after is None else {"retry-after-ms": str(int(failure.retry_after * 1000))}
    return ScriptedAnswer(failure.status, "application/json", (jsontext.encode(body),), headers=headers)


def _stream(
    codec: Codec, framing: Framing, request: Request, response: Response, fault: Fault | None
) -> Iterator[bytes]:
    """Word by word, as real ones stream."""
    encoder = codec.stream_encoder(Losses(), request)
    framer = framing.encoder()
    for event in _failing(unfold(response)) if fault and fault.name == "fail" else unfold(response):
        for small in _in_words(event):
            for frame in encoder.feed(small):
                yield from framer.feed(frame)
    for frame in encoder.close():
        yield from framer.feed(frame)
    yield from framer.close()


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
