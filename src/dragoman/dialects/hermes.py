"""hermes: a JSON object in a tag (Hermes 2 and 3, Qwen 2.5, Qwen 3, Granite 4 and many others).

<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris"}}
</tool_call>
"""

from __future__ import annotations

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, declaration
from dragoman.dialects.engine.payloads import make_tagged
from dragoman.dialects.engine.values import DeclaredTools

_DECLARED = """\
# Tools

You may call one or more functions to help with the user's request.

The function signatures stand within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a JSON object with the function's name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


class Hermes(Dialect, frozen=True, kw_only=True):
    gap: str = "\n"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (make_tagged("<tool_call>", "</tool_call>"),)

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n".join(spaced(declaration(tool)) for tool in tools))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        written = (spaced({"name": call.name, "arguments": call.arguments}) for call in calls)
        return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in written)


DIALECT = Hermes(name="hermes")
