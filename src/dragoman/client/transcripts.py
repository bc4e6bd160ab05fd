"""Conversations as JSON: in a form of our own, which is versioned and exact, or as the wire of any protocol.

Our form keeps everything that a reply needs on its way back, opaque state included. A message is its role and
its parts; a field that has its default value is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import structs

from dragoman.client.messages import (
    AnyMessage,
    AssistantMessage,
    Prompt,
    SystemMessage,
    ToolMessage,
    UserMessage,
    from_neutral,
    messages_of,
)
from dragoman.client.requests import NEUTRAL, request_of
from dragoman.client.tools import ToolLike
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.fields import read_body
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    FileId,
    Foreign,
    Media,
    Plain,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.pipeline import Pipeline, TranslationPlan
from dragoman.protocols import codec as find_codec
from dragoman.protocols import protocol as find_protocol

FORMAT = "dragoman.messages"
VERSION = 1
_PARTS: dict[str, type[AnyPart]] = {
    "text": Text,
    "reasoning": Reasoning,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "media": Media,
    "refusal": Refusal,
    "foreign": Foreign,
}
_TYPES = {kind: name for name, kind in _PARTS.items()}
_SOURCES: dict[str, type[Base64 | Url | FileId | Plain]] = {
    "base64": Base64,
    "url": Url,
    "file_id": FileId,
    "text": Plain,
}
_SOURCE_TYPES = {kind: name for name, kind in _SOURCES.items()}


def dump_messages(
    conversation: Prompt, protocol: str = "", *, model: str = "", losses: Losses | None = None
) -> str:
    """The conversation as JSON text, for `load_messages`.

    With a `protocol` it is the same conversation on the wire of that protocol instead, with nothing invented;
    what that cannot hold is reported in `losses`.
    """
    if protocol:
        plan = TranslationPlan(NEUTRAL, find_protocol(protocol), transcript=True)
        pipeline = Pipeline(plan, Losses() if losses is None else losses)
        return jsontext.dumps(
            pipeline.encode_request(request_of(model, conversation, (), {}, stream=False))[1]
        )
    listed = [
        {
            "role": "tool" if isinstance(message, ToolMessage) else message.role,
            "parts": [_encode_part(part) for part in message.parts],
        }
        for message in messages_of(conversation)
    ]
    return jsontext.dumps({"format": FORMAT, "version": VERSION, "messages": listed})


def load_messages(text: str | bytes, protocol: str = "", *, losses: Losses | None = None) -> list[AnyMessage]:
    """The messages that `dump_messages` wrote; with a `protocol`, those in the body of a request.

    Raises WireError where the text is something else, ConfigError where a later version wrote it.
    """
    if protocol:
        return load(read_body(text, protocol), protocol, losses)
    return decode_messages(read_body(text, FORMAT))


def decode_messages(body: Wire) -> list[AnyMessage]:
    """The messages of an object in our own form."""
    if body.get("format") != FORMAT or not is_array(body.get("messages")):
        raise WireError(FORMAT, "format", f"expected {FORMAT!r}, got {body.get('format')!r}")
    if not isinstance(version := body.get("version"), int) or version > VERSION:
        raise ConfigError(f"{FORMAT} has version {version!r}. This dragoman reads up to {VERSION}.")
    return [_decode_message(each, f"messages[{index}]") for index, each in enumerate(body["messages"])]


def export(
    conversation: Prompt,
    protocol: str,
    model: str = "",
    tools: Iterable[ToolLike] = (),
    origin: str = "",
    losses: Losses | None = None,
) -> Wire:
    """The body of a request that continues `conversation` in `protocol`.

    State goes only to the provider that made it: name it in `origin` to have its state included.
    """
    plan = TranslationPlan(NEUTRAL, find_protocol(protocol), origin=origin)
    pipeline = Pipeline(plan, Losses() if losses is None else losses)
    return pipeline.encode_request(request_of(model, conversation, tools, {}, stream=False))[1]


def load(body: Wire, protocol: str, losses: Losses | None = None) -> list[AnyMessage]:
    """The conversation that the body of a request holds: the way back from `export`."""
    request = find_codec(protocol).decode_request(body, Losses() if losses is None else losses)
    system: list[AnyMessage] = [SystemMessage(parts=(part,)) for part in request.system]
    return system + [made for message in request.messages for made in from_neutral(message)]


def _decode_message(value: Any, where: str) -> AnyMessage:
    if not is_object(value) or not is_array(value.get("parts")):
        raise WireError(FORMAT, where, "expected an object with a role and parts")
    parts = [_decode_part(part, f"{where}.parts[{index}]") for index, part in enumerate(value["parts"])]
    match value.get("role"):
        case "system" | "developer" as role:
            return SystemMessage(parts=parts, role=role)
        case "assistant":
            return AssistantMessage(parts=parts)
        case "tool" if len(parts) == 1 and isinstance(parts[0], ToolResult):
            return ToolMessage.from_result(parts[0])
        case "user":
            return UserMessage(parts=parts)
        case role:
            raise WireError(
                FORMAT, f"{where}.role", f"expected system, user, assistant or tool, got {role!r}"
            )


def _encode_part(part: AnyPart) -> Wire:
    wire: Wire = {"type": _TYPES[type(part)]}
    for name, default in _fields(type(part)).items():
        value = getattr(part, name)
        if value != default:
            wire[name] = value
    match part:
        case Media():
            wire["source"] = {"type": _SOURCE_TYPES[type(part.source)], **structs.asdict(part.source)}
        case ToolResult() if part.content:
            wire["content"] = [_encode_part(item) for item in part.content]
        case _:
            pass
    return wire


def _decode_part(value: Any, where: str) -> AnyPart:
    kind = _PARTS.get(str(value.get("type"))) if is_object(value) else None
    if kind is None:
        raise WireError(FORMAT, f"{where}.type", f"expected one of {', '.join(_PARTS)}")
    hints = get_type_hints(kind)
    try:
        given = {name: value[name] for name in _fields(kind) if name in value}
        return kind(**{name: _decode_field(name, each, hints[name], where) for name, each in given.items()})
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise WireError(FORMAT, where, str(error)) from None


def _decode_field(name: str, value: Any, hint: Any, where: str) -> Any:
    match name:
        case "source":
            return msgspec.convert(value, _SOURCES[value.get("type")])
        case "content":
            items = [_decode_part(item, f"{where}.content[{index}]") for index, item in enumerate(value)]
            return tuple(item for item in items if isinstance(item, Text | Media | Foreign))
        case _:
            return msgspec.convert(value, hint)


@cache
def _fields(kind: type[AnyPart]) -> dict[str, Any]:
    """The fields of a part with their defaults; `where` is no part of its meaning."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = (_REQUIRED,) * (len(names) - len(defaults))
    both = zip(names, (*required, *defaults), strict=True)
    return {name: default for name, default in both if name != "where"}


_REQUIRED = object()
