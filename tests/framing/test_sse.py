"""Server-sent events: the whole grammar, any cut of the bytes, and cost that grows with their number."""

import sys
from types import FrameType
from typing import Any

import pytest

from dragoman.core.codec import Frame
from dragoman.framing.sse import Decoder, Encoder, bounds, last_event_end

# G23: name: (bytes, frames)
CASES = {
    "nothing": (b"", []),
    "one event": (b"data: a\n\n", [Frame("", b"a")]),
    "a named event": (b"event: x\ndata: a\n\n", [Frame("x", b"a")]),
    "the name behind the data": (b"data: a\nevent: x\n\n", [Frame("x", b"a")]),
    "the last name counts": (b"event: x\nevent: y\ndata: a\n\n", [Frame("y", b"a")]),
    "a name ends with its event": (b"event: x\ndata: a\n\ndata: b\n\n", [Frame("x", b"a"), Frame("", b"b")]),
    "a name without data is no event": (b"event: x\n\ndata: b\n\n", [Frame("", b"b")]),
    "CR": (b"event: x\rdata: a\r\rdata: b\r\r", [Frame("x", b"a"), Frame("", b"b")]),
    "CRLF": (b"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [Frame("x", b"a"), Frame("", b"b")]),
    "all line ends mixed": (
        b"data: a\r\n\rdata: b\n\r\ndata: c\r\n\n",
        [Frame("", b"a"), Frame("", b"b"), Frame("", b"c")],
    ),
    "CR between lines that LF ends": (
        b"data: a\n\ndata: b\rdata: c\n\n",
        [Frame("", b"a"), Frame("", b"b\nc")],
    ),
    "no space after the colon": (b"event:x\ndata:a\n\n", [Frame("x", b"a")]),
    "only one space is framing": (b"event:  x\ndata:  a \n\n", [Frame(" x", b" a ")]),
    "several data lines are one": (b"data: a\ndata:\ndata: c\n\n", [Frame("", b"a\n\nc")]),
    "JSON over two lines": (b'data: {"a":\ndata: 1}\n\n', [Frame("", b'{"a":\n1}')]),
    "empty data": (b"data:\n\n", [Frame("", b"")]),
    "data without a colon": (b"data\n\n", [Frame("", b"")]),
    "data without a colon, twice": (b"data\ndata\n\n", [Frame("", b"\n")]),
    "comments": (b": hello\ndata: a\n:\n: data: no\n\n:\n\n", [Frame("", b"a")]),
    "other fields": (b"id: 1\nretry: 9\nfoo: x\ndataset: y\ndata: a\n\n", [Frame("", b"a")]),
    "leading space is another field": (b" data: no\ndata: a\n\n", [Frame("", b"a")]),
    "many blank lines": (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [Frame("", b"a"), Frame("", b"b")]),
    "BOM": (b"\xef\xbb\xbfdata: a\n\n", [Frame("", b"a")]),
    "BOM before a comment": (b"\xef\xbb\xbf:\n\ndata: a\n\n", [Frame("", b"a")]),
    "a BOM counts at the start only": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Frame("", b"a")]),
    "a BOM inside is text": (b"data: \xef\xbb\xbfa\n\n", [Frame("", b"\xef\xbb\xbfa")]),
    "U+2028 ends no line": (
        "data: a\u2028b\u2029c\x85d\x0be\n\n".encode(),
        [Frame("", "a\u2028b\u2029c\x85d\x0be".encode())],
    ),
    "G22 characters of many bytes": ("data: é→😀\n\n".encode(), [Frame("", "é→😀".encode())]),
    "bytes that are no text": (b"event: \xff\ndata: \xff\n\n", [Frame("\ufffd", b"\xff")]),
    "colons inside": (b"data: a: b: c\n\n", [Frame("", b"a: b: c")]),
    "the blank line of the last event is missing": (
        b"data: a\n\ndata: b\n",
        [Frame("", b"a"), Frame("", b"b")],
    ),
    "the end of the last line is missing": (b"data: a\n\ndata: b", [Frame("", b"a"), Frame("", b"b")]),
    "the end is half a line end": (b"data: a\r\n\r\ndata: b\r", [Frame("", b"a"), Frame("", b"b")]),
    "the end is inside a name": (b"data: a\n\neven", [Frame("", b"a")]),
    "only a carriage return": (b"\r", []),
}


