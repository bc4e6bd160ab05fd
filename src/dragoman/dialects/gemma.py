"""gemma: calls with bare keys and marked strings (Gemma 4), or escaped values (FunctionGemma).

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>
    <start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>

Gemma 3 has no tokens of its own for calls; use the pythonic dialect for it.
"""

from __future__ import annotations

import re
from typing import Any, cast

from dragoman.core import jsontext
from dragoman.core.model import ToolDeclaration, Wire
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, Think, opens_with, stray
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult
from dragoman.dialects.engine.literals import Cursor
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

QUOTE, ESCAPE = '<|"|>', "<escape>"
_FORMS = {"<|tool_call>": ("<tool_call|>", QUOTE), "<start_function_call>": ("<end_function_call>", ESCAPE)}
_KEY = re.compile(r"[^{}\[\],:<>]+")
_BARE = re.compile(r"[^{}\[\],<>]+")
# The model goes on to write the marker of the response, or repeats the end of its call; Ollama strips both
_STRAY = (
    *("<tool_call|>", "<|tool_response>", "<tool_response|>"),
    *("<end_function_call>", "<start_function_response>"),
)
_NAME = re.compile(r"[^\s{}<>\[\]\"]*")
_HOW = """\
To call a tool, write <|tool_call>call:tool_name{key:<|"|>text<|"|>,number:2}<tool_call|> and end your reply.
Strings stand between <|"|>; numbers, true, false and null bare; objects are {key:value}, arrays [value]."""


class Gemma(Dialect, frozen=True, kw_only=True):
    marks_failures: bool = True
    think: Think | None = Think("<|channel>", "<channel|>", "thought", anywhere=True)
    gap: str = ""

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (CallGrammar(opens_with(*_FORMS), _read), stray(*_STRAY))

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return "".join(f"<|tool>declaration:{_declare(tool)}<tool|>" for tool in tools) + f"\n\n{_HOW}"

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "".join(
            f"<|tool_call>call:{call.name}{write_marked(call.arguments)}<tool_call|>" for call in calls
        )

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(
            f"<|tool_response>response:{result.call.name}"
            f"{write_marked({'error' if result.failed else 'value': result.text})}<tool_response|>"
            for result in results
        )


def _declare(tool: ToolDeclaration) -> str:
    about: Wire = {"description": tool.description, "parameters": tool.parameters or {"type": "object"}}
    return f"{tool.name}{write_marked(about)}"


def _read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    closes, quote = _FORMS[(yield from source.expect(*_FORMS))]
    yield from source.space()
    yield from source.expect("call:")
    name = yield from source.run(_NAME)
    yield from source.expect("{")
    if not name:
        raise Broken("a call without a name")
    source.named = f"A call of {name}"
    text = yield from _payload(source, quote, closes)
    value = GemmaPayload(f"{{{text}", quote, name, declared).whole()
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


# Values with bare keys and marked strings: {city:<|"|>Paris<|"|>,days:2}


def write_marked(value: Any) -> str:
    match value:
        case str():
            return f"{QUOTE}{value}{QUOTE}"
        case dict():
            pairs = (f"{_write_key(key)}:{write_marked(item)}" for key, item in cast(Wire, value).items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return "[" + ",".join(write_marked(item) for item in cast(list[Any], value)) + "]"
        case _:
            return jsontext.dumps(value)


def _write_key(key: str) -> str:
    """Bare, or between marks where it would not be read back."""
    return key if _KEY.fullmatch(key) and key == key.strip() else write_marked(key)


class GemmaPayload(Cursor):
    """A whole payload, read from its opening brace."""

    def __init__(self, text: str, quote: str, tool: str, declared: DeclaredTools) -> None:
        super().__init__(text)
        self._quote, self._tool, self._declared = quote, tool, declared

    def whole(self) -> Wire:
        value = self.value()
        self.finish()
        return value

    def value(self) -> Any:
        self.space()
        return self._scalar() if self.text.startswith("(", self.at) else super().value()

    def _braces(self) -> Wire:
        value: Wire = {}
        while not self.skip("}"):
            key = self._read_quoted() if self._at_quote() else self._bare(_KEY, "a value without a key")
            self.expect(":")
            if self._quote == ESCAPE and self._depth == 1 and self._at_quote():
                # FunctionGemma escapes whatever it is: the schema says
                value[key] = self._declared.read(self._tool, key, self._read_quoted(), framed=False)
            else:
                value[key] = self.value()
            if not self.skip(","):
                self.expect("}")
                break
        return value

    def _scalar(self) -> Any:
        if self._at_quote():
            return self._read_quoted()
        bare = self._bare(_BARE, "a key without a value")
        return jsontext.decode(bare) if jsontext.is_complete(bare) else bare

    def _at_quote(self) -> bool:
        return self.text.startswith(self._quote, self.at)

    def _read_quoted(self) -> str:
        start = self.at + len(self._quote)
        end = self.text.find(self._quote, start)
        if end < 0:
            raise Broken("a string without its end")
        self.at = end + len(self._quote)
        return self.text[start:end]

    def _bare(self, pattern: re.Pattern[str], problem: str) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            raise Broken(problem)
        self.at = found.end()
        return found[0].strip()


DIALECT = Gemma(name="gemma")
