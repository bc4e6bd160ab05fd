"""minimax-m2: invocations in a block of MiniMax's own.

    <minimax:tool_call>
    <invoke name="get_weather">
    <parameter name="city">Paris</parameter>
    </invoke>
    </minimax:tool_call>

The template opens the reasoning: where a server passes it on unparsed, set `opened`.
"""

from __future__ import annotations

from functools import partial

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.source import Reader, Source
from dragoman.dialects.engine.tags import TAG_RULES, Invokes, TagRules, write_invoke
from dragoman.dialects.engine.values import DeclaredTools

_OPENS, _CLOSES = "<minimax:tool_call>", "</minimax:tool_call>"
_INVOKES = Invokes(_CLOSES)
_DECLARED = """\
# Tools

You may call one or more tools to help with the user's request. The tools, in JSONSchema format:

<tools>
{tools}
</tools>

To call tools, use this XML format with as many <invoke> as there are calls:
<minimax:tool_call>
<invoke name="tool-name-1">
<parameter name="param-key-1">param-value-1</parameter>
<parameter name="param-key-2">param-value-2</parameter>
</invoke>
</minimax:tool_call>"""


class MinimaxM2(Dialect, frozen=True, kw_only=True):
    gap: str = "\n"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return tuple(CallGrammar(opens_with(_OPENS), partial(_read, rules)) for rules in TAG_RULES)

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        shown = (f"<tool>{spaced(declaration(tool)['function'])}</tool>" for tool in tools)
        return _DECLARED.format(tools="\n".join(shown))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "\n".join([_OPENS, *(write_invoke(call) for call in calls), _CLOSES])

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "\n".join(f"<response>{result.text}</response>" for result in results)


def _read(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(_OPENS)
    yield from _INVOKES.read_block(source, declared, sink, rules)


DIALECT = MinimaxM2(name="minimax-m2")
