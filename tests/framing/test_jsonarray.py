"""Streamed JSON arrays: however the bytes are cut, the same objects come out."""

import json
import time

import pytest

from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.framing.jsonarray import Decoder, Encoder

ONE, TWO = b'{"a":1}', b'{"b":{"c":[2,{"d":3}]}}'
TRICKY = '{"t":"}{][\\" \\\\","u":"\\u007d é 😀","e":[]}'.encode()

WHOLE = {
    "one object": (b"[" + ONE + b"]", [ONE]),
    "Google's spacing": (b"[" + ONE + b",\r\n" + TWO + b"\r\n]\r\n", [ONE, TWO]),
    "no spacing": (b"[" + ONE + b"," + TWO + b"]", [ONE, TWO]),
    "a line each": (b"[\n" + ONE + b"\n,\n" + TWO + b"\n]", [ONE, TWO]),
    "brackets, quotes and escapes in strings": (b"[" + TRICKY + b", " + ONE + b"]", [TRICKY, ONE]),
    "ends in an escaped backslash": (
        b'[{"a":"\\\\"},{"b":"\\\\\\""}]',
        [b'{"a":"\\\\"}', b'{"b":"\\\\\\""}'],
    ),
    "spaces inside": (b'[ { "a" : [ 1 , 2 ] } ]', [b'{ "a" : [ 1 , 2 ] }']),
    "a bare object": (b" " + TWO + b"\n", [TWO]),
    "an error in an array": (b'[{"error":{"code":400}}]', [b'{"error":{"code":400}}']),
    "byte order mark": (b"\xef\xbb\xbf[" + ONE + b"]", [ONE]),
    "empty array": (b"[ ]", []),
    "nothing": (b"", []),
    "white space": (b" \r\n", []),
}


def decode(*pieces: bytes) -> list[bytes]:
    decoder = Decoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)] + list(decoder.close())
    assert all(frame.event == "" for frame in frames)
    return [frame.data for frame in frames]


@pytest.mark.parametrize("body, objects", WHOLE.values(), ids=WHOLE)
def test_whole(body: bytes, objects: list[bytes]):
    assert decode(body) == objects


@pytest.mark.parametrize("body, objects", WHOLE.values(), ids=WHOLE)
def test_cut_at_every_byte(body: bytes, objects: list[bytes]):
    for cut in range(len(body) + 1):
        assert decode(body[:cut], body[cut:]) == objects
    assert decode(*(body[i : i + 1] for i in range(len(body)))) == objects


CUT = {
    "inside the first object": (b'[{"a":1', []),
    "inside a string": (b'[{"a":1},{"b":"x', [b'{"a":1}']),
    "after an escape": (b'[{"a":"\\', []),
    "after a comma": (b'[{"a":1},', [b'{"a":1}']),
    "before the end of the array": (b'[{"a":1}', [b'{"a":1}']),
    "bare": (b'{"a":', []),
}


@pytest.mark.parametrize("body, objects", CUT.values(), ids=CUT)
def test_truncated_yields_only_what_is_whole(body: bytes, objects: list[bytes]):
    assert decode(body) == objects


MALFORMED = {
    "text": (b"hello", "expected an array of objects, got 'h'"),
    "a number in the array": (b"[1]", "expected an object or the end of the array, got '1'"),
    "a string in the array": (b'[{},"x"]', "expected an object, got '\"'"),
    "an array in the array": (b"[[]]", "expected an object or the end of the array, got '['"),
    "no comma": (b"[{}{}]", "expected a comma or the end of the array, got '{'"),
    "two commas": (b"[{},,{}]", "expected an object, got ','"),
    "a comma before the end": (b"[{},]", "expected an object, got ']'"),
    "more after the end": (b"[{}]{}", "expected nothing more, got '{'"),
    "two bare objects": (b"{}\n{}", "expected nothing more, got '{'"),
    "server-sent events": (b"data: {}", "expected an array of objects, got 'd'"),
    "not text": (b"[\xff", "expected an object or the end of the array, got 'ÿ'"),
}


@pytest.mark.parametrize("body, problem", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: bytes, problem: str):
    for pieces in ([body], [body[i : i + 1] for i in range(len(body))]):
        with pytest.raises(WireError) as error:
            decode(*pieces)
        assert (error.value.protocol, error.value.path, error.value.problem) == ("gemini", "stream", problem)


def test_encoder_and_back():
    frames = [Frame("", {"a": "é"}), Frame("", TRICKY), Frame("", {})]
    encoder = Encoder()
    body = b"".join([piece for frame in frames for piece in encoder.feed(frame)] + list(encoder.close()))
    assert body == '[{"a":"é"},\r\n'.encode() + TRICKY + b",\r\n{}]"
    assert json.loads(body)[0] == {"a": "é"}
    assert decode(body) == ['{"a":"é"}'.encode(), TRICKY, b"{}"]


def test_nothing_to_encode_is_an_empty_array():
    assert b"".join(Encoder().close()) == b"[]"


def test_linear_in_the_number_of_pieces():
    """A long string that trickles in must not be scanned again with every piece."""

    def cost(size: int) -> float:
        best = 10.0
        for _ in range(3):
            decoder, start = Decoder(), time.process_time()  # of this process: others may be busy
            decoder.feed(b'[{"t":"')
            for _ in range(size):
                decoder.feed(b"xxxxxxxxxx")
            assert len(decoder.feed(b'"}')) == 1
            best = min(best, time.process_time() - start)
        return best

    assert cost(40_000) < 40 * cost(4_000)
