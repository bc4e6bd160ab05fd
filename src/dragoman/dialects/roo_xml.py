"""roo-xml: the tool's name is the tag, and so is each parameter's (Roo Code, Cline).

    <read>
    <filePath>/src/app.js</filePath>
    </read>

Any tag could be a tool, so a tag that no tool declares counts only where little else can be meant:
alone at the start of a line, not an HTML element, with nothing inside but distinct parameters in tags,
closed, and followed by the end of the reply or by another tag. Everything else is text.

Repaired and reported, for declared tools: a space in a tag, a closing tag in other spelling, a missing
closing tag of the call at the end of a reply that was not cut; a wrapper around the call (`<tool_call>`,
`<tool_use>`, `<tools>`); a code block that holds nothing but the call and ends the reply; and the forms that
Qwen models were trained on (hermes, qwen3-coder). A parameter without its closing tag stays text.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from msgspec.structs import replace

from dragoman.core.model import ToolDeclaration
from dragoman.dialects import hermes, qwen3_coder, roo_prompt
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with, tag, tag_of
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult
from dragoman.dialects.engine.payloads import end_fence
from dragoman.dialects.engine.scanner import Probe
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import (
    PLAIN,
    SPACED,
    ParameterForm,
    Repairs,
    TagRules,
    head,
    read_parameters,
)
from dragoman.dialects.engine.values import DeclaredTools

_HTML = """
a abbr address article aside audio b blockquote body br button canvas caption center circle cite code col
colgroup data dd defs del details dfn dialog div dl dt em fieldset figcaption figure font footer form g h1
h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li line link main map mark menu
meta nav noscript object ol optgroup option output p path picture polygon pre progress q rect s samp
script section select slot small source span strong style sub summary sup svg table tbody td template text
textarea tfoot th thead think thinking time title tr track u ul use var video wbr
"""
_WRAPPERS = {f"<{name}>": f"</{name}>" for name in ("tool_call", "tool_use", "tools", "tool_calls")}
_FENCES = ("```xml\n", "```\n")
_NO_TOOLS = frozenset([*_HTML.split(), "tool_call", "tool_use", "tools", "tool_calls", "function_calls"])


class RooXml(Dialect, frozen=True, kw_only=True):
    """`form`: worded as the translation examples are ("Tool Result from NAME:"), or as Cline does it
    ("[NAME for 'main parameter'] Result:"). `wrapped`: the tool sections stand in <tools>.
    """

    marks_failures: bool = True
    only_first: bool = True
    form: Literal["plain", "cline"] = "plain"
    wrapped: bool = False

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        undeclared = CallGrammar(tag(), _read_undeclared, "line", leaks=False)
        if not declared.tools:
            return (undeclared,)
        names = declared.names()
        attempts = ((TagRules(), False), (TagRules(known=True), False), (TagRules(known=True), True))
        return (
            *(
                CallGrammar(tag_of(*names), partial(_read, rules, repair), leaks=not repair)
                for rules, repair in attempts
            ),
            CallGrammar(opens_with(*_WRAPPERS), _read_wrapped),
            CallGrammar(opens_with(*_FENCES), _read_fenced, "line", leaks=False),
            *(_adopt(grammar, "hermes") for grammar in hermes.DIALECT.grammars(declared)),
            *(_adopt(grammar, "qwen3-coder") for grammar in qwen3_coder.DIALECT.grammars(declared)),
            undeclared,
        )

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        style = roo_prompt.CLINE if self.form == "cline" else roo_prompt.PLAIN
        sections = "\n\n".join(style.section(tool) for tool in tools)
        if self.wrapped:
            sections = f"<tools>\n{sections}\n</tools>"
        return f"{style.header(several=not self.only_first)}\n\n{sections}"

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        return "\n\n".join(roo_prompt.call(call.name, call.texts) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        style = roo_prompt.CLINE if self.form == "cline" else roo_prompt.PLAIN
        return "\n\n".join(style.result(result) for result in results)


def _form(name: str, pattern: re.Pattern[str] = PLAIN) -> ParameterForm:
    end = f"</{name}>"
    return ParameterForm("<", head(pattern), "</{}>", (end,), lost=re.compile(rf"\n\s*{re.escape(end)}"))


def _read(rules: TagRules, repair: bool, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    repairs = Repairs() if repair else None
    yield from source.expect("<")
    tag, name = yield from head(SPACED if repair else PLAIN)(source)
    if name not in declared:
        raise Broken("not a tool")
    if repairs and tag != f"{name}>":
        repairs.reasons.append(f"<{tag} was read as <{name}>")
    gap = yield from source.space()
    form = _form(name, SPACED if repair else PLAIN)
    arguments = yield from read_parameters(source, name, form, declared, sink, rules, repairs)
    if arguments == "{}" and declared.required(name) and "\n" not in gap:
        source.named = ""
        raise Broken("a tag in prose")
    for reason in repairs.reasons if repairs else ():
        sink.changed(f"A call of {name} was repaired: {reason}.")
    sink.call(name, arguments, unended=repairs is not None and repairs.unended)


def _read_declared(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    """A call of a declared tool inside a wrapper or a code block."""
    yield from source.space()
    yield from _read(TagRules(known=True), True, source, declared, sink)
    yield from source.space()


def _read_wrapped(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    opened = yield from source.expect(*_WRAPPERS)
    yield from _read_declared(source, declared, sink)
    sink.changed(f"A call was in {opened}. It was read all the same.")
    if not (yield from source.close(_WRAPPERS[opened])):
        source.reset()


def _read_fenced(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    """Only a code block that ends the reply: any other one quotes the call."""
    yield from source.expect(*_FENCES)
    held = HeldCalls()
    yield from _read_declared(source, declared, held)
    yield from end_fence(source)
    sink.changed("A call was in a code block. It was read all the same.")
    held.release(sink)


def _adopt(grammar: CallGrammar, form: str) -> CallGrammar:
    """Another dialect's grammar, for declared tools; each call is reported."""

    def read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
        yield from grammar.read(source, declared, DeclaredOnly(sink, declared, form))

    return replace(grammar, read=read, leaks=False)


