"""Tool schemas as clients really send them, and what each target gets."""

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.losses import Losses
from dragoman.protocols import codec
from dragoman.schemas import downgrade
from dragoman.schemas.downgrade import can_be_strict
from dragoman.schemas.walk import map_children

RULES = {
    "json": codec("anthropic").client_limits.schema_rules,
    "openai": codec("openai-chat").client_limits.schema_rules,
    "gemini": codec("gemini").client_limits.schema_rules,
}
TARGETS = tuple(RULES)
EMPTY = {"type": "object", "properties": {}}


def fit(schema: Any, target: str, where: str, losses: Losses, strict: bool = False) -> Any:
    return downgrade.fit(schema, RULES[target], where, losses, strict=strict)


def tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
SHAPES = [
    {
        "type": "object",
        "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
        "required": ["kind", "r"],
    },
    {
        "type": "object",
        "properties": {"kind": {"const": "box"}, "side": {"type": "number"}},
        "required": ["kind", "side"],
    },
]
SAID_SHAPES = (
    'at least one of these must hold: [{"type":"object","properties":{"kind":{"const":"circle"},'
    '"r":{"type":"number"}},"required":["kind","r"]},{"type":"object","properties":{"kind":{"const":"box"},'
    '"side":{"type":"number"}},"required":["kind","side"]}]'
)

# name: (schema, what The target gets, losses as ."kind where")
EVERY_TARGET = {
    "G88 null": (None, EMPTY, []),
    "G88 no schema at all": ({}, EMPTY, []),
    "G88 no properties": ({"type": "object"}, EMPTY, []),
    "G81 root without type": ({"properties": {"a": {"type": "string"}}}, tool(a={"type": "string"}), []),
    "not a schema": ([1], EMPTY, ["changed w"]),
    "true": (True, EMPTY, ["changed w"]),
    "an array": ({"type": "array", "items": {}}, None, ["changed w.type"]),
    "upper case": (
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        tool(a={"type": "string"}),
        [],
    ),
    "names of Python and Java": (
        {
            "type": "dict",
            "properties": {"a": {"type": "float"}, "b": {"type": "ArrayList", "items": {"type": "any"}}},
        },
        tool(a={"type": "number"}, b={"type": "array", "items": {}}),
        [],
    ),
    "a type that nobody knows": (
        tool(a={"type": "date", "description": "When."}),
        tool(a={"description": "When. (type: date)"}),
        ["changed w.properties.a.type"],
    ),
    "a word for a schema": (
        tool(a="string", b="The place."),
        tool(a={"type": "string"}, b={"description": "The place."}),
        ["changed w.properties.a", "changed w.properties.b"],
    ),
    "null for an absent keyword": (
        {
            "type": "object",
            "properties": {"a": {"type": "string", "enum": None, "description": None}},
            "required": None,
        },
        tool(a={"type": "string"}),
        [],
    ),
    "empty arrays of PHP": (
        {"type": "object", "properties": [], "required": []},
        EMPTY | {"required": []},
        [],
    ),
    "required said by the property": (
        tool(a={"type": "string", "required": True}, b={"type": "string", "required": False}),
        tool(a={"type": "string"}, b={"type": "string"}) | {"required": ["a"]},
        ["changed w.properties.a.required", "changed w.properties.b.required"],
    ),
    "required is one name": (
        tool(a={"type": "string"}) | {"required": "a"},
        tool(a={"type": "string"}) | {"required": ["a"]},
        ["changed w.required"],
    ),
    "a bound that is no number": (
        tool(a={"type": "integer", "minimum": "low"}),
        tool(a={"type": "integer"}),
        ["changed w.properties.a.minimum"],
    ),
    "a reference to nowhere": (
        tool(a={"$ref": "https://example.com/a.json"}),
        None,
        ["changed w.properties.a.$ref"],
    ),
    "root is a reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": tool(a={"type": "string"})}},
        None,
        [],
    ),
    "G80 root allOf": (
        {
            "allOf": [
                tool(a={"type": "string"}) | {"required": ["a"]},
                tool(b={"type": "number"}) | {"required": ["b"]},
            ]
        },
        tool(a={"type": "string"}, b={"type": "number"}) | {"required": ["a", "b"]},
        ["changed w.allOf"],
    ),
    "G80 root anyOf": ({"anyOf": SHAPES}, None, ["changed w.anyOf"]),
    "G80 root anyOf of required": (
        tool(a={"type": "string"}, b={"type": "string"})
        | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        tool(a={"type": "string"}, b={"type": "string"})
        | {"description": 'at least one of these must hold: [{"required":["a"]},{"required":["b"]}]'},
        ["changed w.anyOf"],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EVERY_TARGET)
