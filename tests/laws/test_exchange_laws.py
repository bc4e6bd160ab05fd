"""Laws of whole exchanges, over every pair of protocols."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Message,
    Reasoning,
    Request,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
    Wire,
)
from dragoman.framing import sse
from dragoman.pipeline import TranslatedStream
from dragoman.protocols import codec, names
from laws import meaning
from laws.strategies import requests, responses, words
from spoken import SPOKEN, echoed

few = settings(max_examples=12)  # of each pair: there are twelve
PAIRS = [(a, b) for a, b in product(names(), names()) if a != b]
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])


def plain(value: Any) -> Any:
    return jsontext.decode(jsontext.encode(value))


def request_wire(name: str, request: Request) -> Wire:
    return plain(codec(name).encode_request(request, Losses()))


def response_wire(name: str, response: Response) -> Wire:
    return plain(codec(name).encode_response(response, Losses()))


def stream_wire(name: str, response: Response) -> list[bytes]:
    encoder, printer = codec(name).stream_encoder(Losses()), sse.Encoder()
    frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
    return [piece for frame in [*frames, *encoder.close()] for piece in printer.feed(frame)]


def translated(client: str, upstream: str, pieces: list[bytes]) -> bytes:
    stream = dragoman.Exchange(client, upstream, reply_created=1).stream()
    return b"".join(stream.feed(piece) for piece in pieces) + stream.close()


@every_pair
@few
@given(request=requests())
def test_a_request_means_the_same_there_and_back(client: str, upstream: str, request: Request) -> None:
    wire = request_wire(client, request)
    there = dragoman.Exchange(client, upstream).request(wire, model="some-model")
    back = dragoman.Exchange(upstream, client).request(plain(there), model="some-model")
    expected = meaning.of_request(codec(client).decode_request(wire, Losses()))
    assert meaning.of_request(codec(upstream).decode_request(plain(there), Losses())) == expected
    assert meaning.of_request(codec(client).decode_request(plain(back), Losses())) == expected


@every_pair
@few
@given(response=responses())
def test_a_response_means_the_same(client: str, upstream: str, response: Response) -> None:
    wire = response_wire(upstream, response)
    out = plain(dragoman.Exchange(client, upstream).response(wire))
    expected = meaning.of_response(codec(upstream).decode_response(wire, Losses()))
    assert meaning.of_response(codec(client).decode_response(out, Losses())) == expected


@every_pair
@few
@given(response=responses())
def test_a_streamed_response_means_the_same(client: str, upstream: str, response: Response) -> None:
    """A source that comes after the end of its text is reported, by the exchange or the client's decoder."""
    wire, losses = response_wire(upstream, response), Losses()
    exchange = dragoman.Exchange(client, upstream)
    stream = exchange.stream()
    out = b"".join(map(stream.feed, stream_wire(upstream, response))) + stream.close()
    seen = meaning.of_response(codec(client).decode_response(plain(folded(client, out, losses)), losses))
    expected = meaning.of_response(codec(upstream).decode_response(wire, Losses()))
    if [*exchange.losses, *losses]:
        del seen["citations"], expected["citations"]
    assert seen == expected


@every_pair
@few
@given(response=responses(), data=st.data())
def test_where_bytes_are_cut_does_not_matter(
    client: str, upstream: str, response: Response, data: st.DataObject
) -> None:
    whole = b"".join(stream_wire(upstream, response))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert translated(client, upstream, pieces) == translated(client, upstream, [whole])


@every_pair
def test_byte_by_byte(client: str, upstream: str) -> None:
    response = Response(
        "r", "m", (Text("Zürich 🌍"), ToolCall("call_1", "f", '{"a":"ü"}')), Stop("tool_calls"), Usage(1, 2)
    )
    whole = b"".join(stream_wire(upstream, response))
    assert translated(client, upstream, [bytes([byte]) for byte in whole]) == translated(
        client, upstream, [whole]
    )


@every_pair
@few
@given(response=responses())
def test_G14_a_stream_cut_anywhere_fails_in_the_clients_protocol(
    client: str, upstream: str, response: Response
) -> None:
    pieces = stream_wire(upstream, response)
    for count in range(len(pieces)):
        stream = dragoman.Exchange(client, upstream).stream()
        assert isinstance(stream, TranslatedStream)
        out = b"".join(stream.feed(piece) for piece in pieces[:count]) + stream.close()
        grammar, frames = codec(client).grammar(), sse.Decoder()
        for frame in [*frames.feed(out), *frames.close()]:
            list(grammar.feed(frame))
        list(grammar.close())
        if stream.failure is None:
            assert END_BEFORE_DONE[upstream] in b"".join(pieces[:count])


# What ends a stream; a `[DONE]` that is cut off behind it says nothing new
END_BEFORE_DONE = {"openai-chat": b'"finish_reason":"', "gemini-interactions": b"interaction.completed"}

# Opaque state

