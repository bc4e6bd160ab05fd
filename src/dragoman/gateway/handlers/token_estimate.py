"""An estimate of input tokens: tools, results, reasoning and images counted, for any upstream."""

from __future__ import annotations

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Foreign,
    Media,
    Message,
    Plain,
    Reasoning,
    Refusal,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Wire,
)

_CHARACTERS = 3.6  # of a token: code and JSON run shorter than prose
_IMAGE = 1600
_PAGE_BYTES = 50_000  # of a document in base64, about; providers count each page as text and as image
_EACH = 4  # a message and a tool cost this much beside their text
_HOSTED = 350  # what a provider's own tool adds to the prompt


def estimate(speaker: Codec, wire: Wire) -> int:
    """Clients compact by this number, so it errs on the high side."""
    nested = wire.get("generateContentRequest")
    body = {**nested, **wire} if jsontext.is_object(nested) else wire
    request = speaker.decode_request({speaker.turns: [], **body}, Losses())
    return count(request)


def count(request: Request) -> int:
    characters = sum(len(part.text) for part in request.system)
    tokens = 1 + _EACH * (len(request.messages) + len(request.tools))
    for message in request.messages:
        for part in _flat(message):
            characters += _characters(part)
            tokens += _tokens(part)
    for tool in request.tools:
        if isinstance(tool, Tool):
            characters += len(tool.name) + len(tool.description) + len(jsontext.encode(tool.parameters or {}))
        else:
            tokens += _HOSTED
    return int(characters / _CHARACTERS) + tokens


def _flat(message: Message) -> list[object]:
    parts: list[object] = []
    for part in message.parts:
        parts += [part, *part.content] if isinstance(part, ToolResult) else [part]
    return parts


def _characters(part: object) -> int:
    match part:
        case Text() | Reasoning() | Refusal():
            return len(part.text)
        case ToolCall():
            return len(part.name) + len(part.arguments)
        case Media(source=Plain(text)):
            return len(text)
        case Foreign():
            return len(jsontext.encode(part.body))
        case _:
            return 0


def _tokens(part: object) -> int:
    match part:
        case Media(source=Plain()):
            return 0
        case Media(kind="document", source=Base64(data)):
            return _IMAGE * (1 + len(data) // _PAGE_BYTES)
        case Media():
            return _IMAGE
        case _:
            return 0
