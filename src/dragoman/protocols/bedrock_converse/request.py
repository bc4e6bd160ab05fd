"""Requests <-> neutral requests. A body names neither the model nor whether it streams: the URL does."""

from __future__ import annotations

import re

from dragoman.core.fields import Fields, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.bedrock_converse.messages import (
    ConverseFacts,
    DecodeConverse,
    EncodeConverse,
    decode_system,
)
from dragoman.protocols.bedrock_converse.parts import CachePoints, encode_content
from dragoman.protocols.bedrock_converse.settings import JSON_INSTRUCTION, decode_settings, encode_settings
from dragoman.protocols.bedrock_converse.tools import decode_choice, decode_tools, encode_tool_config
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME, is_native

_SYSTEM = "system_blocks"  # key of the extras: blocks of the system that are no text
# Vendors whose models have no prompt cache here; Claude and Nova have (docs.aws.amazon.com, prompt caching)
_UNCACHED = re.compile(
    r"(?:^|\.|/)(?:meta|mistral|cohere|deepseek|openai|qwen|ai21|writer|google|minimax|moonshot)"
)


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the messages. Settings are read, and also kept in the extras: they go back unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    fields.rest.pop("messages", None)
    system, blocks = decode_system(fields.any("system") or [], losses)
    config = fields.fields("toolConfig")
    tools = decode_tools(config.list("tools") or [], losses) if config else ()
    choice = decode_choice(given, losses) if config and (given := config.any("toolChoice")) else None
    model, stream = fields.nonempty("model"), fields.flag("stream")  # which only a URL says; see Http
    extras = fields.rest.copy() | ({_SYSTEM: blocks} if blocks else {})
    if config:
        extras["toolConfig"] = config.rest
    settings = decode_settings(fields, losses)
    fields.extras(losses)
    return Request(
        model,
        (),
        system,
        tools,
        choice,
        None,
        settings,
        stream,
        extras={PROTOCOL_NAME: extras},
    )


def _caches(request: Request) -> bool:
    return is_native(request) or not _UNCACHED.search(request.model)


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    short = any(text.cache not in ("", "1h") for text in request.system)
    native, record = is_native(request), profile.transcript
    return (EncodeConverse(native, profile.prefill, _caches(request), short, record),)


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    """The body wins over the extras, where something was changed since decoding."""
    native, extras = is_native(request), own(request.extras, PROTOCOL_NAME)
    facts: ConverseFacts = messages.facts
    points = CachePoints(_caches(request), losses)
    system = encode_content([*request.system, *facts.system], points, losses) + extras.get(_SYSTEM, [])
    if not native and request.settings.output and request.settings.output.kind == "json":
        system.append({"text": JSON_INSTRUCTION})
    body: Wire = {"messages": messages.entries}
    if system:
        body["system"] = system
    messages.report(losses)
    calls = () if profile.transcript else facts.calls
    body |= encode_tool_config(request, calls, facts.has_tools, profile, losses)
    if not native:
        return body | encode_settings(request, body, facts.lacks_thinking, profile, losses)
    if "toolConfig" in extras:
        body["toolConfig"] = extras["toolConfig"] | body.get("toolConfig", {})
    return {key: value for key, value in extras.items() if key != _SYSTEM} | body


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="messages",
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeConverse(),
    encode_messages=encode_messages,
    encode_around=encode_around,
)
