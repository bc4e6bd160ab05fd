"""Each framing carries the stream of each codec, wherever the network cuts it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing
from dragoman.core.events import Event, ResponseEnd, ResponseFailed, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Reasoning, Response, Stop, Text, ToolCall, Usage
from dragoman.framing.aws_events import AWS_CHUNKS, AWS_EVENTS
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.framing.sse import SSE
from dragoman.pipeline import EventReader
from dragoman.protocols import names, protocol
from dragoman.serving.protocol import Protocol
from protocols.registered import registered

FRAMINGS = {"sse": SSE, "array": JSON_ARRAY, "aws events": AWS_EVENTS, "aws chunks": AWS_CHUNKS}
CASES = [
    pytest.param(protocol(name), FRAMINGS[framing], id=f"{name}, {framing}")
    for name, framing in product(names(), FRAMINGS)
]
REPLY = Response(
    "id-1",
    "m",
    (Reasoning("thinks…"), Text('é→😀 \u2028 {["x\\'), ToolCall("call_1", "f", '{"a":"}]"}')),
    Stop("tool_calls"),
    Usage(7, 3),
)


def frames_of(spoken: Protocol, framing: Framing) -> list[Frame]:
    encoder = spoken.codec.stream_encoder(Losses())
    frames = [frame for event in unfold(REPLY) for frame in encoder.feed(event)]
    frames += encoder.close()
    # an array holds objects alone
    return [frame for frame in frames if framing is not JSON_ARRAY or frame.data != b"[DONE]"]


def framed(frames: Sequence[Frame], framing: Framing) -> bytes:
    encoder = framing.encoder()
    return b"".join([*(piece for frame in frames for piece in encoder.feed(frame)), *encoder.close()])


def events_of(spoken: Protocol, framing: Framing, pieces: list[bytes]) -> list[Event]:
    reader = EventReader(replace(spoken, framing=framing), [], Losses())
    return [*(event for piece in pieces for event in reader.feed(piece)), *reader.close()]


def cuts(data: bytes) -> Iterator[list[bytes]]:
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


@pytest.mark.parametrize("spoken, framing", CASES)
def test_every_framing_carries_every_codec_at_every_cut(spoken: Protocol, framing: Framing) -> None:
    data = framed(frames_of(spoken, framing), framing)
    whole = events_of(spoken, framing, [data])
    assert whole == events_of(spoken, SSE, [framed(frames_of(spoken, SSE), SSE)])
    assert isinstance(whole[-1], ResponseEnd)
    for pieces in cuts(data):
        assert events_of(spoken, framing, pieces) == whole


@pytest.mark.parametrize("spoken, framing", CASES)
def test_decoded_data_is_bytes_and_can_be_framed_again(spoken: Protocol, framing: Framing) -> None:
    """Also where it is printed over several lines, as Google's servers print."""
    for frame in framing.decoder().feed(framed(frames_of(spoken, framing), framing)):
        assert type(frame.data) is bytes
        if frame.data == b"[DONE]":
            continue
        pretty = Frame(frame.event, json.dumps(jsontext.decode(frame.data), indent=2).encode())
        for other in FRAMINGS.values():
            (again,) = other.decoder().feed(framed([pretty], other))
            assert jsontext.decode(again.data) == jsontext.decode(frame.data)


@pytest.mark.parametrize("framing", [AWS_EVENTS, AWS_CHUNKS], ids=["aws events", "aws chunks"])
def test_one_wrong_bit_of_a_binary_stream_is_found(framing: Framing) -> None:
    spoken = protocol("anthropic")
    data = framed(frames_of(spoken, framing)[:3], framing)
    for at in range(len(data)):
        events = events_of(spoken, framing, [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]])
        assert isinstance(events[-1], ResponseFailed)


@pytest.mark.parametrize("client", names())
@pytest.mark.parametrize("framing", [AWS_EVENTS, AWS_CHUNKS], ids=["aws events", "aws chunks"])
def test_a_protocol_with_binary_frames(client: str, framing: Framing) -> None:
    """One that is Anthropic's but for its frames: an Exchange translates it whole and at every cut."""
    anthropic = protocol("anthropic")
    binary = replace(anthropic, codec=replace(anthropic.codec, name="binary"), framing=framing)
    data = framed(frames_of(anthropic, framing), framing)
    with registered("binary", binary):
        whole = streamed(client, [data])
        assert "thinks" in whole
        assert "😀" in whole
        for pieces in cuts(data):
            assert streamed(client, pieces) == whole


def streamed(client: str, pieces: list[bytes]) -> str:
    exchange = dragoman.Exchange(client, "binary", reply_created=1)
    stream = exchange.stream()
    out = b"".join([stream.feed(piece) for piece in pieces]) + stream.close()
    assert stream.failure is None
    return out.decode()
