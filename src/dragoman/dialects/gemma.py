"""gemma: calls with bare keys and marked strings (Gemma 4), or escaped values (FunctionGemma).

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>
    <start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>

Gemma 3 has no tokens of its own for calls and is taught the pythonic dialect.
"""

from __future__ import annotations

import re

from dragoman.core import jsontext
from dragoman.core.model import Tool, Wire
from dragoman.dialects.engine.base import Dialect, Made, RenderedResult
from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.grammar import Grammar, Sink, Think, literal
from dragoman.dialects.engine.marked import ESCAPE, QUOTE, Payload, write_marked
from dragoman.dialects.engine.source import Broken, Reader, Source

_FORMS = {"<|tool_call>": ("<tool_call|>", QUOTE), "<start_function_call>": ("<end_function_call>", ESCAPE)}
_NAME = re.compile(r"[^\s{}<>\[\]\"]*")
_HOW = """\
To call a tool, write <|tool_call>call:tool_name{key:<|"|>text<|"|>,number:2}<tool_call|> and end your reply.
Strings stand between <|"|>; numbers, true, false and null bare; objects are {key:value}, arrays [value]."""


class Gemma(Dialect, frozen=True, kw_only=True):
    marks_failures: bool = True
    think: Think | None = Think("<|channel>", "<channel|>", "thought", anywhere=True)
    gap: str = ""

    def grammars(self, declared: Declared) -> tuple[Grammar, ...]:
        return (Grammar(literal(*_FORMS), _read),)

    def declare(self, tools: tuple[Tool, ...]) -> str:
        return "".join(f"<|tool>declaration:{_declared(tool)}<tool|>" for tool in tools) + f"\n\n{_HOW}"

    def write_calls(self, calls: tuple[Made, ...]) -> str:
        return "".join(
            f"<|tool_call>call:{call.name}{write_marked(call.arguments)}<tool_call|>" for call in calls
        )

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(
            f"<|tool_response>response:{result.call.name}{write_marked(_answer(result))}<tool_response|>"
            for result in results
        )


def _declared(tool: Tool) -> str:
    about: Wire = {"description": tool.description, "parameters": tool.parameters or {"type": "object"}}
    return f"{tool.name}{write_marked(about)}"


def _answer(result: RenderedResult) -> Wire:
    return {"error" if result.failed else "value": result.text}


def _read(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    closes, quote = _FORMS[(yield from source.expect(*_FORMS))]
    yield from source.space()
    yield from source.expect("call:")
    name = yield from source.run(_NAME)
    yield from source.expect("{")
    if not name:
        raise Broken("a call without a name")
    source.named = f"a call of {name}"
    text = yield from _payload(source, quote, closes)
    value = Payload(f"{{{text}", quote, name, declared).whole()
    sink.call(name, jsontext.dumps(value))


def _payload(source: Source, quote: str, closes: str) -> Reader[str]:
    """Up to what closes the call; inside a string it does not count."""
    parts: list[str] = []
    quoted = False
    while True:
        text, stop = yield from source.until_any(quote) if quoted else source.until_any(closes, quote)
        parts.append(text)
        if stop == closes:
            return "".join(parts)
        parts.append(stop)
        quoted = not quoted


DIALECT = Gemma(name="gemma")
