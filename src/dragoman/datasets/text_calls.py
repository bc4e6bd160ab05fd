"""Calls and results that a conversation holds as text, as chat templates and agents of one model write them.

The turns of the assistant are read by the parser of a dialect. Most templates put a result into
`<tool_response>`, alone or as an object with the name of its tool. Declarations in the system text stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.events import EventStage
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Request, Response, Stop, Text, ToolResult
from dragoman.dialects import dialect

_BEGIN, _END = "<tool_response>", "</tool_response>"
_BETWEEN = re.compile(rf"{_END}\s*{_BEGIN}")
_WHOLE = Stop("end")


def find_calls(request: Request, name: str, losses: Losses) -> Request:
    """`name`: the dialect. A record may begin inside its reasoning or go on behind a call."""
    written = replace(dialect(name), opened=False, only_first=False)

    def read(message: Message) -> Message:
        if message.role == "assistant":
            parts = _calls(message, written.parser(request.tools, losses))
        else:
            parts = tuple(chain.from_iterable(map(_results, message.parts)))
        return replace(message, parts=parts)

    return replace(request, messages=tuple(map(read, request.messages)))


def _calls(message: Message, parser: EventStage) -> tuple[AnyPart, ...]:
    return parser.whole(Response("", "", message.parts, _WHOLE)).parts


def _results(part: AnyPart) -> Iterator[AnyPart]:
    """A text, or a result, that holds nothing but responses: one result for each of them."""
    match part:
        case Text(text=text) | ToolResult(content=(Text(text=text),)):
            inside = text.strip()
        case _:
            inside = ""
    if not (inside.startswith(_BEGIN) and inside.endswith(_END)):
        yield part
        return
    for written in _BETWEEN.split(inside[len(_BEGIN) : -len(_END)]):
        yield _result(part, written.removeprefix("\n").removesuffix("\n"))


def _result(part: AnyPart, written: str) -> ToolResult:
    """Of `{"name": …, "content": …}` the content, as Hermes writes it."""
    result = part if isinstance(part, ToolResult) else ToolResult("", where=part.where)
    name = result.name
    try:
        fields = jsontext.split_object(written.encode())
    except jsontext.MALFORMED:
        fields = {}
    if fields.keys() == {"name", "content"}:
        name, text = str(jsontext.decode(bytes(fields["name"]))), bytes(fields["content"])
        written = jsontext.decode(text) if text[:1] == b'"' else text.decode()
    return replace(result, name=name, content=(Text(text=written, where=part.where),))
