"""pythonic: a list of Python calls (Llama 3.2 and 4, ToolACE, LFM2, OLMo 3, Gemma 3).

    [get_weather(city="Paris", days=2), get_time(tz="UTC")]

Brackets are common in prose: without a marker before it, a list counts where it opens the reply, or
anywhere if its first call is of a declared tool. A reply that is one code block (```python, ```tool_code)
and nothing else is read too, for declared tools. Wrappers: `<|python_start|>`, `<|tool_call_start|>`, and
`<function_calls>` around one call a line.
"""

from __future__ import annotations

from functools import partial

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Opening, Sink, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.payloads import (
    NamedCall,
    decode_value,
    end_fence,
    put,
    read_bracketed,
    read_callable,
    read_named_calls,
    write_callable,
)
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_DECLARED = """\
You have access to functions. To call them, reply ONLY with a list of calls of this form and no other text:
[func_name1(param1="value1", param2=2), func_name2(param=True)]

The functions that you can call, in JSON format:
{tools}"""
_WRAPPERS = {
    "<|python_start|>": "<|python_end|>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<function_calls>": "</function_calls>",
}
_FENCES = ("```python\n", "```tool_code\n", "```tool_call\n", "```\n")
_LIST = Opening(r"\[\s{0,8}[^\W\d][\w.\-]{0,127}\(", r"\[\s{0,8}(?:[^\W\d][\w.\-]{0,127})?", 140, "[")


class Pythonic(Dialect, frozen=True, kw_only=True):
    marks_failures: bool = True

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (
            CallGrammar(opens_with(*_WRAPPERS), _read_wrapped),
            CallGrammar(_LIST, partial(_read_bare, False), "start", leaks=False),
            CallGrammar(_LIST, partial(_read_bare, True)),
            CallGrammar(opens_with(*_FENCES), _read_fenced, "start"),
        )

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        return _DECLARED.format(tools=spaced([declaration(tool)["function"] for tool in tools]))

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return f"[{', '.join(write_callable(call.name, call.arguments) for call in calls)}]"

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "\n".join(result.as_json() for result in results)


def _read_wrapped(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    closes = _WRAPPERS[(yield from source.expect(*_WRAPPERS))]
    yield from source.space()
    match (yield from source.next("[{", "{", "[")):
        case "[{" | "{":  # LFM2 knows JSON too
            put(read_named_calls(decode_value((yield from read_bracketed(source)))), sink)
        case "[":
            put((yield from _read_list(source)), sink)
        case _:
            put((yield from _read_lines(source, closes)), sink)
    if not (yield from source.close(closes)):
        source.reset()


def _read_bare(known: bool, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    put((yield from _read_list(source, declared if known else None)), sink)


def _read_fenced(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(*_FENCES)
    yield from source.space()
    listed = yield from source.next("[")
    calls = yield from (_read_list(source, declared) if listed else _read_lines(source, "```", declared))
    yield from end_fence(source)
    put(calls, sink)


def _read_list(source: Source, known: DeclaredTools | None = None) -> Reader[list[NamedCall]]:
    """`[call, call]`; the closing bracket may be missing at the end of the text."""
    yield from source.expect("[")
    calls: list[NamedCall] = []
    while True:
        yield from source.space()
        calls.append((yield from read_callable(source, known)))
        yield from source.space()
        if not (yield from source.skip(",")):
            break
        yield from source.space()
        if (yield from source.next("]")):
            break
    if not (yield from source.close("]")):
        raise Broken("expected , or ]")
    return calls


def _read_lines(source: Source, closes: str, known: DeclaredTools | None = None) -> Reader[list[NamedCall]]:
    """Calls one after another, up to what closes them."""
    calls: list[NamedCall] = []
    while not (yield from source.next(closes)) and not (yield from source.is_exhausted()):
        calls.append((yield from read_callable(source, known)))
        yield from source.space()
    if not calls:
        raise Broken("no call in it")
    return calls


DIALECT = Pythonic(name="pythonic")
