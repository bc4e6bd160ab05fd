"""Gemini requests for tests: decode, encode, and short forms of messages."""

from typing import Any

from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, ToolResult, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.gemini import CODEC

PNG = "iVBORw0KGgo+/w=="
HELLO = {"role": "user", "parts": [{"text": "hello"}]}


def decode(body: Wire) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request(body, losses), [str(loss) for loss in losses]


def encode(request: Request) -> tuple[Wire, list[str]]:
    losses = Losses()
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def request_of(*messages: Message, model: str = "gemini-3-pro", **more: Any) -> Request:
    return Request(model, messages, **more)


def contents(*messages: Message, model: str = "gemini-3-pro") -> list[Wire]:
    return encode(request_of(*messages, model=model))[0]["contents"]


def bare(part: Any) -> Any:
    """A part without its extras, which only Gemini reads."""
    from msgspec.structs import replace

    if isinstance(part, ToolResult):
        part = replace(part, content=tuple(bare(item) for item in part.content))
    return replace(part, extras=None)
