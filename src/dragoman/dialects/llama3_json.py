"""llama3-json: a bare JSON object is the call (Llama 3.1, 3.2, 3.3).

    {"name": "get_weather", "parameters": {"city": "Paris"}}

Braces are common in prose: without `<|python_tag|>` before it, an object counts where it opens the reply,
or at the start of a line if its tool is declared; it must begin with a key of a call. A reply that is one
```json block and nothing else is read too, for declared tools. Several objects follow each other, with or
without `;`. Built-in tools are called as `<|python_tag|>brave_search.call(query="…")`.
"""

from __future__ import annotations

from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.dialect import Dialect, PastCall, RenderedResult, declaration
from dragoman.dialects.engine.grammar import CallGrammar, Sink, opens_with
from dragoman.dialects.engine.payloads import (
    PYTHON,
    NamedCall,
    bracketed,
    decoded,
    named_calls,
    put,
    read_callable,
)
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools, spaced

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
            CallGrammar(opens_with("{", "["), _read_any, "start", leaks=False),
            CallGrammar(opens_with("{", "["), _read_declared, "line"),
            CallGrammar(opens_with(*_FENCES), _read_fenced, "start"),
        )

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools="\n\n".join(spaced(declaration(tool)) for tool in tools))

    def write_calls(self, calls: tuple[PastCall, ...]) -> str:
        return "; ".join(spaced({"name": call.name, "parameters": call.arguments}) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "\n".join(_result(result) for result in results)


def _result(result: RenderedResult) -> str:
    return spaced({"name": result.call.name, "error" if result.failed else "output": result.text})


def _read_tagged(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(_TAG)
    yield from source.space()
    if (yield from source.next("{", "[")):
        yield from _read_any(source, declared, sink)
        return
    name, arguments = yield from read_callable(source)
    sink.call(name.removesuffix(".call"), arguments)


def _read_any(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    put((yield from _read_calls(source)), sink)
    yield from _read_more(source, sink)


def _read_declared(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    put(_known((yield from _read_calls(source)), declared), sink)
    yield from _read_more(source, sink)


def _read_more(source: Source, sink: Sink) -> Reader[None]:
    """Further objects behind the first."""
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
    calls = _known((yield from _read_calls(source)), declared)
    yield from source.space()
    yield from source.expect("```")
    yield from source.space()
    if not (yield from source.exhausted()):
        raise Broken("a code block with text after it")
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
    value = decoded((yield from bracketed(source, PYTHON, begun=begun)), PYTHON)
    source.named = ""  # whole, so what is no call is other JSON and not a broken call
    return named_calls(value, bare=True)


def _known(calls: list[NamedCall], declared: DeclaredTools) -> list[NamedCall]:
    if any(name not in declared for name, _, _ in calls):
        raise Broken("no call of a declared tool")
    return calls


DIALECT = Llama3Json(name="llama3-json")
