"""The scripted model without native tool calling: declarations in the prompt, calls in the text (Hermes).

A request that declares no tools but renders some in its system text is read as a model of that family
would read it, and answered in kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.jsontext import is_object
from dragoman.core.model import (
    AnyPart,
    Message,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_MUST = re.compile(r"You must call the tool (\S+) in this reply\.")


def read(request: Request) -> Request | None:
    """The request that a rendered prompt stands for; None where it renders no tools."""
    system = "\n".join(_system(request))
    found = _TOOLS.search(system)
    if request.tools or not found or "<tool_call>" not in system:
        return None
    return replace(
        request,
        tools=tuple(_tools(found[1])),
        tool_choice=_choice(system),
        parallel=False if "Call at most one tool in a reply." in system else None,
        messages=tuple(
            _message(message, _names(request.messages[:index]))
            for index, message in enumerate(request.messages)
        ),
    )


def write(response: Response) -> Response:
    """The same reply as text: the thought, the words and the calls in a row."""
    thought = "".join(part.text for part in response.parts if isinstance(part, Reasoning))
    said = [part.text for part in response.parts if isinstance(part, Text)]
    calls = [_written(part) for part in response.parts if isinstance(part, ToolCall)]
    text = (f"<think>\n{thought}\n</think>\n\n" if thought else "") + "\n".join([*said, *calls])
    return replace(response, parts=(Text(text),), stop=Stop("end"))


def leaked(response: Response) -> Response:
    """The calls as text and everything else as it was, as weak models leak them."""
    parts = tuple(Text(_written(part)) if isinstance(part, ToolCall) else part for part in response.parts)
    return replace(response, parts=parts, stop=Stop("end"))


def _written(call: ToolCall) -> str:
    called = {"name": call.name, "arguments": jsontext.decode_object(call.arguments) or {}}
    return f"<tool_call>\n{jsontext.dumps(called)}\n</tool_call>"


def _system(request: Request) -> Iterator[str]:
    """The system text, wherever a protocol puts it."""
    yield from (part.text for part in request.system)
    for message in request.messages:
        if message.role in ("system", "developer"):
            yield from (part.text for part in message.parts if isinstance(part, Text))


def _tools(lines: str) -> Iterator[Tool]:
    for line in lines.splitlines():
        declared = jsontext.decode_object(line) or {}
        function = declared.get("function")
        if is_object(function):
            yield Tool(
                str(function.get("name")), str(function.get("description") or ""), function.get("parameters")
            )


def _choice(system: str) -> ToolChoice | None:
    if "Do not call any tool in this reply." in system:
        return ToolChoice("none")
    if found := _MUST.search(system):
        return ToolChoice("required", (found[1],))
    return ToolChoice("required") if "You must call a tool in this reply." in system else None


def _names(before: tuple[Message, ...]) -> list[str]:
    """What the last message of the model called, in order."""
    said = [
        part.text
        for message in before[-1:]
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, Text)
    ]
    calls = [jsontext.decode_object(text) or {} for text in _CALL.findall("\n".join(said))]
    return [str(call.get("name") or "") for call in calls]


def _message(message: Message, names: list[str]) -> Message:
    """A user's message with its results taken out of the text."""
    if message.role != "user" or not names:
        return message
    parts: list[AnyPart] = []
    for part in message.parts:
        results = _RESPONSE.findall(part.text) if isinstance(part, Text) else []
        if results:
            told = zip([*names, *[""] * len(results)], results, strict=False)
            parts += [ToolResult("", name, (Text(text),)) for name, text in told]
        else:
            parts.append(part)
    return replace(message, parts=tuple(parts))
