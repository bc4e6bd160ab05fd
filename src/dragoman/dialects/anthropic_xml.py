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
from functools import partial

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Opening, Sink
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import TAG_RULES, Invokes, TagRules, write_invoke
from dragoman.dialects.engine.values import DeclaredTools

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
_OPENING = Opening(r"<(?:\w{1,16}:)?(?:function_calls>|invoke\b)", r"<[\w:]{0,32}", 34, "<")
_HEAD = re.compile(r"((?:\w+:)?)(function_calls|invoke)")
_WORD = re.compile(r"[\w:]*")


class AnthropicXml(Dialect, frozen=True, kw_only=True):
    marks_failures: bool = True

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return tuple(CallGrammar(_OPENING, partial(_read, rules)) for rules in TAG_RULES)

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        functions = (f"<function>{spaced(declaration(tool)['function'])}</function>" for tool in tools)
        return _DECLARED.format(tools="\n".join(functions))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        invokes = "\n".join(write_invoke(call) for call in calls)
        return f"<function_calls>\n{invokes}\n</function_calls>"

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "<function_results>\n" + "\n".join(map(_result, results)) + "\n</function_results>"


def _result(result: RenderedResult) -> str:
    kind = "error" if result.failed else "stdout"
    return f"<result>\n<tool_name>{result.call.name}</tool_name>\n<{kind}>{result.text}</{kind}>\n</result>"


def _read(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect("<")
    found = _HEAD.fullmatch((yield from source.run(_WORD)))
    if not found:
        raise Broken("no block of calls")
    form = Invokes(f"</{found[1]}function_calls>", found[1], older=True)
    if found[2] == "invoke":
        yield from form.read_invoke(source, declared, sink, rules)
    else:
        yield from source.expect(">")
        yield from form.read_block(source, declared, sink, rules)


DIALECT = AnthropicXml(name="anthropic-xml")
