"""A request in a dialect's words: tools into the system text, calls and results into the history.

What a dialect cannot write so that it would read it back the same is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby, takewhile
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    HostedTool,
    Media,
    Message,
    Reasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.repeated import remembered
from dragoman.dialects.engine.declared import Declared, arguments_of, declare
from dragoman.dialects.engine.grammar import Call, Grammar
from dragoman.dialects.engine.scanner import Scanner


class Made(Struct, frozen=True):
    """A call of the past. `number` counts the calls of the conversation from 0.

    `texts` are the arguments as dialects without quotes write them.
    """

    id: str
    name: str
    arguments: Wire
    texts: dict[str, str]
    number: int


class RenderedResult(Struct, frozen=True):
    """What a tool answered, as text."""

    call: Made
    text: str
    failed: bool


class Words(Protocol):
    """What a dialect says; see `Dialect`."""

    @property
    def name(self) -> str: ...

    @property
    def gap(self) -> str: ...

    @property
    def marks_failures(self) -> bool: ...

    def grammars(self, declared: Declared) -> tuple[Grammar, ...]: ...

    def declare(self, tools: tuple[Tool, ...]) -> str: ...

    def write_calls(self, calls: tuple[Made, ...]) -> str: ...

    def write_results(self, results: tuple[RenderedResult, ...]) -> str: ...

    def write_reasoning(self, text: str) -> str: ...


def render(words: Words, request: Request, losses: Losses) -> Request:
    declared = declare(request.tools, losses)
    told = _told(request.tools, losses, words.declare, words.name)
    instructions = [told, *_choice(request)] if declared.tools else []
    if instructions and not request.system:
        request = _gathered(request)
    history = History(words, declared, losses)
    return replace(
        request,
        system=_added(request.system, "\n\n".join(instructions)),
        messages=tuple(message for each in request.messages for message in history.message(each)),
        tools=(),
        tool_choice=None,
        parallel=None,
    )


@remembered
def _told(
    tools: tuple[AnyTool, ...], losses: Losses, told: Callable[[tuple[Tool, ...]], str], name: str
) -> str:
    """The tools as the dialect declares them."""
    for tool in tools:
        if isinstance(tool, HostedTool):
            losses.dropped(tool.where, f"{name} cannot declare a hosted {tool.kind} tool")
    functions = declare(tools, losses).tools
    return told(functions) if functions else ""


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


def _gathered(request: Request) -> Request:
    """System text at the front of the conversation as that of the request: strict templates take only one."""
    front = tuple(takewhile(_is_system_text, request.messages))
    texts = tuple(part for message in front for part in message.parts if isinstance(part, Text))
    return replace(request, system=texts, messages=request.messages[len(front) :])


def _is_system_text(message: Message) -> bool:
    """And nothing more, that only its protocol would understand."""
    extras = message.extras or {}
    plain = all(isinstance(part, Text) for part in message.parts) and not any(extras.values())
    return message.role in ("system", "developer") and plain


def _added(system: tuple[Text, ...], text: str) -> tuple[Text, ...]:
    """The system text with more at its end."""
    if not text:
        return system
    if not system:
        return (Text(text),)
    *before, last = system
    return (*before, replace(last, text=f"{last.text}\n\n{text}" if last.text else text))


class History:
    """Past messages in the dialect's words. It remembers the calls, because results name only their ids."""

    def __init__(self, words: Words, declared: Declared, losses: Losses) -> None:
        self._words, self._declared, self._losses = words, declared, losses
        self._calls: dict[str, Made] = {}
        self._count = 0

    def message(self, message: Message) -> tuple[Message, ...]:
        if all(type(part) not in _KIND for part in message.parts):
            return (message,)
        told = [piece for kind, group in _grouped(message.parts) for piece in self._told(kind, group)]
        if message.role == "assistant":
            told = _joined(told, self._words.gap)
        parts = tuple(part for _, part in told)
        return (replace(message, parts=parts),) if parts else ()

    def _told(self, kind: Kind, group: list[AnyPart]) -> Iterator[Piece]:
        match kind:
            case "calls":
                yield kind, self._write_calls([part for part in group if isinstance(part, ToolCall)])
            case "results":
                results = [part for part in group if isinstance(part, ToolResult)]
                yield from ((kind, part) for part in self._write_results(results))
            case "reasoning":
                thoughts = [part for part in group if isinstance(part, Reasoning)]
                yield from ((kind, part) for part in self._write_reasoning(thoughts))
            case _:
                yield from ((kind, part) for part in group)

    def _write_calls(self, calls: list[ToolCall]) -> Text:
        made = tuple(self._made(call) for call in calls)
        text = self._words.write_calls(made)
        for why in misread(self._words, made, self._declared, text):
            self._losses.changed(calls[0].where or "tool calls", f"{self._words.name}: {why}")
        for call in calls:
            if call.state:
                self._losses.dropped(f"{call.where}.state", f"{self._words.name} has no opaque slot")
        return Text(text)

    def _made(self, call: ToolCall) -> Made:
        arguments = arguments_of(call)
        made = Made(call.id, call.name, arguments, self._declared.write(call.name, arguments), self._count)
        self._calls[call.id] = made
        self._count += 1
        return made

    def _write_results(self, results: list[ToolResult]) -> Iterator[AnyPart]:
        yield Text(self._words.write_results(tuple(self._result(result) for result in results)))
        for result in results:
            yield from (part for part in result.content if isinstance(part, Media))

    def _result(self, result: ToolResult) -> RenderedResult:
        for part in result.content:
            if not isinstance(part, Text | Media):
                self._losses.dropped(part.where, f"only {part.origin} understands it")
        text = "\n".join(part.text for part in result.content if isinstance(part, Text))
        if result.failed and not self._words.marks_failures:
            text = _as_error(text)
        call = self._calls.get(result.call_id)
        if call is None:
            call = Made(result.call_id, result.name or "tool", {}, {}, self._count)
        return RenderedResult(call, text, result.failed)

    def _write_reasoning(self, parts: list[Reasoning]) -> Iterator[Text]:
        text = "\n".join(part.text for part in parts if part.text)
        if told := self._words.write_reasoning(text) if text else "":
            yield Text(told)
        for part in parts:
            if part.state:
                self._losses.dropped(f"{part.where}.state", f"{self._words.name} has no opaque slot")
            if part.text and not told:
                self._losses.dropped(part.where, f"{self._words.name} keeps no reasoning of past turns")


