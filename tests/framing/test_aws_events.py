"""AWS event stream messages, byte by byte and whole. The vectors were checked with botocore 1.44."""

from __future__ import annotations

from binascii import crc32
from struct import pack

import pytest

from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.framing.aws_events import AWS_CHUNKS, ChunkDecoder, ChunkEncoder, Decoder, Encoder, message

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
ERROR = message({":message-type": "error", ":error-code": "Busy", ":error-message": "later"}, b"")
CASES: dict[str, tuple[bytes, Frame]] = {
    "an event of Claude": (STOP, Frame("", b'{"type":"message_stop"}')),
    "an event of Converse": (
        DELTA,
        Frame("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}'),
    ),
    "an exception": (EXCEPTION, Frame("throttlingException", b'{"message":"slow down"}')),
    "an error": (ERROR, Frame("error", b'{"code":"Busy","message":"later"}')),
    "the keep-alive": (AWS_CHUNKS.keep_alive, Frame("", b'{"type":"ping"}')),
}


@pytest.mark.parametrize("data, frame", CASES.values(), ids=CASES)
def test_a_message(data: bytes, frame: Frame) -> None:
    assert ChunkDecoder().feed(data * 2) == [frame, frame]
    decoder = ChunkDecoder()
    assert [found for i in range(len(data)) for found in decoder.feed(data[i : i + 1])] == [frame]
    assert ChunkDecoder().feed(data[:-1]) == []


def test_a_chunk_is_opened_only_where_chunks_are_expected() -> None:
    assert Decoder().feed(STOP) == [Frame("chunk", b'{"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="}')]


def test_what_is_written() -> None:
    assert ChunkEncoder().feed(Frame("message_stop", {"type": "message_stop"})) == (STOP,)
    assert ChunkEncoder().feed(Frame("", b'{"type":"message_stop"}')) == (STOP,)
    frame = Frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
    assert Encoder().feed(frame) == (DELTA,)
    refused = Frame("throttlingException", b'{"message":"slow down"}')
    assert Decoder().feed(Encoder().feed(refused)[0]) == [refused]


def chunk(payload: bytes) -> bytes:
    return message({":event-type": "chunk", ":message-type": "event"}, payload)


def raw(block: bytes) -> bytes:
    """A message with this block of headers."""
    prelude = pack("!II", 16 + len(block), len(block))
    body = prelude + pack("!I", crc32(prelude)) + block
    return body + pack("!I", crc32(body))


def test_headers_of_other_types_are_passed_over() -> None:
    numbers = b"\x01a\x00\x01b\x05" + bytes(8) + b"\x01c\x06\x00\x02\xff\xff"  # true, a long, bytes
    name = b"\x0b:event-type\x07\x00\x01x"
    assert Decoder().feed(raw(numbers + name)) == [Frame("x", b"")]


BROKEN = {
    "a wrong checksum of the lengths": b"\0\0\0\x20" + STOP[4:],
    "a wrong checksum": STOP[:-1] + b"\0",
    "text": b"data: {}\n\ndata: {}\n\n",
    "no base64": chunk(b'{"bytes":"?"}'),
    "half a header": raw(b"\x01a\x07\x00"),
    "a header of an unknown type": raw(b"\x01a\x0a"),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(WireError):
        ChunkDecoder().feed(data)
