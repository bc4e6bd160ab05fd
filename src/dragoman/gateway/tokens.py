"""An estimate of input tokens: tools, results, reasoning and images counted, for any upstream."""

from __future__ import annotations

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.losses import Losses
from dragoman.core.model import Media, Message, Reasoning, Request, Text, Tool, ToolCall, ToolResult, Wire

_CHARACTERS = 3.6  # of a token: code and JSON run shorter than prose
_IMAGE = 1600
_EACH = 4  # a message and a tool cost this much beside their text


def estimate(speaker: Codec, wire: Wire) -> int:
    """Clients compact by this number, so it errs on the high side."""
    nested = wire.get("generateContentRequest")
    body = {**nested, **wire} if jsontext.is_object(nested) else wire
    request = speaker.decode_request({speaker.turns: [], **body}, Losses())
    return count(request)


def count(request: Request) -> int:
    characters = sum(len(part.text) for part in request.system) + sum(map(_message, request.messages))
    characters += sum(_tool(tool) for tool in request.tools if isinstance(tool, Tool))
    media = sum(isinstance(part, Media) for message in request.messages for part in _flat(message))
    return (
        int(characters / _CHARACTERS)
        + _EACH * (len(request.messages) + len(request.tools))
        + _IMAGE * media
        + 1
    )


def _flat(message: Message) -> list[object]:
    parts: list[object] = []
    for part in message.parts:
        parts += [part, *part.content] if isinstance(part, ToolResult) else [part]
    return parts


def _message(message: Message) -> int:
    size = 0
    for part in _flat(message):
        match part:
            case Text() | Reasoning():
                size += len(part.text)
            case ToolCall():
                size += len(part.name) + len(part.arguments)
            case _:
                pass
    return size


def _tool(tool: Tool) -> int:
    return len(tool.name) + len(tool.description) + len(jsontext.encode(tool.parameters or {}))