SIGNATURES = {
    "anthropic": "EqoBCkgIBxABGAIiQL+/opaque==",
    "gemini": "CpwBAdHtim+/9k==",
    "openai-responses": "gAAAAABopaque-_x=",
    "gemini-interactions": "CpwBAdHtim-_9k==",
}
STATEFUL = [(client, upstream) for client, upstream in PAIRS if upstream in SIGNATURES]
every_stateful_pair = pytest.mark.parametrize(
    "client, upstream", STATEFUL, ids=[f"{a}-{b}" for a, b in STATEFUL]
)


def signed_response(upstream: str) -> Response:
    """A reply with the state that this upstream really attaches, and where it attaches it."""
    state = State(upstream, SIGNATURES[upstream], "rs_1" if upstream == "openai-responses" else "")
    call = ToolCall("call_1", "f", '{"a":1}')
    if upstream == "gemini":
        return Response(
            "r1", "m", (Reasoning("hm"), replace(call, state=state)), Stop("tool_calls"), Usage(1, 1)
        )
    return Response("r1", "m", (Reasoning("hm", state=state), call), Stop("tool_calls"), Usage(1, 1))


def echo(client: str, reply: Wire, results: list[Wire], tools: list[Any]) -> Wire:
    """The next request of an agent: everything it got, as it got it, and the results."""
    first = SPOKEN[client].says("go")
    return {"model": "m", codec(client).turns: [first, *echoed(client, reply), *results], "tools": tools}


def all_states(request: Request) -> list[str]:
    return [part.state.data for message in request.messages for part in message.parts if part.state]


def round_trip(client: str, upstream: str, next_upstream: str, streamed: bool) -> Request:
    """What the next upstream hears after one turn with `upstream`."""
    original = Request(
        "m",
        (Message("user", (Text("go"),)),),
        tools=(ToolDeclaration("f", "d", {"type": "object", "properties": {}}),),
    )
    wire = request_wire(client, original)
    exchange = dragoman.Exchange(client, upstream)
    exchange.request(wire, model="m")
    reply = exchange.response(response_wire(upstream, signed_response(upstream)))
    if streamed:
        stream = exchange.stream()
        out = b"".join(map(stream.feed, stream_wire(upstream, signed_response(upstream)))) + stream.close()
        reply = folded(client, out)
    calls = dragoman.parse_tool_calls(plain(reply), client)
    results = dragoman.build_tool_results(calls, ["ok"], client)
    following = dragoman.Exchange(client, next_upstream).request(
        plain(echo(client, reply, results, wire["tools"])), model="m"
    )
    return codec(next_upstream).decode_request(plain(following), Losses())


def folded(client: str, out: bytes, losses: Losses | None = None) -> Wire:
    """The whole reply that a streaming client of this protocol puts together."""
    frames, decoder = sse.Decoder(), codec(client).stream_decoder(Losses() if losses is None else losses)
    events = [event for frame in [*frames.feed(out), *frames.close()] for event in decoder.feed(frame)]
    return codec(client).encode_response(fold([*events, *decoder.close()]), Losses())


@every_stateful_pair
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G97_state_returns_to_its_origin_byte_for_byte(client: str, upstream: str, streamed: bool) -> None:
    assert all_states(round_trip(client, upstream, upstream, streamed)) == [SIGNATURES[upstream]]


@every_stateful_pair
def test_G100_state_is_never_sent_to_another_origin(client: str, upstream: str) -> None:
    for other in names():
        if other not in (client, upstream):
            request = round_trip(client, upstream, other, streamed=False)
            assert not {SIGNATURES[upstream]} & set(all_states(request))
            body = jsontext.dumps(codec(other).encode_request(request, Losses()))
            assert SIGNATURES[upstream] not in body
            assert "ZHJhZ29t" not in body


@every_stateful_pair
def test_G100_nor_to_the_clients_own_protocol(client: str, upstream: str) -> None:
    request = round_trip(client, upstream, client, streamed=False)
    body = jsontext.dumps(codec(client).encode_request(request, Losses()))
    assert "ZHJhZ29t" not in body
    assert SIGNATURES[upstream] not in body


# Names and ids


@every_pair
@few
@given(name=words)
def test_G85_any_tool_name_is_restored_in_the_call(client: str, upstream: str, name: str) -> None:
    original = Request(
        "m",
        (Message("user", (Text("go"),)),),
        tools=(ToolDeclaration(name, "d", {"type": "object", "properties": {}}),),
    )
    exchange = dragoman.Exchange(client, upstream)
    sent = codec(upstream).decode_request(
        plain(exchange.request(request_wire(client, original), model="m")), Losses()
    )
    (tool,) = sent.tools
    assert isinstance(tool, ToolDeclaration)
    reply = Response("r", "m", (ToolCall("call_1", tool.name, "{}"),), Stop("tool_calls"), Usage())
    (call,) = dragoman.parse_tool_calls(plain(exchange.response(response_wire(upstream, reply))), client)
    assert call.name == name
