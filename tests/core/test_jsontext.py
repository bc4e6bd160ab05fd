"""JSON in and out: what keeps its spelling, what is refused and with which words."""

from typing import Any

import msgspec
import pytest

from dragoman.core import jsontext

# Text that must come back as it was written, byte for byte
SAME = {
    "an object in its order": '{"b":1,"a":2}',
    "G68 a float keeps its zeros": '{"price":1.10}',
    "G68 a whole float stays one": "[10.0]",
    "G68 an exponent": "[1e5,1E5,1e-7]",
    "G68 too big for a float": "[1e400,-1e400]",
    "G68 a big integer": "[123456789012345678901234567890]",
    "G68 more digits than a float has": "[0.1000000000000000055511151231257827]",
    "minus zero": "[-0.0]",
    "G67 letters that are not ASCII": '["état","→","😀"]',
    "line separators are no line ends": '["a\u2028b\u2029c"]',
    "control characters": '["\\u0000\\n\\t"]',
    "scalars": '[null,true,false,"",0]',
    "empty": '{"a":{},"b":[]}',
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_a_text_comes_back_as_it_was_written(text: str) -> None:
    assert jsontext.dumps(jsontext.decode(text)) == text
    assert jsontext.encode(jsontext.decode(text.encode())) == text.encode()


def test_a_number_that_remembers_its_spelling_counts_as_a_number() -> None:
    assert jsontext.decode("[1.10]") == [1.1]
    assert type(jsontext.decode("[1.5]")[0]) is float


# Text that is mended or refused: (text, value) or (text, part of the reason)
MENDED = {
    "half a surrogate pair": (b'{"a":"x\\ud83d"}', {"a": "x\ufffd"}),
    "halves in the wrong order": (b'["\\ude00\\ud83d"]', ["\ufffd\ufffd"]),
    "a whole pair beside a half": (b'["\\ud83d\\ude00\\ud83d"]', ["😀\ufffd"]),
    "numbers beside a half": (b'["\\ud83d",1.5]', ["\ufffd", 1.5]),
}
REFUSED = {
    "nothing": (b"", "invalid JSON"),
    "cut": (b'{"a":', "invalid JSON"),
    "two values": (b"{} {}", "invalid JSON"),
    "a trailing comma": (b"[1,]", "invalid JSON"),
    "not a number": (b"[NaN]", "invalid JSON"),
    "not a number, beside half a pair": (b'[NaN,"\\ud83d"]', "invalid JSON"),
    "invalid UTF-8": (b'["\xff"]', "invalid JSON"),
    "invalid UTF-8 behind half a pair": (b'["\\ud83d","\xed\xa0\x80"]', "invalid JSON"),
    "a byte order mark before half a pair": (b'\xef\xbb\xbf["\\ud83d"]', "invalid JSON"),
    "absurd nesting": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "absurd nesting, beside half a pair": (b'["\\ud83d",' + b"[" * 100_000 + b"]" * 100_001, "invalid JSON"),
}


@pytest.mark.parametrize(("text", "value"), MENDED.values(), ids=MENDED)
def test_half_a_character_is_replaced(text: bytes, value: object) -> None:
    assert jsontext.decode(text) == value


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_broken_text_is_a_value_error_with_a_reason(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        jsontext.decode(text)


# text: (the object that it spells or None, whether it is one whole value)
WHOLE = {
    "an object": ('{"a": 1}', {"a": 1}, True),
    "an array": ("[1]", None, True),
    "a string": ('"a"', None, True),
    "a cut object": ('{"a": 1', None, False),
    "nothing": ("", None, False),
    "space around": (' {"a":1}\n', {"a": 1}, True),
    "something behind": ('{"a":1}}', None, False),
}


@pytest.mark.parametrize(("text", "value", "whole"), WHOLE.values(), ids=WHOLE)
def test_what_a_text_spells(text: str, value: object, whole: bool) -> None:
    assert jsontext.decode_object(text) == value
    assert jsontext.is_complete(text) is whole


SPACED = {
    '{"a":[1,2.50,{"b":null}],"c":{}}': '{"a": [1, 2.50, {"b": null}], "c": {}}',
    '{"a,b:c":"d,\\"e:f\\\\","é":[]}': '{"a,b:c": "d,\\"e:f\\\\", "é": []}',
    '"a,b"': '"a,b"',
    "1e5": "1e5",
}


@pytest.mark.parametrize("text, spaced", SPACED.items())
def test_spaces_stand_between_values_and_never_inside_strings(text: str, spaced: str) -> None:
    assert jsontext.spaced(jsontext.decode(text)) == spaced


def test_what_is_not_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="object is not JSON"):
        jsontext.encode([object()])


def test_numbers_beside_half_a_pair_keep_their_spelling() -> None:
    assert jsontext.encode(jsontext.decode(rb'["\ud83d",1.10,1e400]')) == '["\ufffd",1.10,1e400]'.encode()


def test_half_a_pair_in_a_value_is_printed_like_one_in_a_text() -> None:
    assert jsontext.encode({"a\ud83d": ["x\ud83d", 1]}) == '{"a\ufffd":["x\ufffd",1]}'.encode()


@pytest.mark.parametrize(
    "body, expected",
    [
        ('{"model":"a","x":1}', '{"model":"b","x":1}'),
        ('{ "x" : 1.10, "model" : "a" }', '{ "x" : 1.10, "model" : "b" }'),
        (
            '{"text":"say \\"model\\": \\"a\\"","model":"a"}',
            '{"text":"say \\"model\\": \\"a\\"","model":"b"}',
        ),
        ('{"model":"a","x":{"model":"a"}}', '{"model":"b","x":{"model":"a"}}'),
        ('{"x":{"model":"a"},"model":"a"}', None),  # which one is meant is not plain
        ('{"model":"a","model":"a"}', None),
        ('{"model":"a","mod\\u0065l":"a"}', None),
        ('{"model":"a","x":"\\u00e9\\/"}', '{"model":"b","x":"\\u00e9\\/"}'),
        ('{"model":"a","x":"\\ud83d"}', None),
        ('[{"model":"a"}]', None),
        ('{"x":"model","model":"a"}', '{"x":"model","model":"b"}'),
        ('{"model":"\\u0061"}', None),
        ('{"mod\\u0065l":"a","x":{"model":"a"}}', None),
        ('{"text":"model"}', None),
    ],
)
def test_a_value_replaced_in_its_text(body: str, expected: str | None) -> None:
    made = jsontext.replaced(body.encode(), "model", "a", "b")
    assert made == (None if expected is None else expected.encode())


# Where the object is known to have the field once
ONCE = {
    "first": (b'{"model":"a","x":{"model":"a"}}', b'{"model":"b","x":{"model":"a"}}'),
    "after a text": (b'{"id":"x", "model": "a","y":"\\u00e9"}', b'{"id":"x", "model": "b","y":"\\u00e9"}'),
    "after a text that is the name": (b'{"x":"model","model":"a"}', b'{"x":"model","model":"b"}'),
    "after a name with a quote": (b'{"x\\"model":"a","model":"a"}', None),
    "after an array": (b'{"x":[1],"model":"a"}', b'{"x":[1],"model":"b"}'),
    "after an array, with an escape": (
        b'{"x":[1],"model":"a","y":"\\u00e9"}',
        b'{"x":[1],"model":"b","y":"\\u00e9"}',
    ),
    "after one of the same name": (b'{"x":{"model":"a"},"model":"a"}', None),
    "in escapes": (b'{"x":{"model":"a"},"mod\\u0065l":"a"}', None),
}


@pytest.mark.parametrize(("body", "expected"), ONCE.values(), ids=ONCE)
def test_a_value_replaced_where_it_stands_once(body: bytes, expected: bytes | None) -> None:
    assert jsontext.replaced(body, "model", "a", "b", once=True) == expected
    early = jsontext.replaced_early(body, "model", "a", "b")
    assert early in (None, expected)
    assert (early is None) is (expected is None or not body.startswith((b'{"model"', b'{"id"')))


@pytest.mark.parametrize("size", [0, 30, 59, 60, 200])
def test_a_value_replaced_at_the_beginning(size: int) -> None:
    """As far as the field stands whole among the first bytes."""
    body = b'{"id":"%b","model": "a","x":{"model": "a"}}' % (b"i" * size)
    expected = body.replace(b'"a"', b'"b"', 1) if size < 60 else None
    assert jsontext.replaced_early(body, "model", "a", "b") == expected


GUESSED = {
    "first": (b'{"model":"a","x":1}', "a"),
    "last": (b'{"x":[1], "model" : "a\xc3\xa9"}', "a\u00e9"),
    "a field further in, which may be wrong": (b'{"x":{"model":"b"},"model":"a"}', "b"),
    "a schema first": (b'{"x":{"model":{}},"model":"a"}', ""),
    "escaped": (b'{"model":"a\\u0062"}', ""),
    "none": (b"{}", ""),
    "no bytes": (b"", ""),
}


@pytest.mark.parametrize(("body", "model"), GUESSED.values(), ids=GUESSED)
def test_a_model_guessed_from_the_text(body: bytes, model: str) -> None:
    assert jsontext.guess_model(body) == model


def test_fields_that_were_printed_before_are_printed_alike() -> None:
    entries = [msgspec.Raw(b'{"a": 1},{"b":2}'), {"c": "é"}]
    tools = [{"name": "run"}]
    bodies: list[Any] = [
        {"model": "m", "turns": entries, "tools": tools, "n": 1},
        {"model": "m", "turns": entries[1:], "tools": tools, "n": True},
        {"turns": [], "tools": tools[:], "n": 1.0, "model": "\ud800"},
        {"tools": "long " * 99, "turns": "text", "n": {"n": jsontext.decode("1.10")}},
        {"tools": "long " * 99, "turns": entries},
    ]
    printed = jsontext.PrintedFields(100)
    for body in bodies * 2:
        assert jsontext.encode_spliced(body, "turns", printed) == jsontext.encode(body)
    assert max(len(text) for _, text in printed.known.values()) <= 100
