"""A conversation as the wire of any protocol says it, and back."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.client.calling import NEUTRAL
from dragoman.client.messages import (
    AnyMessage,
    AssistantMessage,
    Conversation,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from dragoman.client.requests import request_of
from dragoman.client.tools import AnyTool
from dragoman.core.losses import Losses
from dragoman.core.model import Media, Message, Text, ToolResult, Wire
from dragoman.pipeline import Pipeline
from dragoman.protocols import codec as find_codec
from dragoman.protocols import protocol as find_protocol


def export(
    conversation: Conversation,
    protocol: str,
    model: str = "",
    tools: Iterable[AnyTool] = (),
    origin: str = "",
    losses: Losses | None = None,
) -> Wire:
    """The body of a request that continues `conversation` in `protocol`.

    State goes only to the provider that made it: say which one in `origin` to have it kept.
    """
    pipeline = Pipeline(NEUTRAL, find_protocol(protocol), losses or Losses(), origin=origin)
    return pipeline.encode_request(request_of(model, conversation, tools, {}, stream=False))[1]


def load(body: Wire, protocol: str, losses: Losses | None = None) -> list[AnyMessage]:
    """The conversation that the body of a request holds: the way back from `export`."""
    request = find_codec(protocol).decode_request(body, losses or Losses())
    system: list[AnyMessage] = [SystemMessage(part.text) for part in request.system]
    return system + [made for message in request.messages for made in from_neutral(message)]


def from_neutral(message: Message) -> list[AnyMessage]:
    """The messages that a neutral one stands for: results are messages of their own here."""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    match message.role:
        case "assistant":
            return [AssistantMessage(parts=message.parts)]
        case "user":
            results: list[AnyMessage] = [
                _answer(part) for part in message.parts if isinstance(part, ToolResult)
            ]
            shown = [part for part in message.parts if isinstance(part, Media)]
            said = [UserMessage(text, images=shown)] if text or shown or not results else []
            return [*results, *said]
        case _:
            return [SystemMessage(text)]


def _answer(result: ToolResult) -> ToolMessage:
    return ToolMessage(
        content="\n".join(item.text for item in result.content if isinstance(item, Text)),
        tool_call_id=result.call_id,
        name=result.name,
        image_data=[item for item in result.content if isinstance(item, Media)],
        failed=result.failed,
    )
