"""The messages of a conversation, as a Python developer writes them, and the neutral ones they stand for.

A reply is a message too: an `AssistantMessage` keeps the neutral parts it came from, with the opaque
state that its provider must get back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

from dragoman.client.background import wait_for
from dragoman.client.media import Attachment, image, media
from dragoman.client.values import arguments_of, call_id, call_name, outcome
from dragoman.core.errors import ConfigError
from dragoman.core.model import AnyPart, Media, Message, Reasoning, Refusal, Role, Text, ToolCall, ToolResult

Image = str | bytes | Path | Media
OpenAICall = dict[str, Any]


class SystemMessage:
    """Instructions; at the start of a conversation they stand outside it."""

    role: Role = "system"

    def __init__(self, content: str) -> None:
        self.content = content

    @property
    def parts(self) -> tuple[AnyPart, ...]:
        return (Text(self.content),)

    def __repr__(self) -> str:
        return _shown(self)


class UserMessage:
    """Text with images and files. Each is a path, bytes, base64, a data URL or an http URL."""

    role: Role = "user"

    def __init__(
        self, content: str = "", images: Iterable[Image] = (), files: Iterable[Attachment] = ()
    ) -> None:
        shown = (*(image(each) for each in images), *(media(each) for each in files))
        self.content = content
        self.parts: tuple[AnyPart, ...] = (*((Text(content),) if content or not shown else ()), *shown)

    def __repr__(self) -> str:
        return _shown(self)


class AssistantMessage:
    """What a model said and called; `parts` are its neutral form, which wins over the other two."""

    role: Role = "assistant"

    def __init__(
        self,
        content: str = "",
        tool_calls: Iterable[Mapping[str, Any]] = (),
        parts: Iterable[AnyPart] | None = None,
    ) -> None:
        if parts is None:
            said = (Text(content),) if content else ()
            parts = (*said, *(_call(each) for each in tool_calls))
        self.parts = tuple(part for part in parts if not isinstance(part, ToolCall) or part.complete)

    @property
    def content(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Reasoning) and part.text)

    @property
    def refusal(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Refusal))

    @property
    def tool_calls(self) -> list[OpenAICall]:
        """The complete calls, in OpenAI's shape whatever the provider's is."""
        return [openai_call(part) for part in self.parts if isinstance(part, ToolCall)]

    def __repr__(self) -> str:
        return _shown(self)


class ToolMessage:
    """The answer to a call, in one of three ways.

    ToolMessage(content="72°F", tool_call_id="call_1", name="get_weather")
    ToolMessage(call, "72°F")          what is not a string becomes JSON; an exception a failed result
    ToolMessage(call, get_weather)     the function gets the parsed arguments; a `Tool` gets them by name

    `image_data`: data URLs or base64, whose type is told by their first bytes.
    """

    role: Role = "user"

    def __init__(
        self,
        call: Mapping[str, Any] | ToolCall | None = None,
        output: Any = None,
        *,
        content: str = "",
        tool_call_id: str = "",
        name: str = "",
        image_data: Iterable[Image] = (),
        failed: bool = False,
    ) -> None:
        shown: tuple[Media, ...] = ()
        if call is not None:
            tool_call_id, name = tool_call_id or call_id(call), name or call_name(call)
            found = outcome(_output(call, output) if callable(output) else output)
            content, shown, failed = content or found.text, found.media, failed or found.failed
        elif not (tool_call_id or name):
            raise ConfigError("a ToolMessage needs a call, or a tool_call_id")
        self.content, self.tool_call_id, self.name, self.failed = content, tool_call_id, name, failed
        self.images = (*shown, *(image(each) for each in image_data))

    @property
    def parts(self) -> tuple[AnyPart, ...]:
        text = (Text(self.content),) if self.content else ()
        return (ToolResult(self.tool_call_id, self.name, (*text, *self.images), self.failed),)

    def __repr__(self) -> str:
        return _shown(self)


AnyMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
Conversation = str | AnyMessage | Sequence[AnyMessage | Message | Mapping[str, Any]]


def messages_of(conversation: Conversation) -> list[AnyMessage | Message]:
    """A prompt is a conversation of one message; dicts are read as OpenAI writes them."""
    match conversation:
        case str():
            return [UserMessage(conversation)]
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolMessage():
            return [conversation]
        case _:
            return [_message(each) for each in conversation]


def neutral(messages: Iterable[AnyMessage | Message]) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """The system text at the start, and the messages after it; results in a row share one message."""
    system: list[Text] = []
    told: list[Message] = []
    answering = False
    for index, message in enumerate(messages):
        parts, where = message.parts, f"messages[{index}]"
        if message.role == "system" and not told:
            system += [part for part in parts if isinstance(part, Text)]
        elif answering and isinstance(message, ToolMessage):
            told[-1] = Message("user", (*told[-1].parts, *parts), where=told[-1].where)
        else:
            told.append(Message(message.role, parts, where=where))
        answering = isinstance(message, ToolMessage)
    return tuple(system), tuple(told)


def openai_call(call: ToolCall) -> OpenAICall:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _output(call: Mapping[str, Any] | ToolCall, function: Callable[..., Any]) -> Any:
    run = getattr(function, "call", function)  # a Tool takes them by name and catches what is raised
    try:
        output = run(arguments_of(call))
        return wait_for(output) if isawaitable(output) else output
    except Exception as error:
        return error


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function", call)
    arguments = function.get("arguments", "{}")
    return ToolCall(
        call_id(call), call_name(call), arguments if isinstance(arguments, str) else outcome(arguments).text
    )


def _message(value: AnyMessage | Message | Mapping[str, Any]) -> AnyMessage | Message:
    if not isinstance(value, Mapping):
        return value
    content = value.get("content") or ""
    if not isinstance(content, str):
        raise ConfigError("the content of a dict message is a string; use UserMessage for more")
    match value.get("role"):
        case "system" | "developer":
            return SystemMessage(content)
        case "user":
            return UserMessage(content)
        case "assistant":
            return AssistantMessage(content, value.get("tool_calls") or ())
        case "tool":
            return ToolMessage(
                content=content,
                tool_call_id=str(value.get("tool_call_id") or ""),
                name=str(value.get("name") or ""),
            )
        case role:
            raise ConfigError(f"the role of a message is system, user, assistant or tool, not {role!r}")


def _shown(message: object) -> str:
    """What it says, without the megabytes of its images."""
    said = {name: getattr(message, name, None) for name in ("content", "tool_calls", "name", "tool_call_id")}
    told = ", ".join(f"{name}={value!r}" for name, value in said.items() if value)
    return f"{type(message).__name__}({told})"
