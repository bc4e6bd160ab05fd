"""What the scripted model answers: it reads the declared tools and the prompt, really calls a fitting
tool with arguments that its schema allows, and answers from the results.

Like the providers it stands for, it signs what it thought and refuses a history whose signatures
were changed or forged, so that state which does not survive a client shows at once.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2s

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.model import (
    AnyPart,
    Failure,
    Message,
    Reasoning,
    Request,
    Response,
    State,
    Stop,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.demo.choice import fitting

# Which parts of a reply a provider of this protocol signs
_SIGNED = {"anthropic": Reasoning, "openai-responses": Reasoning, "gemini": ToolCall}


def reply(request: Request, protocol: str) -> Response | Failure:
    """The answer of a model that speaks `protocol`; the same request always gets the same answer."""
    forged = _forged(request, protocol)
    if forged:
        return Failure("bad_request", forged, 400)
    parts = _signed(_parts(request), protocol)
    called = any(isinstance(part, ToolCall) for part in parts)
    usage = Usage(_size(request), sum(_length(part) for part in parts) // 4 + 1)
    return Response(
        f"demo-{_digest(request)}", request.model, parts, Stop("tool_calls" if called else "end"), usage
    )


def _parts(request: Request) -> tuple[AnyPart, ...]:
    results = _results(request.messages[-1]) if request.messages else ()
    prompt = _prompt(request)
    if results:
        return _thought(request, f"The tool answered; {len(results)} result(s) to report.") + (
            _answer(results),
        )
    tools = [tool for tool in request.tools if isinstance(tool, Tool) and not tool.deferred]
    calls = () if _forbidden(request) else fitting(prompt, tools, request)
    if not calls:
        return (*_thought(request, "No tool is needed."), Text(f"You said: {prompt.strip() or 'nothing'}"))
    number = sum(isinstance(part, ToolCall) for message in request.messages for part in message.parts)
    named = tuple(
        ToolCall(f"call_demo_{number + i + 1}", tool.name, arguments, tool.kind, tool.namespace)
        for i, (tool, arguments) in enumerate(calls)
    )
    tools_named = " and ".join(call.name for call in named)
    return (*_thought(request, f"I need {tools_named}."), Text(f"I will use {tools_named}."), *named)


def _answer(results: tuple[ToolResult, ...]) -> Text:
    told = [
        f"{result.name or 'The tool'} {'failed' if result.failed else 'returned'}: {_said(result)}"
        for result in results
    ]
    return Text("\n".join(told))


def _said(result: ToolResult) -> str:
    said = [
        item.text if isinstance(item, Text) else f"[{getattr(item, 'kind', 'part')}]"
        for item in result.content
    ]
    return "".join(said).strip() or "(nothing)"


def _thought(request: Request, text: str) -> tuple[Reasoning, ...]:
    """It thinks aloud unless it is told not to think."""
    settings = request.settings
    return () if settings.effort == "none" or settings.budget == 0 else (Reasoning(text),)


def _forbidden(request: Request) -> bool:
    return request.tool_choice is not None and request.tool_choice.mode == "none"


def _prompt(request: Request) -> str:
    """The last thing the user said."""
    for message in reversed(request.messages):
        said = "".join(part.text for part in message.parts if isinstance(part, Text))
        if message.role == "user" and said:
            return said
    return ""


def _results(message: Message) -> tuple[ToolResult, ...]:
    return tuple(part for part in message.parts if isinstance(part, ToolResult))


# Signatures


def _signed(parts: tuple[AnyPart, ...], protocol: str) -> tuple[AnyPart, ...]:
    """Gemini signs the first call of a step, the others what they thought."""
    kind = _SIGNED.get(protocol)
    signed: list[AnyPart] = []
    done = False
    for part in parts:
        if kind is not None and isinstance(part, kind) and not done:
            done = True
            part = _with_state(
                part, State(protocol, _signature(part), "rs_demo" if protocol == "openai-responses" else "")
            )
        signed.append(part)
    return tuple(signed)


def _forged(request: Request, protocol: str) -> str:
    """What a provider would say to a signature that it did not make for this very part."""
    for message in request.messages:
        for part in message.parts:
            if part.state and part.state.data != _signature(part):
                return f"Invalid signature at {part.where or message.where}: state was changed, or made by someone else"
    return ""


def _signature(part: AnyPart) -> str:
    match part:
        case ToolCall():
            text = f"{part.name}{jsontext.dumps(jsontext.decode_object(part.arguments) or {})}"
        case Reasoning():
            text = part.text
        case _:
            text = "text"
    return _b64(text)


def _b64(text: str) -> str:
    return b64encode(b"demo" + blake2s(text.encode(), digest_size=32).digest()).decode()


def _with_state(part: AnyPart, state: State) -> AnyPart:
    return replace(part, state=state)


def _digest(request: Request) -> str:
    said = [_prompt(request), *(str(len(message.parts)) for message in request.messages)]
    return blake2s("|".join(said).encode(), digest_size=6).hexdigest()


def _size(request: Request) -> int:
    return (
        sum(_length(part) for message in request.messages for part in message.parts) + 40 * len(request.tools)
    ) // 4 + 1


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
