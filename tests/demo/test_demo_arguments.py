"""Whatever schema a tool declares, the demo's arguments are valid for it."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.core.model import ToolDeclaration
from dragoman.demo.arguments import arguments, matching
from waiting import finish


def only(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **more}


SCHEMAS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no properties": {"type": "object", "properties": {}},
    "required without a declaration": {"type": "object", "required": ["x", "y"]},
    "a boolean schema": only(True),  # type: ignore[arg-type]
    "const": only({"const": {"a": [1, None]}}),
    "an enum of numbers": only({"enum": [3, 1, 2]}),
    "an enum with null": only({"type": ["string", "null"], "enum": [None, "a"]}),
    "several types": only({"type": ["integer", "null"]}),
    "null": only({"type": "null"}),
    "a range": only({"type": "integer", "minimum": 5, "maximum": 6}),
    "below zero": only({"type": "integer", "maximum": -3}),
    "an open range": only({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    "a narrow range": only({"type": "number", "minimum": 0.25, "maximum": 0.5}),
    "multiples": only({"type": "integer", "multipleOf": 7, "minimum": 8}),
    "fractions": only({"type": "number", "multipleOf": 0.25, "minimum": 0.3}),
    "a long text": only({"type": "string", "minLength": 200}),
    "a short text": only({"type": "string", "maxLength": 2}),
    "no text": only({"type": "string", "maxLength": 0}),
    "a pattern with an example": only(
        {"type": "string", "pattern": r"^[A-Z]{3}-\d{4}$", "examples": ["ABC-1234"]}
    ),
    "a pattern and a length": only(
        {"type": "string", "pattern": "^[a-f0-9]+$", "minLength": 32, "maxLength": 40}
    ),
    "a pattern of alternatives": only({"type": "string", "pattern": r"^(?:v(\d+)\.(\d+)|latest)$"}),
    "a negative class": only({"type": "string", "pattern": "^[^a-z0-9]+$"}),
    "a date": only({"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"}),
    "an address": only({"type": "string", "format": "uri"}),
    "an array": only({"type": "array", "items": {"type": "integer"}, "minItems": 3}),
    "an array of different things": only(
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 3}
    ),
    "an array of different texts": only(
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2}
    ),
    "an array of nothing": only({"type": "array", "maxItems": 0}),
    "a tuple": only({"type": "array", "prefixItems": [{"type": "integer"}, {"const": "b"}], "minItems": 2}),
    "an array that contains": only({"type": "array", "contains": {"const": 7}}),
    "an array of arrays": only(
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 2}}
    ),
    "anyOf": only({"anyOf": [{"type": "string", "maxLength": 0, "minLength": 1}, {"type": "integer"}]}),
    "oneOf that overlaps": only({"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 0}]}),
    "allOf": only(
        {
            "allOf": [
                {"type": "object", "required": ["a"]},
                {"properties": {"a": {"type": "integer"}}, "required": ["b"]},
            ]
        }
    ),
    "not": only({"not": {"type": "string"}}),
    "if and then": {
        "type": "object",
        "properties": {"kind": {"enum": ["file", "url"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "file"}}},
        "then": {"properties": {"path": {"type": "string"}}, "required": ["path"]},
        "else": {"properties": {"url": {"type": "string"}}, "required": ["url"]},
    },
    "tagged objects": only(
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"t": {"const": "a"}, "n": {"type": "integer"}},
                    "required": ["t", "n"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"t": {"const": "b"}},
                    "required": ["t"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
    "definitions": {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/Thing", "description": "beside"}},
        "required": ["x"],
        "$defs": {
            "Thing": {"type": "object", "properties": {"n": {"$ref": "#/$defs/Small"}}, "required": ["n"]},
            "Small": {"type": "integer", "maximum": 3},
        },
    },
    "a tree": {
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
                "required": ["children"],
            }
        },
        **only({"$ref": "#/$defs/Node"}),
    },
    "a reference to a property": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}},
        "required": ["a", "b"],
    },
    "a free map": only({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}),
    "a map with names": only(
        {"type": "object", "propertyNames": {"pattern": "^k_[a-z]+$"}, "minProperties": 2}
    ),
    "a map by pattern": only(
        {
            "type": "object",
            "patternProperties": {"^n\\d$": {"type": "number"}},
            "additionalProperties": False,
            "minProperties": 1,
        }
    ),
    "one depends on another": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
    },
    "at least two of three": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
        "minProperties": 2,
        "additionalProperties": False,
    },
    "either of two": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_arguments_are_valid(name: str) -> None:
    schema = SCHEMAS[name]
    made = arguments(ToolDeclaration("t", "", schema), "do something in Paris")
    jsonschema_rs.validate(schema, jsontext.decode(made))


LEAVES = st.one_of(
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-50, 50),
        st.integers(0, 9),
    ),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        st.integers(0, 40),
        st.integers(0, 9),
    ),
    st.builds(
        lambda options: {"enum": options},
        st.lists(st.one_of(st.text(max_size=4), st.integers(), st.none()), min_size=1, max_size=4),
    ),
    st.just({"type": "boolean"}),
    st.just({"type": ["null", "number"]}),
)


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(st.sampled_from("abcdef"), inner, min_size=1, max_size=4)
    return st.one_of(
        st.builds(
            lambda some, keep: {
                "type": "object",
                "properties": some,
                "required": sorted(some)[:keep],
                "additionalProperties": False,
            },
            fields,
            st.integers(0, 4),
        ),
        st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            inner,
            st.integers(0, 3),
        ),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one: {"allOf": [one, {"description": "x"}]}, inner),
    )


@given(st.recursive(LEAVES, nested, max_leaves=8))
def test_arguments_are_valid_for_any_schema(schema: dict[str, Any]) -> None:
    whole = only(schema)
    jsonschema_rs.validate(whole, jsontext.decode(arguments(ToolDeclaration("t", "", whole), "do it")))


def test_a_schema_that_is_none_still_gets_an_object() -> None:
    made = arguments(
        ToolDeclaration("t", "", {"type": "OBJECT", "properties": 7, "required": 3, "minimum": "x"}), "do it"
    )
    assert isinstance(jsontext.decode(made), dict)


def test_a_freeform_tool_gets_text() -> None:
    assert arguments(ToolDeclaration("apply_patch", kind="custom"), " *** Begin Patch ") == "*** Begin Patch"


PATTERNS = [
    r"^\d{3}$",
    r"a|b",
    r"^\w+@\w+\.(com|org)$",
    r"[^\W\d]{2,}",
    r"^.{5,9}$",
    r"\s",
    r"^$",
    "^id_[a-z]+$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_matched(pattern: str) -> None:
    assert re.search(pattern, next(matching(pattern)))


@pytest.mark.parametrize("pattern", ["(", r"^[A-Z]{3}-\d{4}$", r"^(a+)+b$"])
def test_a_pattern_for_which_nothing_is_found(pattern: str) -> None:
    assert list(matching(pattern, 40)) == []


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_where_scripts_run_commands_a_script_is_written(kind: Any) -> None:
    """Codex declares its shell so for its newest models."""
    tool = ToolDeclaration(
        "exec", "JavaScript. Nested tools: tools.exec_command(args)", only({"type": "string"}), kind=kind
    )
    made = arguments(tool, "run `ls -l`")
    script = made if kind == "custom" else jsontext.decode(made.encode())["x"]
    assert script == 'const said = await tools.exec_command({cmd: "ls -l"}); text(said.output)'


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "nothing is allowed"])
def test_wide_and_deep_schemas_take_no_time(allowed: bool) -> None:
    """Each level would try every selection of its properties, and so would each level below."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(4):
        inner = {"not": {}} if not allowed and schema["type"] == "string" else schema
        names = [f"p{number}" for number in range(8)]
        schema = {"type": "object", "properties": dict.fromkeys(names, inner), "minProperties": 1}
    finish(arguments, ToolDeclaration("t", "", schema), "do it")
