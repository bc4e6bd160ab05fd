"""The demo as its callers see it: one conversation in each protocol, through the protocol's own codec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Message,
    Request,
    Response,
    Settings,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)
from dragoman.demo.answers import ScriptedAnswer, answer
from dragoman.demo.faults import Memory
from dragoman.protocols import codec
from spoken import addressed

WEATHER = ToolDeclaration(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def asking(text: str, *tools: ToolDeclaration, **fields: Any) -> Request:
    return Request(
        "m", (Message("user", (Text(text),)),), tools=tools, settings=Settings(max_tokens=100), **fields
    )


def then(request: Request, response: Response, parts: Sequence[AnyPart]) -> Request:
    """The conversation with the reply and what follows it."""
    messages = (*request.messages, Message("assistant", response.parts), Message("user", tuple(parts)))
    return Request("m", messages, tools=request.tools, settings=request.settings)


def results(response: Response, *texts: str) -> list[AnyPart]:
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    return [ToolResult(call.id, call.name, (Text(text),)) for call, text in zip(calls, texts, strict=True)]


def send(
    protocol: str, request: Request, stream: bool = False, memory: Memory | None = None
) -> ScriptedAnswer:
    """The request on the wire of `protocol`, and the answer on it."""
    protocol_codec = codec(protocol)
    path, body = addressed(protocol, protocol_codec.encode_request(request, Losses()), stream=stream)
    path, _, query = path.partition("?")
    return answer("POST", path, dict(parse_qsl(query)), {}, jsontext.encode(body), memory or Memory())


def ask(protocol: str, request: Request) -> Response:
    answered = send(protocol, request)
    assert answered.status == 200, answered.pieces
    return codec(protocol).decode_response(jsontext.decode(b"".join(answered.pieces)), Losses())


def text_of(response: Response) -> str:
    return "".join(part.text for part in response.parts if isinstance(part, Text))


def calls_of(response: Response) -> list[tuple[str, object]]:
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    return [(call.name, jsontext.decode(call.arguments)) for call in calls]
