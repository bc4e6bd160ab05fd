"""A dialect: tool calls written as text. Two halves, neutral on both sides, so it works over any protocol.

`Dialect.render` puts declarations, calls and results into the text of the prompt; `Dialect.parser` is a stage
that finds the calls in the text of the reply. A dialect fills in the short methods of `Dialect`; the engine
does the rest. What a dialect cannot write so that it would parse back the same is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.events import EventStage
from dragoman.core.fold import Fold, FoldRun
from dragoman.core.jsontext import spaced
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    Citation,
    HostedTool,
    Media,
    Message,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.dialects.engine.call_grammar import CallGrammar, CallToken, TextGrammar, Think
from dragoman.dialects.engine.parser import DialectParser
from dragoman.dialects.engine.scanner import Scanner
from dragoman.dialects.engine.values import DeclaredTools, arguments_of, declare


class EarlierCall(Struct, frozen=True, eq=False):
    """A call of the history. `number` counts the calls of the conversation from 0."""

    id: str
    name: str
    arguments: Wire
    declared: DeclaredTools
    number: int

    @property
    def texts(self) -> dict[str, str]:
        """The arguments as dialects without quotes write them."""
        return self.declared.write(self.name, self.arguments)


class RenderedResult(Struct, frozen=True):
    """The result of a call as text."""

    call: EarlierCall
    text: str
    failed: bool

    def as_json(self) -> str:
        return spaced({"name": self.call.name, "error" if self.failed else "output": self.text})


class Dialect(Struct, frozen=True, kw_only=True, eq=False):
    """`think`: how reasoning is written. `opened`: the chat template opens it, so a reply starts inside it.

    `only_first`: further calls in one reply are dropped and reported. `gap` stands between a text and
    the calls after it. `marks_failures`: it has a form of its own for a result that failed.
    """

    name: str
    think: Think | None = Think()
    opened: bool = False
    only_first: bool = False
    gap: str = "\n\n"
    marks_failures: bool = False

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        """How calls are written; of several that may begin alike the first that parses counts."""
        raise NotImplementedError

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        """The system text that declares the tools and explains how to call them."""
        raise NotImplementedError

    def describe_keywords(self, tool: ToolDeclaration) -> Iterable[str]:
        """Keywords of the tool's schema that `declare` can only say in words."""
        return ()

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        raise NotImplementedError

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        """As most chat templates show results."""
        return "\n".join(f"<tool_response>\n{result.text}\n</tool_response>" for result in results)

    def write_reasoning(self, text: str) -> str:
        """Past reasoning with the gap after it; empty where the history keeps none."""
        if not self.think:
            return ""
        return f"{self.think.opens}{self.think.label}\n{text}\n{self.think.closes}\n\n"

    def parser(self, tools: Iterable[AnyTool], losses: Losses) -> EventStage:
        grammar = _dialect_tools(tools, losses, self).replies
        return DialectParser(grammar, losses, self.name, opened=self.opened, only_first=self.only_first)

    def render(self, request: Request, losses: Losses) -> Request:
        """Tools into the system text, calls and results into the text of the history.

        All of the history is written so: a model without tools refuses native blocks (G123: Roo#10155).
        """
        run = self.history(request, losses).begin()
        messages = run.feed(request.messages)
        head = self.add_tools(request, run.facts(), losses)
        losses.extend(run.losses)
        return replace(head, messages=tuple(messages))

    def history(self, request: Request, losses: Losses) -> RenderHistory:
        """What writes the messages of a request in the dialect."""
        tools = _dialect_tools(request.tools, losses, self) if request.tools else _without_tools(self)
        return RenderHistory(tools, bool(tools.declared.tools) and not request.system)

    def add_tools(self, request: Request, system: tuple[Text, ...], losses: Losses) -> Request:
        """`request` with its tools in the system text; `system` is that of its messages."""
        system = request.system or system
        prompt = _declaration(request.tools, losses, self) if request.tools else ""
        if declare(request.tools, losses).tools:
            system = _append(system, "\n\n".join([prompt, *_choice(request)]))
        return replace(request, system=system, tools=(), tool_choice=None, parallel=None)


class DialectTools(Struct, frozen=True, eq=False):
    """What a dialect makes of a list of tools, the same in every request that declares it.

    `replies` reads the text of a reply, `calls` nothing but calls.
    """

    dialect: Dialect
    declared: DeclaredTools
    replies: TextGrammar
    calls: TextGrammar


@cached_by_tools
def _dialect_tools(tools: Iterable[AnyTool], losses: Losses, dialect: Dialect) -> DialectTools:
    declared = declare(tools, losses)
    grammars = dialect.grammars(declared)
    replies, calls = (TextGrammar(grammars, declared, think) for think in (dialect.think, None))
    return DialectTools(dialect, declared, replies, calls)


