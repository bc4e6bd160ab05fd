"""Chat requests for tests: decode, encode, and short forms of messages."""

from typing import Any

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolResult, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.openai_chat import CODEC

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
OURS = "openai-chat"


def decode(*messages: Wire) -> tuple[tuple[Message, ...], list[str]]:
    losses = Losses()
    request = CODEC.decode_request({"model": "m", "messages": list(messages)}, losses)
    return request.messages, [str(loss) for loss in losses]


def encode(*messages: Message, model: str = "gpt-4o", **more: Any) -> tuple[list[Wire], list[str]]:
    losses = Losses()
    request = Request(model, messages, **more)
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    return body["messages"], [str(loss) for loss in losses]


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def bare(value: Any) -> Any:
    """`value` without extras, to compare what it means."""
    match value:
        case Message():
            return replace(value, parts=tuple(bare(part) for part in value.parts), extras=None)
        case Text():
            return replace(value, citations=tuple(bare(c) for c in value.citations), extras=None)
        case ToolResult():
            return replace(value, content=tuple(bare(part) for part in value.content), extras=None)
        case _:
            return replace(value, extras=None)


def call(id: str, name: str, arguments: Any = "{}", **more: Any) -> Wire:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}