class DeclaredOnly:
    """Passes on calls of declared tools, each with a report of the form that it was written in."""

    def __init__(self, sink: Sink, declared: DeclaredTools, form: str) -> None:
        self._sink, self._declared, self._form = sink, declared, form
        self.text, self.reasoning, self.changed = sink.text, sink.reasoning, sink.changed

    def call(self, name: str, arguments: str, id: str = "", *, unended: bool = False) -> None:
        if name not in self._declared:
            raise Broken(f"{name} is not declared")
        self._sink.call(name, arguments, id, unended=unended)
        self._sink.changed(
            f"A call of {name} was written in the form of {self._form}. It was read all the same."
        )


class HeldCalls(Probe):
    """A sink that holds calls until it is certain that they count."""

    def __init__(self) -> None:
        super().__init__(whole=True)
        self._calls: list[tuple[str, str, str]] = []
        self._reasons: list[str] = []

    def call(self, name: str, arguments: str, id: str = "", *, unended: bool = False) -> None:
        if unended:
            raise Broken("the call is not closed")
        self._calls.append((name, arguments, id))

    def changed(self, why: str) -> None:
        self._reasons.append(why)

    def release(self, sink: Sink) -> None:
        for why in self._reasons:
            sink.changed(why)
        for name, arguments, id in self._calls:
            sink.call(name, arguments, id)


def _read_undeclared(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect("<")
    _, name = yield from head(PLAIN)(source)
    gap = yield from source.space()
    if not name or name in declared or name.lower() in _NO_TOOLS or "\n" not in gap:
        raise Broken("not a tool")
    arguments = yield from read_parameters(source, name, _form(name), declared, sink, TagRules(distinct=True))
    yield from source.space()
    if arguments == "{}" or not ((yield from source.is_exhausted()) or (yield from source.next("<"))):
        raise Broken("not a tool")
    sink.call(name, arguments)


DIALECT = RooXml(name="roo-xml")
