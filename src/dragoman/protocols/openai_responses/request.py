"""Requests <-> neutral requests.

`instructions` stand beside the conversation, further system text inside it. Settings are read and also kept
in the extras, so that they go back unchanged.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, field_of, own
from dragoman.core.history import decode_head, encode_head, known_head
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Compaction,
    Foreign,
    Message,
    Request,
    Settings,
    Text,
    Turns,
    Wire,
)
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.openai_responses.compaction import is_trigger
from dragoman.protocols.openai_responses.hosted import declares_search
from dragoman.protocols.openai_responses.messages import decode_input, encode_input
from dragoman.protocols.openai_responses.settings import decode_settings, encode_settings
from dragoman.protocols.openai_responses.tools import (
    decode_choice,
    decode_loaded,
    decode_tools,
    encode_choice,
    encode_tools,
)
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_REQUEST, native

_DEFAULTS = {"truncation": "disabled", "background": False}
_EARLIER = "the earlier turns it stands for are not in this request"


def decode_request(body: Wire, losses: Losses) -> Request:
    items = _input(body)
    request = decode_head(body, head := known_head(items), _decode_head, losses)
    tools, compaction = request.tools, None
    if isinstance(items, list):
        if items and is_trigger(items[-1]):
            compaction = Compaction(extras={PROTOCOL_NAME: items[-1]})
            items = items.without_last() if isinstance(items, Turns) else items[:-1]
        tools = decode_loaded(items, tools, losses)
    messages, past = decode_input(items, losses, declares_search(tools, losses))
    return replace(request, messages=messages, tools=tools, compaction=compaction, past=past, head=head)


def _decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the input; an absent or empty one stays in the extras, to go back as it came."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if body.get("input") or body.get("input") == "":
        del fields.rest["input"]
    model, choice = fields.nonempty("model"), decode_choice(fields, losses)
    instructions = fields.nonempty("instructions")
    declared = fields.list("tools") if fields.rest.get("tools") != [] else None
    return Request(
        model,
        (),
        (Text(instructions, where="instructions"),) if instructions else (),
        decode_tools(declared or [], losses, "tools"),
        choice,
        stream=fields.flag("stream"),
        extras={PROTOCOL_NAME: fields.rest.copy()},
        parallel=fields.take("parallel_tool_calls", bool),
        settings=_settings(fields, losses),
    )


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    ours = native(request)
    body: Wire = {"model": request.model} if request.model or not ours else {}
    system, messages = (request.system, request.messages) if ours else _parted(request)
    if system:
        body["instructions"] = "\n\n".join(part.text for part in system if part.text)
        for part in system:
            if part.cache and not ours:
                why = "instructions are one text, which is cached with the conversation"
                losses.dropped(f"{part.where}.cache", why, "cache.breakpoint")
    if messages or not ours:
        front = request.messages[: len(request.messages) - len(messages)]
        body["input"] = encode_input(
            messages if request.tools else _without_loaded(messages), losses, request.past, front
        )
    if request.compaction and native(request.compaction):
        body["input"] = [*body.get("input", ()), own(request.compaction.extras, PROTOCOL_NAME)]
    body |= encode_head(request, losses, profile, _encode_head)
    if ours:
        extras = own(request.extras, PROTOCOL_NAME)
        if (
            request.parallel is None and extras.get("parallel_tool_calls") is not None
        ):  # a dialect removed the tools
            extras = {key: value for key, value in extras.items() if key != "parallel_tool_calls"}
        return extras | body
    return body


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Everything but the model, the instructions and the input."""
    body: Wire = {}
    tools = encode_tools(request.tools, losses)
    if tools:
        body["tools"] = tools
    body |= encode_choice(request, tools, losses)
    if request.stream:
        body["stream"] = True
    return body if native(request) else body | encode_settings(request, bool(tools), profile, losses)


def _parted(request: Request) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """(`instructions`, messages). Chat begins its conversation with the system text."""
    match request.messages:
        case (Message("system", (Text() as text,)), *rest) if not request.system:
            return (text,), tuple(rest)
        case _:
            return request.system, request.messages


def _without_loaded(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without `additional_tools` items: a dialect has described all tools in the prompt."""
    remaining = [(message, tuple(part for part in message.parts if not _loads(part))) for message in messages]
    return tuple(
        message if parts == message.parts else replace(message, parts=parts)
        for message, parts in remaining
        if parts or not message.parts
    )


def _loads(part: AnyPart) -> bool:
    match part:
        case Foreign(body={"type": "additional_tools", "tools": [_, *_]}):
            return True
        case _:
            return False


def _input(body: Wire) -> str | list[Any]:
    items = field_of(body, "input", PROTOCOL_NAME)
    if items is None:
        return []
    if not isinstance(items, str) and not is_array(items):
        raise WireError(PROTOCOL_NAME, "input", f"expected a string or an array, got {describe(items)}")
    return items  # pyright: ignore[reportUnknownVariableType] - of JSON


def _settings(fields: Fields, losses: Losses) -> Settings:
    settings = decode_settings(fields, losses)
    for key in ("previous_response_id", "conversation"):
        if fields.any(key) is not None:
            losses.dropped(key, _EARLIER, "store")
    if fields.any("prompt") is not None:
        losses.dropped("prompt", "only its server stores this template: its text is not sent", "prompt")
    defaults = {key for key, value in _DEFAULTS.items() if fields.rest.get(key) == value}
    fields.extras(losses, quiet=QUIET_REQUEST | defaults)
    return settings
