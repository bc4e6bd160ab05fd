"""Arguments as models really write them, and what the client gets."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.transforms import arguments as transform
from dragoman.transforms.arguments import checker_of, may_need_repair, unwrap_raw, wrap_raw


def repair(arguments: str, parameters: Any) -> tuple[str, str]:
    return transform.repair(arguments, checker_of(parameters))


def watch(parameters: Any, strict: bool = False) -> bool:
    return may_need_repair(checker_of(parameters), strict)


def tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TYPED = tool(
    n={"type": "integer"},
    x={"type": "number"},
    b={"type": "boolean"},
    z={"type": ["integer", "null"]},
    l={"type": "array", "items": {"type": "integer"}},
    o=tool(k={"type": "integer"}, s={"type": "string"}),
    s={"type": "string"},
    any={},
)
NUMBERS, TEXTS = {"enum": [1, 2.5, "auto", True]}, {"type": "string", "enum": ["5", "true"]}
TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}},
}
REFS = tool(t={"$ref": "#/$defs/T"}) | {"$defs": {"T": TREE}}
UNION = tool(
    u={"anyOf": [{"type": "integer"}, {"type": "null"}]},
    t={"anyOf": [{"type": "integer"}, {"type": "string"}]},
    two={"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
    objects={
        "oneOf": [
            tool(a={"type": "integer"}) | {"required": ["a"]},
            tool(b={"type": "boolean"}) | {"required": ["b"]},
        ]
    },
    unclear={
        "anyOf": [
            tool(a={"type": "integer"}, b={"type": ["integer", "null"]}),
            tool(a={"type": ["integer", "null"]}, b={"type": "integer"}),
        ]
    },
)
UPPER = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}}

# name: (parameters, arguments, what comes out; None: as they are)
CASES = {
    "valid": (TYPED, '{"n": 5,  "x":1.10}', None),
    "G64 nothing is left to the encoders": (TYPED, "", None),
    "G65 encoded twice": (TYPED, r'"{\"n\": 1,\"s\":\"\\u00e9\"}"', r'{"n": 1,"s":"\u00e9"}'),
    "G65 encoded twice, without a schema": (None, r'"{\"n\":1}"', '{"n":1}'),
    "G65 encoded twice, and a number as text": (TYPED, r'"{\"n\":\"1\"}"', '{"n":1}'),
    "G66 broken": (TYPED, '{"n": "5"', None),
    "G66 not an object": (TYPED, "[1]", None),
    "G66 text": (TYPED, '"hello"', None),
    "G67 escapes and big numbers stay": (
        TYPED,
        r'{"s":"\u00e9é\/", "n":"7", "big":123456789012345678901234567890, "f":1.10, "any":-0}',
        r'{"s":"\u00e9é\/","n":7,"big":123456789012345678901234567890,"f":1.10,"any":-0}',
    ),
    "G68 10.0 for an integer": (TYPED, '{"n": 10.0, "x": 10.0}', '{"n":10,"x":10.0}'),
    "G68 1e3 for an integer": (TYPED, '{"n":1e3}', '{"n":1000}'),
    "G68 big for an integer": (TYPED, '{"n":12345678901234567890.0}', '{"n":12345678901234567890}'),
    "G68 10.5 for an integer": (TYPED, '{"n":10.5}', None),
    "G68 1e400 for an integer": (TYPED, '{"n":1e400}', None),
    "G68 10.0 in a text": (TYPED, '{"s":"10.0","n":1}', None),
    "G120 an integer as text": (TYPED, '{"n":"5"}', '{"n":5}'),
    "G120 a whole number as text": (TYPED, '{"n":"5.0"}', '{"n":5}'),
    "G120 a number as text": (TYPED, '{"x":"1.50"}', '{"x":1.50}'),
    "G120 a boolean as text": (TYPED, '{"b":"false"}', '{"b":false}'),
    "G120 a boolean as Python spells it": (TYPED, '{"b":"True"}', '{"b":true}'),
    "G120 null as text": (TYPED, '{"z":"null"}', '{"z":null}'),
    "G120 an array as text": (TYPED, r'{"l":"[1, 2]"}', '{"l":[1, 2]}'),
    "G120 an object as text": (TYPED, r'{"o":"{\"k\":\"3\",\"s\":\"5\"}"}', '{"o":{"k":3,"s":"5"}}'),
    "G120 inside an array": (TYPED, '{"l":[1,"2",3.0]}', '{"l":[1,2,3]}'),
    "G120 text stays text": (TYPED, '{"s":"5","any":"5"}', None),
    "G120 a number for text is not guessed": (TYPED, '{"s":5}', None),
    "G120 one value for an array is not guessed": (TYPED, '{"l":3}', None),
    "G120 yes is not true": (TYPED, '{"b":"yes"}', None),
    "G120 five is not 5": (TYPED, '{"n":"five"}', None),
    "G120 all or nothing": (TYPED, '{"n":"5","b":"yes"}', None),
    "G120 upper case and nullable": (UPPER, '{"n":"5"}', '{"n":5}'),
    "G120 nullable": (UPPER, '{"n":null}', None),
    "G78 numbers that were listed as text": (tool(e=NUMBERS), '{"e":"1"}', '{"e":1}'),
    "G78 a fraction": (tool(e=NUMBERS), '{"e":"2.5"}', '{"e":2.5}'),
    "G78 true": (tool(e=NUMBERS), '{"e":"true"}', '{"e":true}'),
    "G78 text that was listed as text": (tool(e=NUMBERS), '{"e":"auto"}', None),
    "G78 nothing on the list": (tool(e=NUMBERS), '{"e":"3"}', None),
    "G78 a number where text is listed": (tool(e=TEXTS), '{"e":5}', '{"e":"5"}'),
    "G78 true where text is listed": (tool(e=TEXTS), '{"e":true}', '{"e":"true"}'),
    "G82 null for an optional property": (
        TYPED | {"required": ["n"]},
        '{"n":1,"s":null,"o":{"k":null}}',
        '{"n":1,"o":{}}',
    ),
    "G82 null for a required property": (TYPED | {"required": ["s"]}, '{"s":null}', None),
    "G82 null where null is allowed": (TYPED, '{"z":null,"any":null}', None),
    "G79 references": (REFS, '{"t":{"v":"1","kids":[{"v":2.0}]}}', '{"t":{"v":1,"kids":[{"v":2}]}}'),
    "G80 a union": (UNION, '{"u":"7"}', '{"u":7}'),
    "G80 a union with text": (UNION, '{"t":"7"}', None),
    "G80 one branch takes it": (UNION, '{"two":"true"}', '{"two":true}'),
    "G80 one branch of objects takes it": (UNION, '{"objects":{"b":"true"}}', '{"objects":{"b":true}}'),
    "G80 two branches take it": (UNION, '{"unclear":{"a":null,"b":null}}', None),
    "G80 null in a union": (UNION, '{"u":null}', None),
    "allOf": ({"type": "object", "allOf": [tool(n={"type": "integer"})]}, '{"n":"5"}', '{"n":5}'),
    "further properties": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        '{"n":"5"}',
        '{"n":5}',
    ),
    "tuples": (
        tool(l={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
        '{"l":["1","1"]}',
        '{"l":["1",1]}',
    ),
    "a pattern that is none": (
        tool(n={"type": "integer"}, s={"type": "string", "pattern": "["}),
        '{"n":"5"}',
        None,
    ),
    "a reference to nowhere": (tool(n={"type": "integer"}, s={"$ref": "#/x"}), '{"n":"5"}', '{"n":5}'),
    "a reference to itself": ({"type": "object", "$ref": "#"}, '{"n":"5"}', None),
    "not a schema": ([1], '{"n":"5"}', None),
}


@pytest.mark.parametrize("name", CASES)
def test_repair(name: str) -> None:
    parameters, arguments, expected = CASES[name]
    mended, reason = repair(arguments, parameters)
    assert mended == (arguments if expected is None else expected)
    assert bool(reason) == (expected is not None)


REASONS = {
    '{"n":"5","o":{"k":10.0}}': "n was text, and the schema declares integer. "
    "o.k was 10.0, and the schema declares integer.",
    '{"s":null}': "s was null, and may be left out.",
    r'"{\"b\":\"true\"}"': "The object was encoded twice. b was text, and the schema declares boolean.",
}


@pytest.mark.parametrize("arguments", REASONS)
def test_the_reason_names_the_place(arguments: str) -> None:
    assert repair(arguments, TYPED)[1] == REASONS[arguments]


WATCHED = {
    "nothing": (None, False),
    "no properties": (tool(), False),
    "text": (tool(a={"type": "string"}, b={"type": "STRING"}, c={}), False),
    "text or null": (
        tool(a={"type": ["string", "null"]}, b={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        False,
    ),
    "words": (tool(a={"type": "string", "enum": ["x", "y"]}), False),
    "words that spell numbers": (tool(a={"type": "string", "enum": ["1", "2"]}), True),
    "a number": (tool(a={"type": "string"}, b={"type": "number"}), True),
    "a reference": (tool(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"type": "string"}}}, True),
    "an array": (tool(a={"type": "array"}), True),
    "a map of numbers": ({"type": "object", "additionalProperties": {"type": "number"}}, True),
    "a union": ({"anyOf": [tool(a={"type": "string"})]}, True),
}


@pytest.mark.parametrize("name", WATCHED)
def test_watch(name: str) -> None:
    parameters, expected = WATCHED[name]
    assert watch(parameters) is expected


def test_strict_mode_watches_optional_text() -> None:
    assert watch(tool(a={"type": "string"}), strict=True)
    assert not watch(tool(a={"type": "string"}) | {"required": ["a"]}, strict=True)


RAW = {
    "G59 an array": "[1, 2]",
    "G59 text": '"hello"',
    "G59 a number": "1.10",
    "G66 broken": '{"a": ',
    "not JSON": 'ls -l "\n',
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_object_travels_inside_one(name: str) -> None:
    wrapped = wrap_raw(RAW[name])
    assert jsontext.decode_object(wrapped) == {"_raw_arguments": RAW[name]}
    assert unwrap_raw(wrapped) == RAW[name]


def test_objects_are_not_wrapped() -> None:
    assert wrap_raw("") == "{}"
    for arguments in ('{"a": 1.10}', "{}", '{"_raw_arguments": 1}', '{"_raw_arguments": "x", "b": 1}'):
        assert wrap_raw(arguments) == arguments
        assert unwrap_raw(arguments) == arguments


def test_schemas_that_explode_are_not_checked() -> None:
    twice = {f"A{i}": {"anyOf": [{"$ref": f"#/$defs/A{i + 1}"}] * 2} for i in range(40)}
    parameters = tool(a={"$ref": "#/$defs/A0"}, n={"type": "integer"}) | {
        "$defs": twice | {"A40": {"type": "null"}}
    }
    assert repair('{"a":5,"n":"5"}', parameters) == ('{"a":5,"n":"5"}', "")


# Laws

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["5", "1.5", "true", "null", "[1]", "{}", "x"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
LEAVES = st.sampled_from([*TYPED["properties"].values(), *UNION["properties"].values(), NUMBERS, TEXTS])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(
            lambda properties, required: tool(**properties) | {"required": required},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
    ),
)
TOOLS = st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=3).map(
    lambda properties: tool(**properties)
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(st.text() | JSON.map(jsontext.dumps), TOOLS | JSON)
def test_law_nothing_raises(arguments: str, parameters: Any) -> None:
    mended, reason = repair(arguments, parameters)
    assert bool(reason) == (mended != arguments)
    assert unwrap_raw(wrap_raw(arguments)) in (arguments, "{}")
    watch(parameters)


@given(OBJECTS, TOOLS)
def test_law_the_result_fits_or_nothing_changed(
    arguments: dict[str, Any], parameters: dict[str, Any]
) -> None:
    text = jsontext.dumps(arguments)
    mended, reason = repair(text, parameters)
    fits = jsonschema_rs.Draft202012Validator(parameters).is_valid
    if fits(arguments):
        assert (mended, reason) == (text, "")
    if reason:
        assert fits(jsontext.decode(mended))
        assert repair(mended, parameters) == (mended, "")


@given(OBJECTS, TOOLS)
def test_law_what_is_not_watched_needs_no_repair(
    arguments: dict[str, Any], parameters: dict[str, Any]
) -> None:
    assume(not watch(parameters, strict=True))
    text = jsontext.dumps(arguments)
    assert repair(text, parameters) == (text, "")
