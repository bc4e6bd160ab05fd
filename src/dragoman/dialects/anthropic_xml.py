"""anthropic-xml: invocations in a block, parameters by attribute, values inline and to the byte.

    <function_calls>
    <invoke name="get_weather">
    <parameter name="city">Paris</parameter>
    </invoke>
    </function_calls>

Read as well: a namespace before the tags, an invocation without its block, and the older form
(`<invoke> <tool_name>…</tool_name> <parameters> <city>Paris</city> </parameters> </invoke>`).
"""

from __future__ import annotations

import re

from dragoman.core.model import Tool, ToolCall, Wire
from dragoman.dialects.base import Dialect, Result
from dragoman.dialects.declared import Declared, arguments_of
from dragoman.dialects.grammar import Grammar, Opening, Sink
from dragoman.dialects.rendering import spaced, written
from dragoman.dialects.source import Broken, Reader, Source
from dragoman.dialects.tags import ATTRIBUTE, PLAIN, Form, Strictness, head, read_parameters

_DECLARED = """\
You may use the tools below to answer. To call tools, write a block of this form:

<function_calls>
<invoke name="$FUNCTION_NAME">
<parameter name="$PARAMETER_NAME">$PARAMETER_VALUE</parameter>
</invoke>
</function_calls>

Strings and numbers stand as they are; lists and objects are written as JSON. White space in a value counts.
Several <invoke> in one block are several calls. End your reply after the block: <function_results> follow.

The functions, each as JSON Schema:
<functions>
{tools}
</functions>"""
_OPENING = Opening(r"<(?:\w{1,16}:)?(?:function_calls>|invoke\b)", r"<[\w:]{0,32}", 34)
_HEAD = re.compile(r"((?:\w+:)?)(function_calls|invoke)")
_WORD = re.compile(r"[\w:]*")


class AnthropicXml(Dialect, frozen=True, kw_only=True):
    def grammars(self, declared: Declared) -> tuple[Grammar, ...]:
        return (Grammar(_OPENING, _read),)

    def declare(self, tools: tuple[Tool, ...]) -> str:
        return _DECLARED.format(
            tools="\n".join(f"<function>{spaced(_function(tool))}</function>" for tool in tools)
        )

    def write_calls(self, calls: tuple[ToolCall, ...], declared: Declared) -> str:
        invokes = "\n".join(_invoke(call.name, arguments_of(call)) for call in calls)
        return f"<function_calls>\n{invokes}\n</function_calls>"

    def write_results(self, results: tuple[Result, ...]) -> str:
        return "<function_results>\n" + "\n".join(map(_result, results)) + "\n</function_results>"


def _function(tool: Tool) -> Wire:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}}


def _invoke(name: str, arguments: Wire) -> str:
    lines = [f'<parameter name="{key}">{written(value)}</parameter>' for key, value in arguments.items()]
    return "\n".join([f'<invoke name="{name}">', *lines, "</invoke>"])


def _result(result: Result) -> str:
    kind = "error" if result.failed else "stdout"
    return f"<result>\n<tool_name>{result.name}</tool_name>\n<{kind}>{result.text}</{kind}>\n</result>"


def _read(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    yield from source.expect("<")
    found = _HEAD.fullmatch((yield from source.run(_WORD)))
    if not found:
        raise Broken("no block of calls")
    prefix, kind = found[1], found[2]
    if kind == "invoke":
        yield from _read_invoke(prefix, source, declared, sink)
        return
    yield from source.expect(">")
    opens, closes = f"<{prefix}invoke", f"</{prefix}function_calls>"
    called = False
    while True:
        yield from source.space()
        if not (yield from source.skip(opens)):
            break
        yield from _read_invoke(prefix, source, declared, sink)
        called = True
    if not called:
        raise Broken("a block without calls")
    if not (yield from source.close(closes)):
        source.reset()


def _read_invoke(prefix: str, source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    _, name = yield from head(ATTRIBUTE)(source)
    end = f"</{prefix}invoke>"
    if name:
        form = Form(f"<{prefix}parameter", head(ATTRIBUTE), f"</{prefix}parameter>", (end,), framed=False)
        sink.call(name, (yield from read_parameters(source, name, form, declared, Strictness())))
        return
    yield from source.space()
    yield from source.expect("<tool_name>")
    name = (yield from source.until("</tool_name>")).strip()
    yield from source.space()
    yield from source.expect("<parameters>")
    form = Form("<", head(PLAIN), "</{}>", ("</parameters>",), framed=False)
    arguments = yield from read_parameters(source, name, form, declared, Strictness())
    yield from source.space()
    yield from source.expect(end)
    sink.call(name, arguments)


DIALECT = AnthropicXml(name="anthropic-xml")
