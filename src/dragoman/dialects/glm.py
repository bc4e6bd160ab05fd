"""glm: keys and values in tags of their own, values inline and to the byte (GLM 4.5, 4.6, 4.7, 5).

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

Strings stand as they are and everything else as JSON, so the schema says which is which.
"""

from __future__ import annotations

import re
from functools import partial

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with, stray
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, declaration
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import TAG_RULES, ParameterForm, TagRules, read_parameters
from dragoman.dialects.engine.values import DeclaredTools

_DECLARED = """\
# Tools

You may call one or more functions to help with the user's request.

The function signatures stand within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, output the function's name and its arguments in this XML format:
<tool_call>{{function-name}}
<arg_key>{{arg-key-1}}</arg_key>
<arg_value>{{arg-value-1}}</arg_value>
<arg_key>{{arg-key-2}}</arg_key>
<arg_value>{{arg-value-2}}</arg_value>
</tool_call>"""
_NAME = re.compile(r"[^\s<>{}\[\]\"\\]*")
_GAP = re.compile(r"[\s\\n]*")  # some servers print the newlines between tags as \n


class Glm(Dialect, frozen=True, kw_only=True):
    gap: str = "\n"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        calls = (CallGrammar(opens_with("<tool_call>"), partial(_read, rules)) for rules in TAG_RULES)
        return (*calls, stray("</tool_call>", "<|observation|>"))

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n".join(spaced(declaration(tool)) for tool in tools))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "\n".join(_call(call) for call in calls)


def _call(call: EarlierCall) -> str:
    pairs = (f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>" for key, value in call.texts.items())
    return "\n".join([f"<tool_call>{call.name}", *pairs, "</tool_call>"])


def _key(source: Source) -> Reader[tuple[str, str]]:
    key = yield from source.until("</arg_key>")
    gap = yield from source.run(_GAP, 0)
    yield from source.expect("<arg_value>")
    return f"{key}</arg_key>{gap}<arg_value>", key.strip()


_FORM = ParameterForm(
    "<arg_key>",
    _key,
    "</arg_value>",
    ("</tool_call>",),
    framed=False,
    gap=_GAP,
    lost=re.compile(r"<arg_key>([^<>]*)</arg_key>"),
)


def _read(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect("<tool_call>")
    yield from source.space()
    name = yield from source.run(_NAME)
    if not name:
        raise Broken("a call without a name")
    sink.call(name, (yield from read_parameters(source, name, _FORM, declared, sink, rules)))


DIALECT = Glm(name="glm")
