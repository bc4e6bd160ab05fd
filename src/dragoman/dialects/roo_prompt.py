"""The prompt of roo-xml: how to call tools, the declared tools, and the results of calls.

`plain` is worded to the letter of the translation examples, `cline` as Cline words it.
"""

from __future__ import annotations

from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration, Wire
from dragoman.dialects.engine.dialect import RenderedResult
from dragoman.dialects.engine.values import Schema, kinds_of
from dragoman.schemas.walk import resolved

_PLAIN = """\
You have access to tools that help you accomplish tasks. Use tools by outputting XML-formatted tool calls.

## Tool Use Rules
1. {count}
2. Format tool calls using XML with the tool name as the tag
3. Include all required parameters within parameter tags

## Tool Call Format
<tool_name>
<parameter1>value1</parameter1>
<parameter2>value2</parameter2>
</tool_name>

## Available Tools"""
_CLINE = """\
TOOL USE

You have access to a set of tools. {count}, and use each result to decide on the next step.

# Tool Use Formatting

A tool use is written in XML-style tags: the tool's name is the tag, each parameter has its own tags inside:

<tool_name>
<parameter1_name>value1</parameter1_name>
<parameter2_name>value2</parameter2_name>
</tool_name>

# Tools"""


def call(name: str, arguments: dict[str, str]) -> str:
    return "\n".join([f"<{name}>", *(_parameter(key, text) for key, text in arguments.items()), f"</{name}>"])


def _parameter(name: str, text: str) -> str:
    """A long text stands on lines of its own, as the content of a file does in any case."""
    return f"<{name}>\n{text}\n</{name}>" if "\n" in text or name == "content" else f"<{name}>{text}</{name}>"


class PlainStyle:
    """As in the translation examples, to the letter."""

    def header(self, *, several: bool) -> str:
        return _PLAIN.format(
            count="Use one or more tools per message" if several else "Use exactly one tool per message"
        )

    def section(self, tool: ToolDeclaration) -> str:
        schema, parameters = _parameters(tool)
        samples = {name: sample(name, parameters, schema) for name in parameters}
        texts = {name: it if isinstance(it, str) else spaced(it) for name, it in samples.items()}
        return _section(tool, {name: describe(about, schema) for name, about in parameters.items()}, texts)

    def result(self, result: RenderedResult) -> str:
        return f"Tool {'Error' if result.failed else 'Result'} from {result.call.name}:\n{result.text}"


class ClineStyle:
    """As in Cline: no types, placeholders for values, and results that repeat the main parameter."""

    def header(self, *, several: bool) -> str:
        return _CLINE.format(
            count="Use one or more tools per message" if several else "Use one tool per message"
        )

    def section(self, tool: ToolDeclaration) -> str:
        schema, parameters = _parameters(tool)
        descriptions = {
            name: str(resolved(it, schema).get("description") or "") for name, it in parameters.items()
        }
        return _section(tool, descriptions, {name: f"{name} here" for name in parameters})

    def result(self, result: RenderedResult) -> str:
        given = [value for value in result.call.arguments.values() if isinstance(value, str)]
        main = f" for '{given[0]}'" if given else ""
        text = f"<error>{result.text}</error>" if result.failed else result.text
        return f"[{result.call.name}{main}] Result:\n{text}"


PLAIN, CLINE = PlainStyle(), ClineStyle()


def _parameters(tool: ToolDeclaration) -> tuple[Wire, Wire]:
    """The schema of a tool, and its parameters."""
    schema = tool.parameters or {}
    return schema, cast(Wire, schema.get("properties") or {})


def _section(tool: ToolDeclaration, descriptions: dict[str, str], usage: dict[str, str]) -> str:
    required = cast(list[Any], (tool.parameters or {}).get("required") or [])
    lines = [f"## {tool.name}", f"Description: {tool.description}"]
    lines.append("Parameters:" if descriptions else "Parameters: none")
    for name, about in descriptions.items():
        lines.append(f"- {name}: ({'required' if name in required else 'optional'}) {about}".rstrip())
    return "\n".join([*lines, "", "Usage:", call(tool.name, usage)])


# name, lower case and without underscores -> (in short, where the description says more than two words)
_SAMPLES: dict[str, tuple[Any, Any]] = {
    "filepath": ("/path/to/file", "/path/to/file.js"),
    "path": ("/path/to/file", "/path/to/file.js"),
    "command": ("npm install", "npm install axios"),
    "description": ("Install dependencies", "Install axios package for HTTP requests"),
    "content": ("console.log('Hello World');", "console.log('Hello World');"),
    "offset": (10, 10),
    "limit": (50, 50),
    "timeout": (30000, 30000),
}
_WRITTEN = "/src/app.js"  # a tool with a path and a content writes this file
_BY_KIND: dict[str, Any] = {"string": "value", "number": 10, "integer": 10, "boolean": True, "null": None}


def describe(schema: Schema, root: Wire) -> str:
    """`string - What it is for`, with whatever else the schema says."""
    found = resolved(schema, root)
    about = str(found.get("description") or "")
    rest = {
        key: value for key, value in found.items() if key not in ("type", "description", "title", "$schema")
    }
    known = f"{about} JSON Schema: {jsontext.dumps(rest)}".strip() if rest else about
    kind = " or ".join(kinds_of(found)) or "any"
    return f"{kind} - {known}" if known else kind


def sample(name: str, parameters: Wire, root: Wire) -> Any:
    """A value for the usage example, the same every time."""
    schema = resolved(parameters[name], root)
    given = _list_given(schema)
    if given:
        return given[0]
    kinds = kinds_of(schema)
    plain = name.lower().replace("_", "")
    short, full = _SAMPLES.get(plain, (None, None))
    if _fits(short, kinds):
        if plain in ("filepath", "path") and "content" in parameters:
            return _WRITTEN
        return full if len(str(schema.get("description", "")).split()) > 2 else short
    return _by_kind(kinds[0] if kinds else "string", schema, root)


def _list_given(schema: Wire) -> list[Any]:
    """What the schema itself offers as an example."""
    for key in ("examples", "enum"):
        if isinstance(values := schema.get(key), list) and values:
            return cast(list[Any], values)
    return [schema[key] for key in ("const", "default") if schema.get(key) is not None]


def _fits(value: Any, kinds: tuple[str, ...]) -> bool:
    if value is None:
        return False
    return not kinds or bool(
        {"string"} & {*kinds} if isinstance(value, str) else {"number", "integer"} & {*kinds}
    )


def _by_kind(kind: str, schema: Wire, root: Wire, depth: int = 0) -> Any:
    if kind == "array":
        return [_fill_nested(schema.get("items"), root, depth)]
    if kind == "object":
        properties = cast(Wire, schema.get("properties") or {})
        return {name: _fill_nested(inner, root, depth) for name, inner in properties.items()}
    return _BY_KIND.get(kind, "value")


def _fill_nested(schema: Schema, root: Wire, depth: int) -> Any:
    found = resolved(schema, root)
    if given := _list_given(found):
        return given[0]
    kinds = kinds_of(found)
    return _by_kind(kinds[0] if kinds and depth < 4 else "string", found, root, depth + 1)
