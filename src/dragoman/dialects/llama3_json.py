"""llama3-json: a bare JSON object is the call (Llama 3.1, 3.2, 3.3).

    {"name": "get_weather", "parameters": {"city": "Paris"}}

Braces are common in prose: without `<|python_tag|>` before it, an object counts where it opens the reply,
or at the start of a line if its tool is declared; it must begin with a key of a call. A reply that is one
```json block and nothing else is read too, for declared tools. Several objects follow each other, with or
without `;`. Built-in tools are called as `<|python_tag|>brave_search.call(query="…")`.
"""

from __future__ import annotations

from functools import partial

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.payloads import (
    PYTHON,
    NamedCall,
    decode_value,
    end_fence,
    put,
    read_bracketed,
    read_callable,
    read_named_calls,
)
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_TAG = "<|python_tag|>"
_DECLARED = """\
Environment: ipython

You have access to the functions below. To call one, respond with JSON of this form and nothing else:
{{"name": function name, "parameters": dictionary of argument names and values}}
Do not use variables.

{tools}"""
_FENCES = ("```json\n", "```\n")
_WORDS = ("name", "type", "function", "parameters", "arguments", "id")
_KEYS = tuple(f"{quote}{word}{quote}" for word in _WORDS for quote in "\"'")


class Llama3Json(Dialect, frozen=True, kw_only=True):
    marks_failures: bool = True

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (
            CallGrammar(opens_with(_TAG), _read_tagged),
            CallGrammar(opens_with("{", "["), partial(_read_bare, False), "start", leaks=False),
            CallGrammar(opens_with("{", "["), partial(_read_bare, True), "line"),
            CallGrammar(opens_with(*_FENCES), _read_fenced, "start"),
        )

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n\n".join(spaced(declaration(tool)) for tool in tools))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "; ".join(spaced({"name": call.name, "parameters": call.arguments}) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "\n".join(result.as_json() for result in results)


def _read_tagged(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(_TAG)
    yield from source.space()
    if (yield from source.next("{", "[")):
        yield from _read_bare(False, source, declared, sink)
        return
    name, arguments, _ = yield from read_callable(source)
    sink.call(name.removesuffix(".call"), arguments)


def _read_bare(known: bool, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    """An object, and further ones behind it. `known`: only where it calls declared tools."""
    calls = yield from _read_calls(source)
    put(_check_known(calls, declared) if known else calls, sink)
    while True:
        yield from source.space()
        yield from source.skip(";", _TAG)
        yield from source.space()
        if not (yield from source.next("{")):
            source.reset()
            return
        put((yield from _read_calls(source)), sink)


def _read_fenced(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(*_FENCES)
    yield from source.space()
    calls = _check_known((yield from _read_calls(source)), declared)
    yield from end_fence(source)
    put(calls, sink)


def _read_calls(source: Source) -> Reader[list[NamedCall]]:
    """An object that begins like a call, or an array of such."""
    begun = yield from source.expect("{", "[")
    begun += yield from source.space()
    if begun[0] == "[":
        begun += yield from source.expect("{")
        begun += yield from source.space()
    if not (yield from source.next(*_KEYS)):
        raise Broken("no call")
    value = decode_value((yield from read_bracketed(source, PYTHON, begun=begun)), PYTHON)
    source.named = ""  # whole, so what is no call is other JSON and not a broken call
    return read_named_calls(value, bare=True)


def _check_known(calls: list[NamedCall], declared: DeclaredTools) -> list[NamedCall]:
    if any(name not in declared for name, _, _ in calls):
        raise Broken("no call of a declared tool")
    return calls


DIALECT = Llama3Json(name="llama3-json")
