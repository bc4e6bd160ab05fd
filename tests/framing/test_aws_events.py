"""AWS event stream messages, byte by byte and whole. The vectors were checked with botocore 1.44."""

from __future__ import annotations

import pytest

from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.framing.aws_events import AWS_EVENTS, Decoder, Encoder, message

STOP = bytes.fromhex(
    "000000870000004b87ea2bf30b3a6576656e742d747970650700056368756e6b0d3a636f6e74656e742d747970650700106170706c"
    "69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b226279746573223a2265794a306558426c49"
    "6a6f696257567a6332466e5a56397a64473977496e303d227dba48ab22"
)
DELTA = bytes.fromhex(
    "0000009400000057b4ab9aee0b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c74610d3a636f6e74656e74"
    "2d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22636f6e7465"
    "6e74426c6f636b496e646578223a302c2264656c7461223a7b2274657874223a224869227d7d1f944657"
)
EXCEPTION = message(
    {":message-type": "exception", ":exception-type": "throttlingException"}, b'{"message":"slow down"}'
)
CASES: dict[str, tuple[bytes, Frame]] = {
    "an event of Claude": (STOP, Frame("message_stop", {"type": "message_stop"})),
    "an event of Converse": (
        DELTA,
        Frame("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}'),
    ),
    "an exception": (
        EXCEPTION,
        Frame("error", {"type": "error", "error": {"type": "throttlingException", "message": "slow down"}}),
    ),
    "the keep-alive": (AWS_EVENTS.keep_alive, Frame("ping", {"type": "ping"})),
}


@pytest.mark.parametrize("data, frame", CASES.values(), ids=CASES)
def test_a_message(data: bytes, frame: Frame) -> None:
    assert Decoder().feed(data * 2) == [frame, frame]
    decoder = Decoder()
    assert [found for i in range(len(data)) for found in decoder.feed(data[i : i + 1])] == [frame]
    assert Decoder().feed(data[:-1]) == []


def test_what_is_written() -> None:
    assert Encoder().feed(Frame("message_stop", {"type": "message_stop"})) == (STOP,)
    assert Encoder().feed(Frame("", b'{"type":"message_stop"}')) == (STOP,)


def chunk(payload: bytes) -> bytes:
    return message({":event-type": "chunk", ":message-type": "event"}, payload)


BROKEN = {
    "a wrong checksum of the lengths": b"\0\0\0\x20" + STOP[4:],
    "a wrong checksum": STOP[:-1] + b"\0",
    "text": b"data: {}\n\ndata: {}\n\n",
    "no base64": chunk(b'{"bytes":"?"}'),
    "no JSON": chunk(b'{"bytes":"eA=="}'),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().feed(data)