def frames(*pieces: bytes) -> list[Frame]:
    decoder = Decoder()
    return [frame for piece in pieces for frame in decoder.feed(piece)] + list(decoder.close())


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_the_grammar(data: bytes, expected: list[Frame]) -> None:
    assert frames(data) == expected


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_where_bytes_are_cut_does_not_matter(data: bytes, expected: list[Frame]) -> None:
    assert frames(*(data[i : i + 1] for i in range(len(data)))) == expected
    for first in range(len(data) + 1):
        assert frames(data[:first], data[first:]) == expected
        assert frames(data[:first], b"", data[first : first + 2], data[first + 2 :]) == expected


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [Frame("", b"a")]
    assert decoder.feed(b"data: b\r\n\r\n") == [Frame("", b"b")]
    assert decoder.close() == []


# name: (a piece, what comes before all pieces, what comes after them)
STREAMS = {
    "many events": (b"event: x\ndata: hello\n\n", b"", b""),
    "one long line in many pieces": (b"x" * 20, b"data: ", b"\n\n"),
    "one event of many lines": (b"data: x\n", b"", b"\n"),
    "line ends that may be half": (b"data: x\r", b"", b"\r\r"),
    "a comment without end": (b": x", b"", b"\n\n"),
    "lines and halves of lines": (b"a\ndata: ", b"data: ", b"\n\n"),
}


@pytest.mark.parametrize(("piece", "before", "after"), STREAMS.values(), ids=STREAMS)
def test_cost_grows_with_the_bytes_and_no_faster(piece: bytes, before: bytes, after: bytes) -> None:
    once, twice = (work([before, *[piece] * count, after]) for count in (400, 800))
    assert once > 400 * len(piece) / 2
    assert twice < 2.2 * once


def work(pieces: list[bytes]) -> int:
    """Bytes that the decoder's methods look at or copy, counted call by call."""
    done = 0

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal done
        if event == "c_call" and isinstance(held := getattr(called, "__self__", None), bytes):
            within = frame.f_locals
            joined = called.__name__ == "join"
            pieces = (within["lines"] if held else within["self"]._pieces) if joined else [held]
            done += sum(map(len, pieces))

    decoder = Decoder()
    sys.setprofile(count)
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.close()
    finally:
        sys.setprofile(None)
    return done


BOUNDS = {
    "the only one": (b"@", b"@"),
    "the first": (b"a@\n\nb\n\n", b"a@\n\n"),
    "between": (b"a\n\nb\n@\n\nc\n\n", b"b\n@\n\n"),
    "the last, cut": (b"a\n\nb@", b"b@"),
    "CRLF": (b"a\r\n\r\nb@\r\n\r\nc\r\n\r\n", b"b@\r\n\r\n"),
    "CR": (b"a\r\rb@\r\rc\r\r", b"b@\r\r"),
    "several ends of lines: all": (b"a\n\nb@\r\n\nc\n\n", b"a\n\nb@\r\n\nc\n\n"),
}


@pytest.mark.parametrize("data, event", BOUNDS.values(), ids=BOUNDS)
def test_the_event_around_a_byte(data: bytes, event: bytes) -> None:
    start, end = bounds(data, data.index(b"@"))
    assert data[start:end] == event


LAST = {
    b"": 0,
    b"a": 0,
    b"a\n": 0,
    b"a\n\n": 3,
    b"a\n\nb": 3,
    b"a\r\n\r\nb": 5,
    b"a\r\rb\n\nc": 6,
    b"a\r\r": 3,
}


@pytest.mark.parametrize("data, end", LAST.items())
def test_the_end_of_the_last_whole_event(data: bytes, end: int) -> None:
    assert last_event_end(data) == end


PRINTED = {
    "a value": (Frame("x", {"a": 1}), b'event: x\ndata: {"a":1}\n\n'),
    "bytes": (Frame("", b"[DONE]"), b"data: [DONE]\n\n"),
    "letters that are not ASCII": (Frame("", {"a": "é🌍"}), 'data: {"a":"é🌍"}\n\n'.encode()),
    "letters at which google-genai cuts lines": (
        Frame("", {"a": "é\u2028\u2029\u0085"}),
        'data: {"a":"é\\u2028\\u2029\\u0085"}\n\n'.encode(),
    ),
}


@pytest.mark.parametrize(("frame", "data"), PRINTED.values(), ids=PRINTED)
def test_printing(frame: Frame, data: bytes) -> None:
    assert b"".join(Encoder().feed(frame)) == data
    (back,) = frames(data)
    assert back.event == frame.event