def test_every_target_gets_an_object(name: str, target: Any) -> None:
    schema, expected, lost = EVERY_TARGET[name]
    losses = Losses()
    fitted = fit(schema, target, "w", losses)
    assert fitted["type"] == "object"
    assert isinstance(fitted["properties"], dict)
    assert not fitted.keys() & {"anyOf", "oneOf", "allOf", "$ref"}
    assert jsonschema_rs.meta.is_valid(fitted)
    if expected is not None:
        assert without_empty(fitted) == without_empty(expected)
    assert [f"{loss.kind} {loss.where}" for loss in losses] == lost


def without_empty(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "required" or value}


def case(
    target: str, schema: Any, expected: Any, *lost: str, strict: bool = False
) -> tuple[str, bool, Any, Any, tuple[str, ...]]:
    return target, strict, schema, expected, lost


NAMES_NOTHING = tool(a=tool(c={}) | {"required": ["c", "d"]}) | {"required": ["a", "b"]}
NAMED = tool(a=tool(c={}) | {"required": ["c"]}) | {"required": ["a"]}

CASES = {
    "G80 root anyOf, reported": case(
        "json",
        {"anyOf": SHAPES},
        tool(kind={"enum": ["circle", "box"]}, r={"type": "number"}, side={"type": "number"})
        | {"required": ["kind"], "description": SAID_SHAPES},
        "changed w.anyOf",
    ),
    "G83 nullable stays for Anthropic": case(
        "json", tool(a={"type": "string", "nullable": True}), tool(a={"type": "string", "nullable": True})
    ),
    "G83 nullable is a type for OpenAI": case(
        "openai",
        tool(
            a={"type": "STRING", "nullable": True},
            b={"type": "string", "enum": ["x"], "nullable": True},
            c={"$ref": "#/$defs/C", "nullable": True},
            d={"type": "string", "nullable": False},
        )
        | {"$defs": {"C": {"type": "string"}}},
        tool(
            a={"type": ["string", "null"]},
            b={"type": ["string", "null"], "enum": ["x", None]},
            c={"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]},
            d={"type": "string"},
        )
        | {"$defs": {"C": {"type": "string"}}},
    ),
    "G83 nullable is a type for Gemini": case(
        "gemini", tool(a={"type": "STRING", "nullable": True}), tool(a={"type": ["string", "null"]})
    ),
    "G81 required names nothing, OpenAI": case(
        "openai", NAMES_NOTHING, NAMED, "dropped w.required", "dropped w.properties.a.required"
    ),
    "G81 required names nothing, Gemini": case(
        "gemini", NAMES_NOTHING, NAMED, "dropped w.properties.a.required", "dropped w.required"
    ),
    "G81 required names nothing, Anthropic": case("json", NAMES_NOTHING, NAMES_NOTHING),
    "G81 array without items, Anthropic": case("json", tool(a={"type": "array"}), tool(a={"type": "array"})),
    "G81 array without items, OpenAI": case(
        "openai", tool(a={"type": "array"}), tool(a={"type": "array", "items": {}})
    ),
    "G81 array without items, Gemini": case(
        "gemini", tool(a={"type": "array"}), tool(a={"type": "array", "items": {}})
    ),
    "G83 OpenAI keeps what only Gemini refuses": case(
        "openai",
        tool(a={"type": "integer", "exclusiveMinimum": 0, "default": 3, "examples": [1]}, b={"const": "x"}),
        tool(a={"type": "integer", "exclusiveMinimum": 0, "default": 3, "examples": [1]}, b={"const": "x"}),
    ),
    "tuples of draft 7": case(
        "json",
        tool(
            a={"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False}
        ),
        tool(a={"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False}),
    ),
    "bounds of draft 4": case(
        "json",
        tool(a={"type": "number", "minimum": 0, "exclusiveMinimum": True, "exclusiveMaximum": False}),
        tool(a={"type": "number", "exclusiveMinimum": 0}),
    ),
    "root not and enum": case(
        "openai",
        EMPTY | {"not": {"required": ["a"]}},
        EMPTY | {"description": 'not {"required":["a"]}'},
        "changed w.not",
    ),
    "G77 annotations are one loss": case(
        "gemini",
        tool(a={"type": "string", "$comment": "c", "x-order": 1})
        | {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:x"},
        tool(a={"type": "string"}),
        "dropped w",
    ),
    "G77 constraints go to the description": case(
        "gemini",
        tool(
            a={"type": "string", "minLength": 2, "pattern": "^a", "default": "ab", "description": "A."},
            b={"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            c={"type": "number", "multipleOf": 5},
            d={
                "type": "object",
                "propertyNames": {"pattern": "^x"},
                "patternProperties": {"^x": {"type": "string"}},
            },
            e={"type": "string", "enum": ["a"], "enumDescriptions": ["first"]},
            f={"type": "boolean", "uniqueItems": False, "default": None},
        ),
        tool(
            a={"type": "string", "description": "A. (length at least 2; pattern: ^a; default: ab)"},
            b={"type": "array", "items": {"type": "string"}, "description": "no item twice"},
            c={"type": "number", "description": "a multiple of 5"},
            d={
                "type": "object",
                "description": 'property names: {"pattern":"^x"}; '
                'properties by pattern of their name: {"^x":{"type":"string"}}',
            },
            e={"type": "string", "enum": ["a"], "description": 'meaning of the values: ["first"]'},
            f={"type": "boolean"},
        ),
        "changed w.properties.a.minLength",
        "changed w.properties.a.pattern",
        "changed w.properties.a.default",
        "changed w.properties.b.uniqueItems",
        "changed w.properties.c.multipleOf",
        "changed w.properties.d.propertyNames",
        "changed w.properties.d.patternProperties",
        "changed w.properties.e.enumDescriptions",
        "dropped w",
    ),
    "G77 exclusive bounds": case(
        "gemini",
        tool(
            a={"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10.5},
            b={"type": "number", "exclusiveMinimum": 0},
            c={"type": "integer", "minimum": 5, "exclusiveMinimum": 0},
        ),
        tool(
            a={"type": "integer", "minimum": 1, "maximum": 10},
            b={"type": "number", "minimum": 0, "description": "greater than 0"},
            c={"type": "integer", "minimum": 5},
        ),
        "changed w.properties.b.exclusiveMinimum",
    ),
    "G77 const is an enum of one": case(
        "gemini",
        tool(a={"const": "x"}, b={"const": 3}, c={"const": True}),
        tool(
            a={"type": "string", "enum": ["x"]},
            b={"type": "integer", "enum": [3]},
            c={"type": "boolean", "description": "always true"},
        ),
        "changed w.properties.c.enum",
    ),
    "G77 what Gemini honours stays": case(
        "gemini",
        tool(
            a={"type": ["string", "null"], "format": "date", "title": "A"},
            b={"anyOf": [{"type": "string"}, {"type": "null"}]},
            c={"type": "object", "additionalProperties": {"type": "string"}},
            d={"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1, "maxItems": 1},
            e={"type": "number", "minimum": 0.5, "maximum": 1},
        )
        | {"additionalProperties": False, "propertyOrdering": ["a"]},
        tool(
            a={"type": ["string", "null"], "format": "date", "title": "A"},
            b={"anyOf": [{"type": "string"}, {"type": "null"}]},
            c={"type": "object", "additionalProperties": {"type": "string"}},
            d={"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1, "maxItems": 1},
            e={"type": "number", "minimum": 0.5, "maximum": 1},
        )
        | {"additionalProperties": False, "propertyOrdering": ["a"]},
    ),
    "G78 enums": case(
        "gemini",
        tool(
            numbers={"type": "integer", "enum": [1, 2]},
            mixed={"enum": [1, "auto", True]},
            nullable={"type": ["string", "null"], "enum": ["a", None]},
            texts={"type": "string", "enum": [1, 2]},
            spelled={"type": "integer", "enum": ["1", "2"]},
            both={"type": "boolean", "enum": [True, False]},
        ),
        tool(
            numbers={"type": "integer", "enum": [1, 2]},
            mixed={"type": "string", "enum": ["1", "auto", "true"]},
            nullable={"type": ["string", "null"], "enum": ["a"]},
            texts={"type": "string", "enum": ["1", "2"]},
            spelled={"type": "integer", "enum": [1, 2]},
            both={"type": "boolean"},
        ),
    ),
    "G78 a list of objects": case(
        "gemini",
        tool(a={"enum": [{"x": 1}, "y"]}),
        tool(a={"description": 'one of [{"x":1},"y"]'}),
        "changed w.properties.a.enum",
    ),
    "G79 plain references stay": case(
        "gemini",
        tool(a={"$ref": "#/definitions/A"}) | {"definitions": {"A": {"type": "string", "minLength": 1}}},
        tool(a={"$ref": "#/$defs/A"})
        | {"$defs": {"A": {"type": "string", "description": "length at least 1"}}},
        "changed w.$defs.A.minLength",
    ),
    "G79 words beside a reference": case(
        "gemini",
        tool(
            a={"$ref": "#/$defs/A", "description": "The a."},
            b={"allOf": [{"$ref": "#/$defs/A"}], "title": "B"},
        )
        | {"$defs": {"A": {"type": "string"}}},
        tool(a={"type": "string", "description": "The a."}, b={"type": "string", "title": "B"}),
    ),
    "G79 a reference to a property": case(
        "gemini",
        tool(a={"type": "string"}, b={"$ref": "#/properties/a"}),
        tool(a={"type": "string"}, b={"type": "string"}),
    ),
    "G79 a cycle that may be left out": case(
        "gemini",
        tool(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE}},
        tool(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE}},
    ),
    "G79 a cycle that is required": case(
        "gemini",
        tool(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE | {"required": ["next"]}}},
        tool(
            a=tool(next={"type": "object", "description": "of the same form as Node around it"})
            | {"required": ["next"]}
        ),
        "changed w.properties.a.properties.next.$ref",
    ),
    "G79 the root inside itself": case(
        "gemini",
        tool(a={"$ref": "#"}),
        tool(a=tool(a={"type": "object", "description": "of the same form as the whole"})),
        "changed w.properties.a.properties.a.$ref",
    ),
    "G79 OpenAI takes references": case(
        "openai",
        tool(a={"$ref": "#/$defs/Node", "description": "A."}) | {"$defs": {"Node": NODE}},
        tool(a={"$ref": "#/$defs/Node", "description": "A."}) | {"$defs": {"Node": NODE}},
    ),
    "G80 oneOf": case(
        "gemini",
        tool(a={"oneOf": [{"type": "string"}, {"type": "null"}]}),
        tool(a={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        "changed w.properties.a.oneOf",
    ),
    "G80 allOf": case(
        "gemini",
        tool(
            a={"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 3, "maximum": 9}]}
        ),
        tool(a={"type": "integer", "minimum": 3, "maximum": 9}),
        "changed w.properties.a.allOf",
    ),
    "G80 allOf in conflict": case(
        "gemini",
        tool(a={"allOf": [{"type": "string"}, {"type": "number"}], "description": "A."}),
        tool(a={"description": "A."}),
        "changed w.properties.a.allOf",
    ),
    "G80 conditions": case(
        "gemini",
        tool(
            a=tool(k={"type": "string"})
            | {
                "if": {"required": ["k"]},
                "then": {"properties": {"v": {"type": "integer"}}, "required": ["v"]},
            }
        ),
        tool(
            a=tool(k={"type": "string"}, v={"type": "integer"})
            | {
                "description": 'if {"required":["k"]}, '
                'then {"properties":{"v":{"type":"integer"}},"required":["v"]}'
            }
        ),
        "changed w.properties.a.if",
        "changed w.properties.a.then",
    ),
    "G80 a union beside properties": case(
        "gemini",
        tool(
            a=tool(x={"type": "string"})
            | {"anyOf": [{"required": ["x"]}, {"properties": {"y": {"type": "string"}}}]}
        ),
        tool(
            a=tool(x={"type": "string"}, y={"type": "string"})
            | {
                "description": "at least one of these must hold: "
                '[{"required":["x"]},{"properties":{"y":{"type":"string"}}}]'
            }
        ),
        "changed w.properties.a.anyOf",
    ),
    "booleans as schemas": case("gemini", tool(a=True, b=False), tool(a={}, b={}), "changed w.properties.b"),
    "booleans as schemas, OpenAI": case(
        "openai", tool(a=True, b=False, c={"items": True}), tool(a={}, b=False, c={"items": {}})
    ),
    "structure says its type": case(
        "gemini",
        tool(a={"properties": {"x": {}}}, b={"items": {}}, c={"enum": ["x"]}),
        tool(
            a={"type": "object", "properties": {"x": {}}},
            b={"type": "array", "items": {}},
            c={"type": "string", "enum": ["x"]},
        ),
    ),
    "required in an open object": case(
        "gemini",
        tool(a={"type": "object", "required": ["x"]}),
        tool(a={"type": "object", "description": 'required: ["x"]'}),
        "dropped w.properties.a.required",
    ),
    "endless lists": case(
        "gemini",
        tool(a={"type": "array", "items": {}, "maxItems": 5000}),
        tool(a={"type": "array", "items": {}, "description": "number of items at most 5000"}),
        "changed w.properties.a.maxItems",
    ),
    "G82 strict: optional is nullable": case(
        "openai",
        tool(
            a={"type": "string"},
            b={"type": "integer"},
            c={"$ref": "#/$defs/C"},
            d={"anyOf": [{"type": "string"}, {"type": "number"}]},
            e={"type": ["string", "null"]},
            f={"const": 1},
        )
        | {"required": ["a"], "$defs": {"C": tool(x={"type": "string"})}},
        tool(
            a={"type": "string"},
            b={"type": ["integer", "null"]},
            c={"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]},
            d={"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            e={"type": ["string", "null"]},
            f={"enum": [1, None]},
        )
        | {
            "required": ["a", "b", "c", "d", "e", "f"],
            "additionalProperties": False,
            "$defs": {
                "C": tool(x={"type": ["string", "null"]}) | {"required": ["x"], "additionalProperties": False}
            },
        },
        strict=True,
    ),
    "strict: as the client declared it": case(
        "openai",
        tool(a={"type": "string", "default": "x", "minLength": 1})
        | {"required": ["a"], "additionalProperties": False},
        tool(a={"type": "string", "default": "x", "minLength": 1})
        | {"required": ["a"], "additionalProperties": False},
        strict=True,
    ),
    "strict: refused keywords": case(
        "openai",
        tool(
            a={"type": "string", "format": "uri", "minLength": 1, "pattern": "^(?=a)"},
            b={"oneOf": [{"type": "string"}, {"type": "null"}]},
            c={"allOf": [{"$ref": "#/$defs/C"}], "description": "C."},
            d={"type": "integer", "minimum": 1, "default": 3},
        )
        | {"required": ["a", "b", "c", "d"], "$defs": {"C": {"type": "string"}}, "$schema": "x"},
        tool(
            a={"type": "string", "description": "format: uri; length at least 1; pattern: ^(?=a)"},
            b={"anyOf": [{"type": "string"}, {"type": "null"}]},
            c={"anyOf": [{"$ref": "#/$defs/C"}], "description": "C."},
            d={"type": "integer", "minimum": 1, "description": "default: 3"},
        )
        | {
            "required": ["a", "b", "c", "d"],
            "$defs": {"C": {"type": "string"}},
            "additionalProperties": False,
        },
        "changed w.properties.a.format",
        "changed w.properties.a.minLength",
        "changed w.properties.a.pattern",
        "changed w.properties.b.oneOf",
        "changed w.properties.d.default",
        "dropped w",
        strict=True,
    ),
    "strict: open objects close": case(
        "openai",
        tool(a={"type": "object", "additionalProperties": {"type": "string"}}) | {"required": ["a"]},
        tool(a=EMPTY | {"additionalProperties": False, "required": []})
        | {"required": ["a"], "additionalProperties": False},
        "changed w.properties.a.additionalProperties",
        strict=True,
    ),
    "a closed map by pattern to Gemini": case(
        "gemini",
        tool(
            env={
                "type": "object",
                "patternProperties": {"^[A-Z]+$": {"type": "string"}},
                "additionalProperties": False,
            }
        ),
        tool(
            env={
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": 'properties by pattern of their name: {"^[A-Z]+$":{"type":"string"}}',
            }
        ),
        "changed w.properties.env.patternProperties",
    ),
    "two patterns to Gemini": case(
        "gemini",
        tool(
            env={
                "type": "object",
                "patternProperties": {"^s": {"type": "string"}, "^n": {"type": "number"}},
                "additionalProperties": False,
            }
        ),
        tool(
            env={
                "type": "object",
                "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "description": "properties by pattern of their name: "
                '{"^s":{"type":"string"},"^n":{"type":"number"}}',
            }
        ),
        "changed w.properties.env.patternProperties",
    ),
    "types as protobuf numbers": case(
        "json", {"type": 6, "properties": {"q": {"type": 1}}}, tool(q={"type": "string"})
    ),
    "Anthropic strict": case(
        "json",
        tool(
            a={"type": "integer", "minimum": 1, "maximum": 5, "description": "A."},
            b={"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 2},
            c={"type": "array", "items": tool(), "minItems": 1},
            d={"type": "string", "format": "phone"},
        ),
        tool(
            a={"type": "integer", "description": "A. (at least 1; at most 5)"},
            b={
                "type": "array",
                "items": {"type": "string", "format": "uri"},
                "description": "number of items at least 2",
            },
            c={"type": "array", "items": EMPTY | {"additionalProperties": False}, "minItems": 1},
            d={"type": "string", "description": "format: phone"},
        )
        | {"additionalProperties": False},
        "changed w.properties.a.minimum",
        "changed w.properties.a.maximum",
        "changed w.properties.b.minItems",
        "changed w.properties.d.format",
        strict=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    target, strict, schema, expected, lost = CASES[name]
    before = copy.deepcopy(schema)
    losses = Losses()
    fitted = fit(schema, target, "w", losses, strict=strict)
    assert fitted == expected
    assert [f"{loss.kind} {loss.where}" for loss in losses] == list(lost)
    assert schema == before
    assert (fitted is schema) == (before == expected)


STRICTABLE = {
    "closed": (tool(a={"type": "string"}), True),
    "nothing": (None, True),
    "a map": (tool(a={"type": "object", "additionalProperties": {"type": "string"}}), False),
    "anything": (tool(a={}), False),
    "an open object": (tool(a={"type": "object"}), False),
    "an array of anything": (tool(a={"type": "array"}), False),
}


@pytest.mark.parametrize("name", STRICTABLE)
def test_whether_strict_mode_can_say_it(name: str) -> None:
    schema, expected = STRICTABLE[name]
    assert can_be_strict(schema) is expected


def test_a_result_is_remembered_and_cannot_be_spoilt() -> None:
    schema = tool(a={"type": "number", "exclusiveMinimum": 7})
    first, again = Losses(), Losses()
    fitted = fit(schema, "gemini", "tools[0].parameters", first)
    fitted["properties"].clear()
    assert fit(schema, "gemini", "tools[1].parameters", again)["properties"]
    assert [loss.where for loss in first] == ["tools[0].parameters.properties.a.exclusiveMinimum"]
    assert [loss.where for loss in again] == ["tools[1].parameters.properties.a.exclusiveMinimum"]


def test_few_definitions_cannot_spell_an_endless_schema() -> None:
    doubling = {
        f"A{i}": tool(x={"$ref": f"#/$defs/A{i + 1}"}, y={"$ref": f"#/$defs/A{i + 1}"}) for i in range(40)
    }
    schema = tool(a={"$ref": "#/$defs/A0", "description": "A."}) | {"$defs": doubling}
    losses = Losses()
    assert len(str(fit(schema, "gemini", "w", losses))) < 1_000_000
    assert len(losses)


def test_deep_nesting_is_cut() -> None:
    schema: Any = {"type": "string"}
    for _ in range(5000):
        schema = tool(a=schema)
    for target in TARGETS:
        losses = Losses()
        fit(schema, target, "w", losses)
        assert "It is nested too deeply." in [loss.why for loss in losses]


# Laws: whatever stands where a schema should be.

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
TYPE = st.sampled_from(
    ["string", "number", "integer", "boolean", "object", "array", "null", "STRING", "dict", "date", ""]
)
NAMES = st.sampled_from(["a", "b", "c"])
REFS = st.sampled_from(
    ["#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#/nope", "x.json"]
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many, named = st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
    keywords = {
        "type": TYPE | st.lists(TYPE, max_size=3),
        "enum": st.lists(SCALARS, max_size=3),
        "const": SCALARS,
        "$ref": REFS,
        "nullable": st.booleans(),
        "required": st.lists(NAMES, max_size=3) | st.booleans(),
        "exclusiveMinimum": st.integers(0, 3) | st.booleans(),
        "minItems": st.integers(0, 3),
        "description": st.just("D."),
        "default": SCALARS,
        "format": st.sampled_from(["uri", "date"]),
        "x-own": SCALARS,
        "additionalProperties": st.booleans() | inner,
        **dict.fromkeys(
            ["properties", "$defs", "definitions", "dependentSchemas", "patternProperties"], named
        ),
        **dict.fromkeys(["anyOf", "oneOf", "allOf", "prefixItems"], many),
        **dict.fromkeys(["items", "not", "if", "then", "else", "contains"], inner | many),
    }
    sound = st.fixed_dictionaries({}, optional=keywords)
    broken = st.dictionaries(st.sampled_from(list(keywords)), JSON, max_size=3)
    return sound | sound.flatmap(lambda schema: broken.map(lambda extra: schema | extra))


ANYTHING = JSON | st.recursive(
    st.booleans() | st.just({}) | TYPE.map(lambda name: {"type": name}), schemas, max_leaves=12
)
WAYS = st.sampled_from(
    [("json", False), ("openai", False), ("gemini", False), ("json", True), ("openai", True)]
)


@given(ANYTHING, WAYS)
def test_law_any_value_becomes_a_valid_object_schema(schema: Any, way: tuple[Any, bool]) -> None:
    target, strict = way
    before = copy.deepcopy(schema)
    fitted = fit(schema, target, "w", Losses(), strict=strict)
    assert schema == before
    assert fitted["type"] == "object"
    assert jsonschema_rs.meta.is_valid(fitted | {"$schema": "https://json-schema.org/draft/2020-12/schema"})


@given(ANYTHING, WAYS)
def test_law_what_was_fitted_fits(schema: Any, way: tuple[Any, bool]) -> None:
    target, strict = way
    fitted = fit(schema, target, "w", Losses(), strict=strict)
    losses = Losses()
    assert fit(fitted, target, "w", losses, strict=strict) == fitted
    assert list(losses) == []


@given(ANYTHING)
def test_law_gemini_gets_honoured_keywords_only(schema: Any) -> None:
    def check(node: Any, _path: str, _keyword: str) -> None:
        assert isinstance(node, dict)
        assert node.keys() <= (RULES["gemini"].keywords or set())
        assert "$ref" not in node or len(node) == 1
        assert set(node.get("required", ())) <= node.get("properties", {}).keys()
        map_children(node, "", check)

    check(fit(schema, "gemini", "w", Losses()), "", "")
