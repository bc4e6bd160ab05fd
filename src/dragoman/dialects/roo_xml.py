"""roo-xml: the tool's name is the tag, and so is each parameter's (Roo Code, Cline).

    <read>
    <filePath>/src/app.js</filePath>
    </read>

Any tag could be a tool, so a tag that no tool declares counts only where little else can be meant:
alone at the start of a line, not an HTML element, with nothing inside but distinct parameters in tags,
closed, and followed by the end of the reply or by another tag. Everything else is text.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from dragoman.core.model import Tool, Wire
from dragoman.dialects.base import Dialect, Made, Result
from dragoman.dialects.declared import Declared
from dragoman.dialects.grammar import Grammar, Sink, literal, tag
from dragoman.dialects.samples import describe, sample
from dragoman.dialects.source import Broken, Reader, Source
from dragoman.dialects.tags import PLAIN, Form, Strictness, head, read_parameters
from dragoman.dialects.values import spaced

_HEADER = """\
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
_HTML = """
a abbr address article aside audio b blockquote body br button canvas caption center circle cite code col
colgroup data dd defs del details dfn dialog div dl dt em fieldset figcaption figure font footer form g h1
h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li line link main map mark menu
meta nav noscript object ol optgroup option output p path picture polygon pre progress q rect s samp
script section select slot small source span strong style sub summary sup svg table tbody td template text
textarea tfoot th thead think thinking time title tr track u ul use var video wbr
"""
_ELEMENTS = frozenset(_HTML.split())


class RooXml(Dialect, frozen=True, kw_only=True):
    """`wrapped`: the tool sections stand in <tools>. `results`: how a result is worded, as the translation
    examples say it ("Tool Result from NAME:") or as Cline does ("[NAME for 'main parameter'] Result:")."""

    only_first: bool = True
    wrapped: bool = False
    results: Literal["plain", "cline"] = "plain"

    def grammars(self, declared: Declared) -> tuple[Grammar, ...]:
        known = tuple(f"<{name}>" for name in declared.names())
        found = (
            [Grammar(literal(*known), _reader(s)) for s in (Strictness(), Strictness(known=True))]
            if known
            else []
        )
        return (*found, Grammar(tag(), _read_undeclared, "line", leaks=False))

    def declare(self, tools: tuple[Tool, ...]) -> str:
        count = "Use exactly one tool per message" if self.only_first else "Use one or more tools per message"
        sections = "\n\n".join(_section(tool) for tool in tools)
        if self.wrapped:
            sections = f"<tools>\n{sections}\n</tools>"
        return f"{_HEADER.format(count=count)}\n\n{sections}"

    def write_calls(self, calls: tuple[Made, ...]) -> str:
        return "\n\n".join(_write(call.name, call.texts) for call in calls)

    def write_results(self, results: tuple[Result, ...]) -> str:
        return "\n\n".join(self._result(result) for result in results)

    def _result(self, result: Result) -> str:
        if self.results == "plain":
            return f"Tool {'Error' if result.failed else 'Result'} from {result.call.name}:\n{result.text}"
        main = next(
            (f" for '{value}'" for value in result.call.arguments.values() if isinstance(value, str)), ""
        )
        text = f"<error>{result.text}</error>" if result.failed else result.text
        return f"[{result.call.name}{main}] Result:\n{text}"


# declarations


def _section(tool: Tool) -> str:
    schema = tool.parameters or {}
    parameters: Wire = schema.get("properties") or {}
    required = schema.get("required") or ()
    lines = [f"## {tool.name}", f"Description: {tool.description}"]
    lines.append("Parameters:" if parameters else "Parameters: none")
    for name, about in parameters.items():
        need = "required" if name in required else "optional"
        lines.append(f"- {name}: ({need}) {describe(about, schema)}")
    samples = {name: sample(name, parameters, schema) for name in parameters}
    texts = {name: it if isinstance(it, str) else spaced(it) for name, it in samples.items()}
    return "\n".join([*lines, "", "Usage:", _write(tool.name, texts)])


def _write(name: str, arguments: dict[str, str]) -> str:
    return "\n".join(
        [f"<{name}>", *(_parameter(key, value) for key, value in arguments.items()), f"</{name}>"]
    )


def _parameter(name: str, text: str) -> str:
    """A long text stands on lines of its own, as the content of a file does in any case."""
    if "\n" in text or name == "content":
        text = f"\n{text}\n"
    return f"<{name}>{text}</{name}>"


# calls


def _form(name: str) -> Form:
    end = f"</{name}>"
    return Form("<", head(PLAIN), "</{}>", (end,), lost=re.compile(rf"\n\s*{re.escape(end)}"))


def _reader(strictness: Strictness) -> Any:
    def read(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
        opened = yield from source.expect(*(f"<{name}>" for name in declared.names()))
        name = opened[1:-1]
        gap = yield from source.space()
        arguments = yield from read_parameters(source, name, _form(name), declared, sink, strictness)
        if arguments == "{}" and declared.required(name) and "\n" not in gap:
            source.named = ""
            raise Broken("a tag in prose")
        sink.call(name, arguments)

    return read


def _read_undeclared(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    yield from source.expect("<")
    _, name = yield from head(PLAIN)(source)
    gap = yield from source.space()
    if not name or name in declared or name.lower() in _ELEMENTS or "\n" not in gap:
        raise Broken("not a tool")
    arguments = yield from read_parameters(
        source, name, _form(name), declared, sink, Strictness(distinct=True)
    )
    yield from source.space()
    if arguments == "{}" or not ((yield from source.exhausted()) or (yield from source.next("<"))):
        raise Broken("not a tool")
    sink.call(name, arguments)


DIALECT = RooXml(name="roo-xml")
