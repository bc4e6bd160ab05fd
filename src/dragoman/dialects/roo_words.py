"""What roo-xml tells a model: how to call tools, which there are, and what they answered."""

from __future__ import annotations

from typing import Any, Protocol, cast

from dragoman.core.model import Tool, Wire
from dragoman.dialects.engine.rendering import RenderedResult
from dragoman.dialects.engine.samples import describe, sample
from dragoman.dialects.engine.values import resolved, spaced

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


class Words(Protocol):
    def header(self, *, several: bool) -> str: ...

    def section(self, tool: Tool) -> str: ...

    def result(self, result: RenderedResult) -> str: ...


class Plain:
    """As the translation examples have it, to the letter."""

    def header(self, *, several: bool) -> str:
        return _PLAIN.format(
            count="Use one or more tools per message" if several else "Use exactly one tool per message"
        )

    def section(self, tool: Tool) -> str:
        schema, parameters = _parameters(tool)
        samples = {name: sample(name, parameters, schema) for name in parameters}
        texts = {name: it if isinstance(it, str) else spaced(it) for name, it in samples.items()}
        return _section(tool, {name: describe(about, schema) for name, about in parameters.items()}, texts)

    def result(self, result: RenderedResult) -> str:
        return f"Tool {'Error' if result.failed else 'Result'} from {result.call.name}:\n{result.text}"


class Cline:
    """As Cline has it: no types, placeholders for values, and results that repeat the main parameter."""

    def header(self, *, several: bool) -> str:
        return _CLINE.format(
            count="Use one or more tools per message" if several else "Use one tool per message"
        )

    def section(self, tool: Tool) -> str:
        schema, parameters = _parameters(tool)
        told = {name: str(resolved(it, schema).get("description") or "") for name, it in parameters.items()}
        return _section(tool, told, {name: f"{name} here" for name in parameters})

    def result(self, result: RenderedResult) -> str:
        given = [value for value in result.call.arguments.values() if isinstance(value, str)]
        main = f" for '{given[0]}'" if given else ""
        text = f"<error>{result.text}</error>" if result.failed else result.text
        return f"[{result.call.name}{main}] Result:\n{text}"


PLAIN, CLINE = Plain(), Cline()


def _parameters(tool: Tool) -> tuple[Wire, Wire]:
    """The schema of a tool, and its parameters."""
    schema = tool.parameters or {}
    return schema, cast(Wire, schema.get("properties") or {})


def _section(tool: Tool, told: dict[str, str], usage: dict[str, str]) -> str:
    required = cast(list[Any], (tool.parameters or {}).get("required") or [])
    lines = [f"## {tool.name}", f"Description: {tool.description}"]
    lines.append("Parameters:" if told else "Parameters: none")
    for name, about in told.items():
        lines.append(f"- {name}: ({'required' if name in required else 'optional'}) {about}".rstrip())
    return "\n".join([*lines, "", "Usage:", call(tool.name, usage)])
