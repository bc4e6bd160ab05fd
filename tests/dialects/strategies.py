"""Tools, arguments and texts that try to confuse a dialect."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.core.model import ToolCall, ToolDeclaration

# Pieces of every dialect, of Markdown, and of what looks like either
FRAGMENTS = [
    "<tool_call>", "</tool_call>", "<function=", "<function=read>", "</function>", "<parameter=path>",
    "</parameter>", "<read>", "</read>", "<path>", "</path>", "</content>",
    "<bash>\n<command>ls</command>\n</bash>", "<div>\n<p>hi</p>\n</div>", "<function_calls>",
    "</function_calls>", '<invoke name="read">', "</invoke>", '<parameter name="path">', "<think>",
    "</think>", "```", "```json\n", "`", "~~~\n", "\n", "\n\n", " ", "  ",
    '{"name": "read", "arguments": {"path": "a"}}', '{"name": "read", "parameters": {}}', '{"', "{", "}",
    "[", "]", '"', "'", "\\", ",", ":", "=", ">", "<", "</", "/", "a", "word", "two words.", "read", "(",
    ")", "[read(path='a')]", "read(path=", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "123456789", "[THINK]",
    "[/THINK]", "<|python_tag|>", "<|python_start|>", "<|tool_call_start|>", "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>", "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<｜DSML｜function_calls>", '<｜DSML｜invoke name="read">',
    '<｜DSML｜parameter name="path" string="true">', "</｜DSML｜parameter>", "</｜DSML｜invoke>",
    "<arg_key>path</arg_key>", "<arg_value>", "</arg_value>", "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>", "functions.read:0", "<|tool_call_argument_begin|>",
    "<|tool_calls_section_end|>", "<minimax:tool_call>", "</minimax:tool_call>", "<|channel|>",
    "<|message|>", "<|call|>", "<|end|>", "<|start|>assistant", "commentary to=functions.read",
    "analysis", "final", "<|constrain|>json", "<|tool_call>", "call:read{path:", '<|"|>', "<tool_call|>",
    "<|tool_call|>", "<function_call>", "é", "🎉", "\u2028", "&lt;", "null", "true", "12", "-1.50", "\t",
    "\r\n", "\x00",
]  # fmt: skip

plain = st.text(st.characters(codec="utf-8"), max_size=12)
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), plain), max_size=14).map("".join)
tidy = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "Zs", "P"], exclude_characters="<>`~[]{}"), max_size=40
)
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_\-]{0,15}", fullmatch=True)

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
FIELDS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, texts),
    ({"type": "string", "description": "Some text"}, texts),
    ({"type": "integer"}, st.integers(-(2**70), 2**70)),
    ({"type": "number"}, st.one_of(st.integers(-99, 99), st.floats(allow_nan=False, allow_infinity=False))),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"type": "array", "items": {}}, st.lists(json_values, max_size=3)),
    ({"type": "object"}, st.dictionaries(texts, json_values, max_size=3)),
    ({"type": "string", "enum": ["none", "null", "1"]}, st.sampled_from(["none", "null", "1"])),
    ({"enum": ["a", 1, None, True]}, st.sampled_from(["a", 1, None, True])),
    ({"type": ["integer", "null"]}, st.one_of(st.none(), st.integers(-9, 9))),
    ({"anyOf": [{"type": "integer"}, {"type": "object"}]}, st.one_of(st.integers(), st.just({"a": 1}))),
    ({"$ref": "#/$defs/Flag"}, st.booleans()),
    ({"type": "boolean", "nullable": True}, st.one_of(st.none(), st.booleans())),
]


@st.composite
def calls(draw: st.DrawFn, strings: st.SearchStrategy[str] | None = None) -> tuple[ToolDeclaration, ToolCall]:
    """A tool, and a call that follows its declaration."""
    properties: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        schema, values = draw(st.sampled_from(FIELDS[:1] if strings is not None else FIELDS))
        properties[name] = schema
        arguments[name] = draw(values if strings is None else strings)
    schema = {"type": "object", "properties": properties, "$defs": {"Flag": {"type": "boolean"}}}
    name = draw(names)
    return ToolDeclaration(name, draw(tidy), schema), ToolCall("call_1", name, jsontext.dumps(arguments))


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """`text` in pieces: single characters, or at a few places."""
    if draw(st.booleans()):
        return list(text)
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True) if a < b]
