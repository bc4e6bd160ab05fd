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
from dragoman.dialects.engine.dialect import Dialect, PastCall, RenderedResult
from dragoman.dialects.engine.grammar import CallGrammar, Sink, Think, opens_with, stray
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

QUOTE, ESCAPE = '<|"|>', "<escape>"
_FORMS = {"<|tool_call>": ("<tool_call|>", QUOTE), "<start_function_call>": ("<end_function_call>", ESCAPE)}
_KEY = re.compile(r"[^{}\[\],:<>]+")
_BARE = re.compile(r"[^{}\[\],<>]+")
_SPACE = re.compile(r"\s*")
_DEEPEST = 100
# The model goes on to write the marker of the response, or repeats the end of its call; Ollama strips both
_STRAY = (
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<end_function_call>",
    "<start_function_response>",
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
        return "".join(f"<|tool>declaration:{_declared(tool)}<tool|>" for tool in tools) + f"\n\n{_HOW}"

    def write_calls(self, calls: tuple[PastCall, ...]) -> str:
        return "".join(
            f"<|tool_call>call:{call.name}{write_marked(call.arguments)}<tool_call|>" for call in calls
        )

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(
            f"<|tool_response>response:{result.call.name}{write_marked(_answer(result))}<tool_response|>"
            for result in results
        )


def _declared(tool: ToolDeclaration) -> str:
    about: Wire = {"description": tool.description, "parameters": tool.parameters or {"type": "object"}}
    return f"{tool.name}{write_marked(about)}"


def _answer(result: RenderedResult) -> Wire:
    return {"error" if result.failed else "value": result.text}


def _read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    closes, quote = _FORMS[(yield from source.expect(*_FORMS))]
    yield from source.space()
    yield from source.expect("call:")
    name = yield from source.run(_NAME)
    yield from source.expect("{")
    if not name:
        raise Broken("a call without a name")
    source.named = f"a call of {name}"
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


class GemmaPayload:
    """A whole payload, read from its opening brace."""

    def __init__(self, text: str, quote: str, tool: str, declared: DeclaredTools) -> None:
        self._text, self._at, self._quote = text, 0, quote
        self._tool, self._declared = tool, declared

    def whole(self) -> Wire:
        value = self._object(0)
        self._space()
        if self._at < len(self._text):
            raise Broken("more than one payload")
        return value

    def _object(self, depth: int) -> Wire:
        self._expect("{")
        value: Wire = {}
        while not self._skip("}"):
            key = self._key()
            self._expect(":")
            value[key] = self._value(depth + 1, key)
            if not self._skip(","):
                self._expect("}")
                break
        return value

    def _key(self) -> str:
        if self._text.startswith(self._quote, self._at):
            return self._quoted()
        found = _KEY.match(self._text, self._at)
        if not found:
            raise Broken("a value without a key")
        self._at = found.end()
        return found[0].strip()

    def _value(self, depth: int, key: str = "") -> Any:
        if depth > _DEEPEST:
            raise Broken("nested too deeply")
        self._space()
        if self._text.startswith("{", self._at):
            return self._object(depth)
        if self._skip("["):
            return self._items(depth)
        if self._text.startswith(self._quote, self._at):
            return self._string(key if depth == 1 else "")
        found = _BARE.match(self._text, self._at)
        if not found:
            raise Broken("a key without a value")
        self._at = found.end()
        bare = found[0].strip()
        return jsontext.decode(bare) if jsontext.is_complete(bare) else bare

    def _items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._skip("]"):
            items.append(self._value(depth + 1))
            if not self._skip(","):
                self._expect("]")
                break
        return items

    def _quoted(self) -> str:
        start = self._at + len(self._quote)
        end = self._text.find(self._quote, start)
        if end < 0:
            raise Broken("a string without its end")
        self._at = end + len(self._quote)
        return self._text[start:end]

    def _string(self, key: str) -> Any:
        text = self._quoted()
        if self._quote == ESCAPE and key:  # FunctionGemma escapes whatever it is: the schema says
            return self._declared.read(self._tool, key, text, framed=False)
        return text

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _skip(self, mark: str) -> bool:
        self._space()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise Broken(f"expected {mark}")


DIALECT = Gemma(name="gemma")
