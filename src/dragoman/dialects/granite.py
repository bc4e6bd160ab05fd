"""granite: a JSON array behind a marker, without an end (Granite 3).

    <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]

Read as well: the same behind `<tool_call>` (3.1 to 3.3), and `<function_call>` before each object (20B).
Granite 4 speaks hermes.
"""

from __future__ import annotations

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, declaration
from dragoman.dialects.engine.payloads import make_tagged
from dragoman.dialects.engine.values import DeclaredTools

_DECLARED = """\
You are a helpful assistant with access to the following tools. When a tool is required to answer, respond \
with <|tool_call|> followed by a JSON list of the calls: \
<|tool_call|>[{{"name": "tool_name", "arguments": {{"key": "value"}}}}]
If no tool can help, answer in words.

Available tools:
{tools}"""


class Granite(Dialect, frozen=True, kw_only=True):
    gap: str = "\n"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (
            make_tagged("<|tool_call|>", "<|end_of_text|>"),
            make_tagged("<tool_call>", "</tool_call>"),
            make_tagged("<function_call>", "</function_call>"),
        )

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools=spaced([declaration(tool)["function"] for tool in tools]))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "<|tool_call|>" + spaced([{"name": call.name, "arguments": call.arguments} for call in calls])


DIALECT = Granite(name="granite")
