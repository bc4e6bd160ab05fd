"""What the scripted model answers: it reads the declared tools and the prompt, really calls a fitting
tool with arguments that its schema allows, and answers from the results.

The same request always gets the same answer.
"""

from __future__ import annotations

from hashlib import blake2s

from dragoman.core import jsontext
from dragoman.core.model import (
    AnyPart,
    Base64,
    Failure,
    Media,
    Message,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.demo.arguments import answer, arguments
from dragoman.demo.signatures import objection, sign
from dragoman.demo.wishes import fitting, order_of


def reply(request: Request, protocol: str) -> Response | Failure:
    """The answer of a model that speaks `protocol`."""
    objected = objection(request, protocol)
    if objected:
        return Failure("bad_request", objected, 400)
    number = sum(isinstance(part, ToolCall) for message in request.messages for part in message.parts)
    parts = sign(_parts(request), protocol, number + 1)
    called = any(isinstance(part, ToolCall) for part in parts)
    usage = Usage(size_of(request), sum(_length(part) for part in parts) // 4 + 1)
    stop = Stop("tool_calls" if called else "end")
    return Response(f"demo-{_digest(request)}", request.model, parts, stop, usage)


def _parts(request: Request) -> tuple[AnyPart, ...]:
    tail = _since_reply(request.messages)
    results = [part for message in tail for part in message.parts if isinstance(part, ToolResult)]
    if results:
        thought = _thought(request, f"{len(results)} result(s) to report.")
        return (*thought, Text("\n".join([*_told(request, results), *_shown(tail)])))
    prompt = _prompt(request)
    order = order_of(prompt)
    calls = tuple(
        ToolCall("", tool.name, arguments(tool, wish), tool.kind, tool.namespace)
        for tool, wish in fitting(order, request)
    )
    if not calls:
        return (*_thought(request, "No tool is needed."), Text(_answer(request, order)))
    named = " and ".join(call.name for call in calls)
    return (*_thought(request, f"I need {named}."), Text(f"I will use {named}."), *calls)


def _answer(request: Request, order: str) -> str:
    """In the form that was asked for."""
    wanted = request.settings.output
    if wanted and wanted.kind == "schema":
        return answer(wanted.schema or {}, order)
    said = f"You said: {order or 'nothing'}"
    return jsontext.dumps({"answer": said}) if wanted and wanted.kind == "json" else said


def _since_reply(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What came after the model last spoke; results may stand in several messages."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[index + 1 :]
    return messages


def _told(request: Request, results: list[ToolResult]) -> list[str]:
    names = {
        part.id: part.name
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolCall)
    }
    return [
        f"{result.name or names.get(result.call_id) or 'The tool'} "
        f"{'failed' if result.failed else 'returned'}: {_said(result)}"
        for result in results
    ]


def _said(result: ToolResult) -> str:
    said = [item.text if isinstance(item, Text) else _described(item) for item in result.content]
    return " ".join(piece for piece in said if piece.strip()) or "(nothing)"


def _shown(messages: tuple[Message, ...]) -> list[str]:
    """Media beside the results: where a protocol has no room for them inside."""
    return [_described(part) for message in messages for part in message.parts if isinstance(part, Media)]


def _described(part: AnyPart) -> str:
    """What the model sees of an image: enough to tell whether it arrived as it was."""
    if not isinstance(part, Media):
        return "[something]"
    if isinstance(part.source, Base64):
        return (
            f"[{part.kind} {part.media_type} {blake2s(part.source.data.encode(), digest_size=8).hexdigest()}]"
        )
    return f"[{part.kind} {part.media_type}]"


def _thought(request: Request, text: str) -> tuple[Reasoning, ...]:
    """It thinks aloud unless it is told not to think."""
    settings = request.settings
    return () if settings.effort in ("none", "minimal") or settings.budget == 0 else (Reasoning(text),)


def _prompt(request: Request) -> str:
    """The last thing the user said; agents put their context into earlier parts of the same message."""
    for message in reversed(request.messages):
        said = [part.text for part in message.parts if isinstance(part, Text) and order_of(part.text)]
        if message.role == "user" and said:
            return said[-1]
    return ""


def _digest(request: Request) -> str:
    said = [_prompt(request), *(str(len(message.parts)) for message in request.messages)]
    return blake2s("|".join(said).encode(), digest_size=6).hexdigest()


def size_of(request: Request) -> int:
    """Input tokens, as this model counts them."""
    said = sum(_length(part) for message in request.messages for part in message.parts)
    return (said + sum(len(part.text) for part in request.system) + 40 * len(request.tools)) // 4 + 1


def _length(part: AnyPart) -> int:
    match part:
        case Text() | Reasoning():
            return len(part.text)
        case ToolCall():
            return len(part.arguments) + len(part.name)
        case ToolResult():
            return sum(len(item.text) for item in part.content if isinstance(item, Text))
        case _:
            return 1000
