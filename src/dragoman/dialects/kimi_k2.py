"""kimi-k2: sections of marked calls with ids that count through the conversation (Kimi K2, K2.5).

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0
    <|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>

(in one line). The id names the tool, and the model counts its own calls (G47: kimi-code#1730). A model that
lost count writes the number alone; then the tool is the only declared one that has all the parameters given.
"""

from __future__ import annotations

import re
from functools import partial

from dragoman.core import jsontext
from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with, stray
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.payloads import decode_value, object_text, read_block, read_bracketed
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_SECTION, _SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENTS, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_ID = re.compile(r"\s*((?:functions\.)?([\w.\-]+?)(?::\d+)?)\s*")
_OWN = re.compile(r"functions\..+:\d+")
_HEAD = re.compile(r"[^<>{}\[\]\"]*")
_DECLARED = f"""\
# Tools

You may call these tools:
{{tools}}

To call tools, write a section of calls, each with the tool's name, a number that counts all calls of the \
conversation from 0, and its arguments as a JSON object:
{_SECTION}{_CALL}functions.TOOL_NAME:0{_ARGUMENTS}{{{{"key": "value"}}}}{_CALL_END}{_SECTION_END}"""


class KimiK2(Dialect, frozen=True, kw_only=True):
    gap: str = ""

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (CallGrammar(opens_with(_SECTION, _CALL), _read), stray(_SECTION, _SECTION_END, _CALL_END))

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools=spaced([declaration(tool) for tool in tools]))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        written = (f"{_CALL}{_id(call)}{_ARGUMENTS}{spaced(call.arguments)}{_CALL_END}" for call in calls)
        return f"{_SECTION}{''.join(written)}{_SECTION_END}"

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "\n\n".join(f"## Return of {_id(result.call)}\n{result.text}" for result in results)


def _id(call: EarlierCall) -> str:
    """Its own id where it is one of Kimi's; a foreign one would confuse the model."""
    return call.id if _OWN.fullmatch(call.id) else f"functions.{call.name}:{call.number}"


def _read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.skip(_SECTION)
    yield from read_block(source, _CALL, partial(_read_call, source, declared, sink), _SECTION_END)


def _read_call(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    found = _ID.fullmatch((yield from source.run(_HEAD)))
    if not found:
        raise Broken("a call without a name")
    id, name = found[1], found[2]
    yield from source.expect(_ARGUMENTS)
    yield from source.space()
    arguments = object_text(decode_value((yield from read_bracketed(source))))
    if id.isdigit():
        id, name = "", _tool_with(arguments, declared)
    yield from source.close(_CALL_END)
    sink.call(name, arguments, id)


def _tool_with(arguments: str, declared: DeclaredTools) -> str:
    given = {*jsontext.decode(arguments)}
    names = [name for name in declared.names() if given <= {*declared.parameters(name)}]
    if len(names) != 1:
        raise Broken("a call that names no tool")
    return names[0]


DIALECT = KimiK2(name="kimi-k2")
