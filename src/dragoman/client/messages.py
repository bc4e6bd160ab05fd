"""The messages of a conversation, as a Python developer writes them, and the neutral ones they stand for.

A reply is a message too: an `AssistantMessage` keeps the neutral parts it came from, with the opaque
state that its provider must get back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, ClassVar, cast

from msgspec.structs import replace

from dragoman.client.background import wait_for
from dragoman.client.display import markdown_of
from dragoman.client.media import Attachment, image, media
from dragoman.client.values import call_id, call_name, get_arguments, outcome
from dragoman.core.errors import ConfigError
from dragoman.core.model import AnyPart, Media, Message, Reasoning, Refusal, Role, Text, ToolCall, ToolResult

Image = str | bytes | Path | Media
OpenAICall = dict[str, Any]


class ChatMessage:
    """What all messages share. Two are equal where they have the same role and the same parts."""

    role: Role
    parts: tuple[AnyPart, ...]

    @property
    def content(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatMessage) and (self.role, self.parts) == (other.role, other.parts)

    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride] - parts hold dicts

    def _repr_markdown_(self) -> str:  # Jupyter
        return markdown_of([self])

    def __repr__(self) -> str:
        """Without the megabytes of images."""
        fields = ("content", "tool_calls", "name", "tool_call_id", "failed")
        shown = [(name, getattr(self, name, None)) for name in fields]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown if value)})"


class SystemMessage(ChatMessage):
    """Instructions; at the start of a conversation they stand outside it."""

    role: Role = "system"

    def __init__(
        self, content: str = "", *, parts: Iterable[AnyPart] | None = None, role: Role = "system"
    ) -> None:
        self.parts: tuple[AnyPart, ...] = (Text(content),) if parts is None else tuple(parts)
        self.role = role  # or developer


class UserMessage(ChatMessage):
    """Text with images and files. Each is a path, bytes, base64, a data URL or an http URL.

    UserMessage("What is this?", images=[Path("a.png")], files=["report.pdf", "https://example.com/b.pdf"])
    UserMessage(["Compare", Path("a.png"), "with", media("https://example.com/b.png")])

    In a list a string is text; `media` makes a URL an attachment.
    """

    role: Role = "user"

    def __init__(
        self,
        content: str | Sequence[str | bytes | Path | Media] = "",
        images: Iterable[Image] = (),
        files: Iterable[Attachment] = (),
        *,
        parts: Iterable[AnyPart] | None = None,
    ) -> None:
        if parts is not None:
            self.parts = tuple(parts)
            return
        shown = (*(image(each) for each in images), *(media(each) for each in files))
        pieces = [content] if isinstance(content, str) else content
        if content == "" and shown:
            pieces = []
        self.parts: tuple[AnyPart, ...] = (
            *(Text(each) if isinstance(each, str) else media(each) for each in pieces),
            *shown,
        )


class AssistantMessage(ChatMessage):
    """A reply of a model: its text and calls, or `parts`, their neutral form, which wins over both."""

    role: Role = "assistant"

    def __init__(
        self,
        content: str = "",
        tool_calls: Iterable[Mapping[str, Any]] = (),
        parts: Iterable[AnyPart] | None = None,
    ) -> None:
        if parts is None:
            parts = (*((Text(content),) if content else ()), *(_call(each) for each in tool_calls))
        self.parts: tuple[AnyPart, ...] = tuple(
            part for part in parts if not isinstance(part, ToolCall) or part.complete
        )

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


class ToolMessage(ChatMessage):
    """The answer to a call, in one of three ways.

    ToolMessage(content="72°F", tool_call_id="call_1", name="get_weather")
    ToolMessage(call, "72°F")          what is not a string becomes JSON; an exception a failed result
    ToolMessage(call, get_weather)     the function gets the parsed arguments; a `Tool` gets them by name

    `image_data`: data URLs or base64; the first bytes decide the type.
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
            raise ConfigError("A ToolMessage needs a call, or a tool_call_id.")
        text = (Text(content),) if content else ()
        images = (*shown, *(image(each) for each in image_data))
        self.result: ToolResult = ToolResult(tool_call_id, name, (*text, *images), failed)
        self.parts: tuple[AnyPart, ...] = (self.result,)

    @classmethod
    def from_result(cls, result: ToolResult) -> ToolMessage:
        """The message of a neutral result, exactly."""
        message = cls(tool_call_id=result.call_id, name=result.name or "?")
        message.result, message.parts = result, (result,)
        return message

    @property
    def content(self) -> str:
        return "\n".join(item.text for item in self.result.content if isinstance(item, Text))

    @property
    def images(self) -> tuple[Media, ...]:
        return tuple(item for item in self.result.content if isinstance(item, Media))

    @property
    def tool_call_id(self) -> str:
        return self.result.call_id

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def failed(self) -> bool:
        return self.result.failed


AnyMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
# What a call takes as its conversation
Prompt = str | AnyMessage | Mapping[str, Any] | Sequence[AnyMessage | Message | Mapping[str, Any]]


def messages_of(conversation: Prompt) -> list[AnyMessage]:
    """A prompt is a conversation of one message; dicts are read as OpenAI writes them."""
    match conversation:
        case str() if not conversation.strip():
            raise ConfigError("The prompt is empty. Pass a text, a message or a list of messages.")
        case str():
            return [UserMessage(conversation)]
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolMessage():
            return [conversation]
        case Mapping():
            return [_message(conversation)]
        case Iterable() if not isinstance(conversation, bytes):
            return [made for each in conversation for made in _messages(each)]
        case _:
            problem = f"A conversation is a text, a message or a list of messages, not {conversation!r}"
            raise ConfigError(problem)


def neutral(messages: Iterable[AnyMessage]) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """The system text at the start, and the messages after it; results in a row share one message."""
    system: list[Text] = []
    turns: list[Message] = []
    answering = False
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        parts = _place(message.parts, where)
        if message.role == "system" and not turns:
            system += [part for part in parts if isinstance(part, Text)]
        elif answering and isinstance(message, ToolMessage):
            turns[-1] = Message("user", (*turns[-1].parts, *parts), where=turns[-1].where)
        else:
            turns.append(Message(message.role, parts, where=where))
        answering = isinstance(message, ToolMessage)
    return tuple(system), tuple(turns)


def _place(parts: tuple[AnyPart, ...], where: str) -> tuple[AnyPart, ...]:
    """The parts with their place, which losses name, where they have none."""
    return tuple(
        [
            part if part.where else replace(part, where=f"{where}.parts[{index}]")
            for index, part in enumerate(parts)
        ]
    )


def openai_call(call: ToolCall) -> OpenAICall:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _output(call: Mapping[str, Any] | ToolCall, function: Callable[..., Any]) -> Any:
    run = getattr(function, "call", function)  # a Tool takes them by name and catches what is raised
    try:
        output = run(get_arguments(call))
        return wait_for(output) if isawaitable(output) else output
    except Exception as error:
        return error


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function", call)
    arguments = function.get("arguments", "{}")
    return ToolCall(
        call_id(call), call_name(call), arguments if isinstance(arguments, str) else outcome(arguments).text
    )


def from_neutral(message: Message) -> list[AnyMessage]:
    """The messages that a neutral one stands for: results are messages of their own here."""
    match message.role:
        case "assistant":
            return [AssistantMessage(parts=message.parts)]
        case "user":
            results = [part for part in message.parts if isinstance(part, ToolResult)]
            rest = [part for part in message.parts if not isinstance(part, ToolResult)]
            answers: list[AnyMessage] = [ToolMessage.from_result(each) for each in results]
            return [*answers, *([UserMessage(parts=rest)] if rest or not results else [])]
        case role:
            return [SystemMessage(parts=message.parts, role=role)]


def _messages(value: Any) -> list[AnyMessage]:
    if isinstance(value, Message):
        return from_neutral(value)
    if isinstance(value, Mapping):
        return [_message(cast(Mapping[str, Any], value))]
    if not isinstance(value, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        raise ConfigError(
            f"A conversation is a list of messages, and this is none: {value!r}. "
            "Write text and media in a row as UserMessage([…])."
        )
    return [value]


def _message(value: Mapping[str, Any]) -> AnyMessage:
    content = value.get("content") or ""
    if not isinstance(content, str):
        raise ConfigError("The content of a dict message is a string. Use UserMessage for more.")
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
