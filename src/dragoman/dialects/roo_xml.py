"""roo-xml: the tool's name is the tag, and so is each parameter's (Roo Code, Cline).

    <read>
    <filePath>/src/app.js</filePath>
    </read>

Any tag could be a tool, so a tag that no tool declares counts only where little else can be meant:
alone at the start of a line, not an HTML element, with nothing inside but distinct parameters in tags,
closed, and followed by the end of the reply or by another tag. Everything else is text.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from dragoman.core.model import Tool
from dragoman.dialects import roo_prompt
from dragoman.dialects.engine.dialect import Dialect, PastCall, RenderedResult
from dragoman.dialects.engine.grammar import CallGrammar, Sink, opens_with, tag
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import PLAIN, ParameterForm, TagRules, head, read_parameters
from dragoman.dialects.engine.values import DeclaredTools

_HTML = """
a abbr address article aside audio b blockquote body br button canvas caption center circle cite code col
colgroup data dd defs del details dfn dialog div dl dt em fieldset figcaption figure font footer form g h1
h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li line link main map mark menu
meta nav noscript object ol optgroup option output p path picture polygon pre progress q rect s samp
script section select slot small source span strong style sub summary sup svg table tbody td template text
textarea tfoot th thead think thinking time title tr track u ul use var video wbr
"""
_ELEMENTS = frozenset(_HTML.split())


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
        opening = opens_with(*(f"<{name}>" for name in declared.names()))
        attempts = (TagRules(), TagRules(known=True))
        return (
            *(CallGrammar(opening, partial(_read, rules)) for rules in attempts),
            undeclared,
        )

    def declare(self, tools: tuple[Tool, ...]) -> str:
        style = roo_prompt.CLINE if self.form == "cline" else roo_prompt.PLAIN
        sections = "\n\n".join(style.section(tool) for tool in tools)
        if self.wrapped:
            sections = f"<tools>\n{sections}\n</tools>"
        return f"{style.header(several=not self.only_first)}\n\n{sections}"

    def write_calls(self, calls: tuple[PastCall, ...]) -> str:
        return "\n\n".join(roo_prompt.call(call.name, call.texts) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        style = roo_prompt.CLINE if self.form == "cline" else roo_prompt.PLAIN
        return "\n\n".join(style.result(result) for result in results)


def _form(name: str) -> ParameterForm:
    end = f"</{name}>"
    return ParameterForm("<", head(PLAIN), "</{}>", (end,), lost=re.compile(rf"\n\s*{re.escape(end)}"))


def _read(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    opened = yield from source.expect(*(f"<{name}>" for name in declared.names()))
    name = opened[1:-1]
    gap = yield from source.space()
    arguments = yield from read_parameters(source, name, _form(name), declared, sink, rules)
    if arguments == "{}" and declared.required(name) and "\n" not in gap:
        source.named = ""
        raise Broken("a tag in prose")
    sink.call(name, arguments)


def _read_undeclared(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect("<")
    _, name = yield from head(PLAIN)(source)
    gap = yield from source.space()
    if not name or name in declared or name.lower() in _ELEMENTS or "\n" not in gap:
        raise Broken("not a tool")
    arguments = yield from read_parameters(source, name, _form(name), declared, sink, TagRules(distinct=True))
    yield from source.space()
    if arguments == "{}" or not ((yield from source.exhausted()) or (yield from source.next("<"))):
        raise Broken("not a tool")
    sink.call(name, arguments)


DIALECT = RooXml(name="roo-xml")