@lru_cache(64)
def _without_tools(dialect: Dialect) -> DialectTools:
    return _dialect_tools((), Losses(), dialect)


@cached_by_tools
def _declaration(tools: tuple[AnyTool, ...], losses: Losses, dialect: Dialect) -> str:
    for tool in tools:
        if isinstance(tool, HostedTool):
            why = f"{dialect.name} cannot declare a hosted {tool.kind} tool."
            losses.dropped(tool.where, why, f"hosted.{tool.kind}")
    functions = declare(tools, losses).tools
    for tool in functions:
        if keywords := ", ".join(dict.fromkeys(dialect.describe_keywords(tool))):
            losses.changed(
                tool.where,
                f"{dialect.name} has no {keywords}. The description says it in words.",
                "tool.schema",
            )
    return dialect.declare(functions) if functions else ""


def _choice(request: Request) -> Iterator[str]:
    """`tool_choice` and `parallel` as instructions."""
    choice = request.tool_choice
    if choice:
        names = ", ".join(choice.names)
        match choice.mode:
            case "none":
                yield "Do not call any tool in this reply. Answer in plain text."
            case "required" if len(choice.names) == 1:
                yield f"You must call the tool {names} in this reply."
            case "required":
                yield "You must call a tool in this reply." + (f" Choose from: {names}." if names else "")
            case "auto" if names:
                yield f"Of the tools above call only: {names}."
            case _:
                pass
    if request.parallel is False:
        yield "Call at most one tool in a reply."


def _system_text(message: Message) -> list[Text] | None:
    """What a plain system message says; None for any other."""
    texts = [part for part in message.parts if isinstance(part, Text)]
    plain = len(texts) == len(message.parts) and not (message.extras and any(message.extras.values()))
    return texts if plain and message.role in ("system", "developer") else None


def _append(system: tuple[Text, ...], text: str) -> tuple[Text, ...]:
    """The system text with more at its end."""
    if not text:
        return system
    if not system:
        return (Text(text),)
    *before, last = system
    return (*before, replace(last, text=f"{last.text}\n\n{text}" if last.text else text))


class RenderHistory(Fold, frozen=True):
    """Past messages in the dialect. `takes_system`: system messages at the front become the system text:
    strict chat templates take only one."""

    tools: DialectTools
    takes_system: bool

    def begin(self, state: _RenderState | None = None) -> HistoryRenderer:
        state = state or _NOTHING
        leads = state.is_leading and self.takes_system
        return HistoryRenderer(self.tools, state, state.count, state.system, leads, {})


class _RenderState(Struct, frozen=True, gc=False):
    calls: dict[str, EarlierCall] = {}
    count: int = 0
    system: tuple[Text, ...] = ()
    is_leading: bool = True


_NOTHING = _RenderState()