def _as_error(text: str) -> str:
    """A template that knows only results gets the failure in their text."""
    return text if _SAYS_ERROR.match(text) else f"Error: {text.strip() or 'the tool call failed'}"


_SAYS_ERROR = re.compile(r"""[\s\[{"'(]*error""", re.IGNORECASE)
Kind = str  # calls, results, reasoning, or nothing for what stays as it is
Piece = tuple[Kind, AnyPart]
_KIND: dict[type, Kind] = {ToolCall: "calls", ToolResult: "results", Reasoning: "reasoning"}


def _grouped(parts: tuple[AnyPart, ...]) -> Iterator[tuple[Kind, list[AnyPart]]]:
    """Neighbours of one kind together."""
    for kind, group in groupby(parts, lambda part: _KIND.get(type(part), "")):
        yield kind, list(group)


def _joined(pieces: list[Piece], gap: str) -> list[Piece]:
    """What the dialect wrote and the text beside it as one text, as a model would write it."""
    joined: list[Piece] = []
    for kind, part in pieces:
        before, last = joined[-1] if joined else ("", None)
        if isinstance(part, Text) and isinstance(last, Text) and (kind or before):
            between = "" if before == "reasoning" or not last.text or not part.text else gap
            part = replace(last, text=f"{last.text}{between}{part.text}", extras=part.extras or last.extras)
            joined.pop()
        joined.append((kind, part))
    return joined


def declaration(tool: Tool) -> Wire:
    """A tool as most templates show it."""
    function: Wire = {"name": tool.name, "description": tool.description}
    if not tool.description:
        del function["description"]
    function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def misread(words: Words, calls: tuple[Made, ...], declared: Declared, text: str) -> Iterator[str]:
    """Which of the calls the dialect would not read back from `text` as they are."""
    scanner = Scanner(words.grammars(declared), declared)
    found = [token for token in [*scanner.feed(text), *scanner.close()] if isinstance(token, Call)]
    for index, call in enumerate(calls):
        read = found[index] if index < len(found) else None
        if read is None or (read.name, read.arguments) != (call.name, jsontext.dumps(call.arguments)):
            yield f"a call of {call.name} has values that its grammar cannot carry as they are"
