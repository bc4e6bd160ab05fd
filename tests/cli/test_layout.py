"""How the demo lays out JSON: few lines, none too long, nothing left out without a mark."""

import json

import pytest

from dragoman.cli.demo.layout import Note, lay_out, lay_out_stream

VALUES = {
    "scalar": 1,
    "short": {"a": 1, "b": [1, 2]},
    "flat but long": {f"key{number}": number for number in range(30)},
    "deep": {"a": {"b": {"c": {"d": [{"e": "x" * 10}, {"f": "y" * 10}]}}}},
    "empty containers": [{}, [], {"a": {}}, "z" * 12],
    "turns": [{"role": "user", "content": [{"type": "text", "text": "hi"}]} for _ in range(4)],
}


@pytest.mark.parametrize("width", (40, 60, 120))
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_fits_is_whole_and_no_line_is_too_long(value: object, width: int):
    lines = lay_out(value, width)
    assert json.loads("\n".join(lines)) == value
    assert max(map(len, lines)) <= width


def test_a_short_value_is_one_line():
    assert lay_out({"a": [1, None, "é"]}, 80) == ['{"a": [1, null, "é"]}']


def test_short_items_share_a_row():
    assert lay_out({"a": 1, "b": 2, "c": 3, "d": 4}, 18) == ['{"a": 1, "b": 2,', '  "c": 3, "d": 4}']


def test_a_long_item_has_rows_of_its_own():
    assert lay_out({"a": 1, "b": ["12345", "12345"], "c": 3}, 18) == [
        '{"a": 1,',
        '  "b": ["12345",',
        '    "12345"],',
        '  "c": 3}',
    ]


def test_a_text_that_fits_on_a_row_of_its_own_is_not_cut_behind_its_brackets():
    value = {"first": {"second": {"third": "0123456789"}}}
    assert lay_out(value, 36) == ['{"first": {"second": {', '  "third": "0123456789"}}}']


def test_a_long_text_is_cut_with_a_mark():
    assert lay_out({"text": "x" * 99}, 40) == ['{"text": "' + "x" * 27 + '…"}']


def test_a_note_stands_without_quotes():
    assert lay_out([Note("… 1 before"), 2], 80) == ["[… 1 before, 2]"]


def test_a_stream_shows_its_data_and_marks_what_is_cut():
    data = b'event: x\ndata: {"a":1}\n\nevent: y\ndata: ' + b"z" * 50 + b"\n\n"
    assert lay_out_stream(data, 20) == ['data: {"a":1}', "data: zzzzzzzzzzzzzz", "zzzzzzzzzzzzzzzzzzz…"]


def test_a_stream_does_not_repeat_its_first_frame():
    data = b'data: {"id":1,"n":1}\n\ndata: {"id":1,"n":2}\n\ndata: {"n":3}\n\ndata: [DONE]\n\n'
    assert lay_out_stream(data, 80) == [
        'data: {"id":1,"n":1}',
        'data: {…,"n":2}',
        'data: {"n":3}',
        "data: [DONE]",
    ]


def test_only_a_newline_ends_a_line():
    assert lay_out_stream("data: a\u2028b\n\n".encode(), 20) == ["data: a\u2028b"]