class HistoryRenderer(FoldRun):
    """It keeps the calls by id, because results name only their ids: beside those of `before`, where it
    began, stand those that came since."""

    tools: DialectTools
    before: _RenderState
    count: int
    system: tuple[Text, ...]
    is_leading: bool
    calls: dict[str, EarlierCall]

    def state(self) -> _RenderState:
        return _RenderState({**self.before.calls, **self.calls}, self.count, self.system, self.is_leading)

    def facts(self) -> tuple[Text, ...]:
        return self.system

    def feed(self, items: Sequence[Message], /) -> list[Message]:
        out: list[Message] = []
        for message in items:
            if self.is_leading:
                if (texts := _system_text(message)) is not None:
                    self.system += tuple(texts)
                    continue
                self.is_leading = False
            out += self._message(message)
        return out

    def _message(self, message: Message) -> tuple[Message, ...]:
        if _is_plain(message):
            return (message,)
        pieces: list[Piece] = []
        for kind, group in groupby(message.parts, _kind):
            pieces += self._pieces(kind, list(group))
        if message.role == "assistant":
            pieces = _join(pieces, self.tools.dialect.gap)
        parts = tuple([part for _, part in pieces])
        return (replace(message, parts=parts),) if parts else ()

    def _pieces(self, kind: Kind, group: list[AnyPart]) -> list[Piece]:
        match kind:
            case "calls":
                return [(kind, self._write_calls([part for part in group if isinstance(part, ToolCall)]))]
            case "results":
                results = [part for part in group if isinstance(part, ToolResult)]
                text = self.tools.dialect.write_results(tuple([self._result(result) for result in results]))
                media = [part for result in results for part in result.content if isinstance(part, Media)]
                return [(kind, Text(text)), *((kind, part) for part in media)]
            case "reasoning":
                thoughts = [part for part in group if isinstance(part, Reasoning)]
                return [(kind, part) for part in self._write_reasoning(thoughts)]
            case _:
                return [(kind, part) for part in group]

    def _write_calls(self, calls: list[ToolCall]) -> Text:
        past = tuple(self._past_call(call) for call in calls)
        dialect = self.tools.dialect
        text = dialect.write_calls(past)
        for why in misread(self.tools.calls, past, text):
            why = f"{dialect.name}: {why}"
            self.losses.changed(calls[0].where or "tool calls", why, "dialect.call")
        for call in calls:
            if call.state:
                why = f"{dialect.name} has no place for a signature."
                self.losses.dropped(call.where or "tool call", why, "reasoning.signature")
        return Text(text)

    def _past_call(self, call: ToolCall) -> EarlierCall:
        past = EarlierCall(call.id, call.name, arguments_of(call), self.tools.declared, self.count)
        self.calls[call.id] = past
        self.count += 1
        return past

    def _result(self, result: ToolResult) -> RenderedResult:
        for part in result.content:
            if not isinstance(part, Text | Media):
                self.losses.dropped(part.where, f"Only {part.origin} has this kind of part.", "part.unknown")
        text = "\n".join(part.text for part in result.content if isinstance(part, Text))
        if result.failed and not self.tools.dialect.marks_failures and not _SAYS_ERROR.match(text):
            text = f"Error: {text.strip() or 'the tool call failed'}"
        call = self.calls.get(result.call_id) or self.before.calls.get(result.call_id)
        if call is None:
            call = EarlierCall(result.call_id, result.name or "tool", {}, self.tools.declared, self.count)
        return RenderedResult(call, text, result.failed)

    def _write_reasoning(self, parts: list[Reasoning]) -> Iterator[Text]:
        text = "\n".join(part.text for part in parts if part.text)
        dialect = self.tools.dialect
        if written := dialect.write_reasoning(text) if text else "":
            yield Text(written)
        for part in parts:
            if part.state:
                why = f"{dialect.name} has no place for a signature."
                self.losses.dropped(part.where or "reasoning", why, "reasoning.signature")
            if part.text and not written:
                why = f"{dialect.name} does not send reasoning of past turns."
                self.losses.dropped(part.where, why, "reasoning.history")


_SAYS_ERROR = re.compile(r"""[\s\[{"'(]*error""", re.IGNORECASE)
Kind = str  # calls, results, reasoning, or nothing for what stays as it is
Piece = tuple[Kind, AnyPart]
_KIND: dict[type, Kind] = {ToolCall: "calls", ToolResult: "results", Reasoning: "reasoning"}


def _kind(part: AnyPart) -> Kind:
    return _KIND.get(type(part), "")


def _is_plain(message: Message) -> bool:
    """Whether it stays as it is in every dialect."""
    for part in message.parts:  # noqa: SIM110 - a generator takes twice the time
        if type(part) in _KIND:
            return False
    return True


def _join(pieces: list[Piece], gap: str) -> list[Piece]:
    """Calls and reasoning are joined with the text beside them into one text, as a model would write it."""
    joined: list[Piece] = []
    for kind, part in pieces:
        before, last = joined[-1] if joined else ("", None)
        if isinstance(part, Text) and isinstance(last, Text) and (kind or before):
            between = "" if before == "reasoning" or not last.text or not part.text else gap
            part = replace(
                last,
                text=f"{last.text}{between}{part.text}",
                citations=(*last.citations, *_move(part.citations, len(last.text) + len(between))),
                extras=part.extras or last.extras,
            )
            joined.pop()
        joined.append((kind, part))
    return joined


def _move(citations: tuple[Citation, ...], by: int) -> Iterator[Citation]:
    """For a text that stands behind another one now."""
    for citation in citations:
        known = citation.start >= 0
        yield replace(citation, start=citation.start + by, end=citation.end + by) if known else citation


def declaration(tool: ToolDeclaration) -> Wire:
    """A tool as most templates show it."""
    function: Wire = {"name": tool.name, "description": tool.description}
    if not tool.description:
        del function["description"]
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def misread(grammar: TextGrammar, calls: tuple[EarlierCall, ...], text: str) -> Iterator[str]:
    """Which of the calls the dialect would not parse back from `text` as they are."""
    scanner = Scanner(grammar)
    found = [token for token in [*scanner.feed(text), *scanner.close()] if isinstance(token, CallToken)]
    for index, call in enumerate(calls):
        read = found[index] if index < len(found) else None
        if read is None or (read.name, read.arguments) != (call.name, jsontext.dumps(call.arguments)):
            yield f"Its text cannot carry the values of a call of {call.name} as they are."
