"""What a parameter's text means, by its schema."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.dialects.engine.values import read_value, write_value

ROOT = {"$defs": {"Flag": {"type": "boolean"}, "Tree": {"properties": {"leaf": {"$ref": "#/$defs/Tree"}}}}}

# name: (schema, text, the value as JSON)
CASES: dict[str, tuple[Any, str, str]] = {
    "a string": ({"type": "string"}, "12", '"12"'),
    "G118 a framed string": ({"type": "string"}, "\n  a\n\n", '"  a\\n"'),
    "a string framed by CRLF": ({"type": "string"}, "\r\na\r\n", '"a"'),
    "only a newline": ({"type": "string"}, "\n", '""'),
    "G120 a boolean": ({"type": "boolean"}, "false", "false"),
    "G120 a boolean as Python prints it": ({"type": "boolean"}, "True", "true"),
    "G120 not a boolean": ({"type": "boolean"}, "yes", '"yes"'),
    "G120 an integer": ({"type": "integer"}, "\n42\n", "42"),
    "a large integer": ({"type": "integer"}, "9" * 30, "9" * 30),
    "an integer with a fraction of zero": ({"type": "integer"}, "5.0", "5.0"),
    "not an integer": ({"type": "integer"}, "5.5", '"5.5"'),
    "no JSON number": ({"type": "integer"}, "007", '"007"'),
    "a number keeps its digits": ({"type": "number"}, "1.10", "1.10"),
    "a whole number": ({"type": "number"}, "60000", "60000"),
    "not a number": ({"type": "number"}, "NaN", '"NaN"'),
    "G120 an array": ({"type": "array"}, '["a", 1]', '["a",1]'),
    "G120 an array as Python prints it": ({"type": "array"}, "['a', None]", '["a",null]'),
    "an array in tags": (
        {"type": "array", "items": {"type": "integer"}},
        "\n <item>1</item>\n <item>2</item>\n",
        "[1,2]",
    ),
    "an array without items": ({"type": "array"}, "", "[]"),
    "an array without items, on two lines": ({"type": ["array", "null"]}, "\n", "[]"),
    "an object without fields": ({"type": "object"}, "", "{}"),
    "no text where an array or a string goes": ({"type": ["array", "string"]}, "", '""'),
    "not an array": ({"type": "array"}, "a, b", '"a, b"'),
    "an object": ({"type": "object"}, '{"a": {"b": 1}}', '{"a":{"b":1}}'),
    "an object in tags": (
        {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
        "<n>1</n><s><b>x</b></s>",
        '{"n":1,"s":"<b>x</b>"}',
    ),
    "the same tag inside a tag": ({"type": "object"}, "<a><a>1</a></a>", '{"a":"<a>1</a>"}'),
    "an object with escaped quotes": ({"type": "object"}, r"{\"a\": 1}", '{"a":1}'),
    "G120 null": ({"type": ["string", "null"]}, "null", "null"),
    'G120 "null" where only strings go': ({"type": "string"}, "null", '"null"'),
    "G120 nullable": ({"type": "integer", "nullable": True}, "null", "null"),
    "G120 the enum none": ({"type": "string", "enum": ["none", "all"]}, "none", '"none"'),
    "G120 an enum of numbers": ({"enum": [1, 2]}, "2", "2"),
    "an enum of strings that look like numbers": ({"enum": ["1", "2"]}, "2", '"2"'),
    "a constant": ({"const": 3}, "3", "3"),
    "G120 anyOf": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "7", "7"),
    "anyOf, the string": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "x", '"x"'),
    "G120 $ref": ({"$ref": "#/$defs/Flag"}, "true", "true"),
    "$ref to nowhere": ({"$ref": "#/$defs/None"}, "x", '"x"'),
    "a schema that holds itself": (
        {"$ref": "#/$defs/Tree"},
        "<leaf><leaf>x</leaf></leaf>",
        '{"leaf":{"leaf":"x"}}',
    ),
    "names of other type systems": ({"type": "float"}, "1.5", "1.5"),
    "not declared": (None, "12", '"12"'),
    "declared without a type": ({"description": "x"}, "20.5", "20.5"),
    "declared without a type, a string in quotes": ({}, '"10"', '"10"'),
    "declared without a type, a string": ({}, "ten", '"ten"'),
    "G119 entities": ({"type": "string"}, "&lt;a&gt;", '"&lt;a&gt;"'),
}


@pytest.mark.parametrize("name", CASES)
def test_reads(name: str) -> None:
    schema, text, expected = CASES[name]
    assert jsontext.dumps(read_value(text, schema, ROOT)) == expected


@pytest.mark.parametrize("value", ["10", "null", '"x"', "[1]", "plain", 10, None, [1], {"a": "b"}, True])
def test_a_parameter_without_a_type_carries_anything(value: Any) -> None:
    assert read_value(write_value(value, {}, {}), {}, {}) == value


def test_depth_is_bounded() -> None:
    deep = "<leaf>" * 500 + "</leaf>" * 500
    read_value(deep, {"$ref": "#/$defs/Tree"}, ROOT)
