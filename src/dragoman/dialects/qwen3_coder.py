"""qwen3-coder: the function and its parameters are tags (Qwen3-Coder, Qwen 3.5, Step 3.5, Nemotron 3).

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

Models forget the wrapper and closing tags; a value without its closing tag ends at the next parameter.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration, Wire
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import EQUALS, TAG_RULES, ParameterForm, TagRules, head, read_parameters
from dragoman.dialects.engine.values import DeclaredTools

_DECLARED = """\
# Tools

You have access to the following functions:

<tools>
{tools}
</tools>

To call a function, reply ONLY in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- A call is a <function=...></function> block nested within <tool_call></tool_call> tags
- Required parameters MUST be given
- You may explain a call in natural language BEFORE it, but NOT after it
- If no function is of use, answer as usual and do not mention function calls
</IMPORTANT>"""
_FORM = ParameterForm(
    "<parameter",
    head(EQUALS),
    "</parameter>",
    ("</function>", "</tool_call>"),
    lost=re.compile(r"<parameter\s*=\s*[\"']?([^<>\n]+?)[\"']?\s*>|</function>\s*</tool_call>"),
)


class Qwen3Coder(Dialect, frozen=True, kw_only=True):
    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        opening = opens_with("<tool_call>", "<function=")
        return tuple(CallGrammar(opening, partial(_read, rules)) for rules in TAG_RULES)

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n".join(_function(tool) for tool in tools))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "\n".join(_call(call) for call in calls)


def _function(tool: ToolDeclaration) -> str:
    schema = tool.parameters or {}
    lines = ["<function>", f"<name>{tool.name}</name>", f"<description>{tool.description}</description>"]
    lines.append("<parameters>")
    parameters: Wire = schema.get("properties") or {}
    for name, about in parameters.items():
        lines += ["<parameter>", f"<name>{name}</name>", *_tags(about), "</parameter>"]
    lines += _tags({key: value for key, value in schema.items() if key not in ("type", "properties")})
    return "\n".join([*lines, "</parameters>", "</function>"])


def _tags(about: Any) -> list[str]:
    """Each keyword of a schema in a tag of its own."""
    keywords = cast(Wire, about) if isinstance(about, dict) else {}
    return [f"<{key}>{it if isinstance(it, str) else spaced(it)}</{key}>" for key, it in keywords.items()]


def _call(call: EarlierCall) -> str:
    values = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in call.texts.items())
    return f"<tool_call>\n<function={call.name}>\n{values}</function>\n</tool_call>"


def _read(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    if (yield from source.skip("<tool_call>")):
        yield from source.space()
    yield from source.expect("<function")
    _, name = yield from head(EQUALS)(source)
    if not name:
        raise Broken("a function without a name")
    sink.call(name, (yield from read_parameters(source, name, _FORM, declared, sink, rules)))
    if not (yield from source.close("</tool_call>")):
        source.reset()


DIALECT = Qwen3Coder(name="qwen3-coder")
