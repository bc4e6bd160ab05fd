"""Requests <-> neutral requests. A body names neither the model nor whether it streams: the URL does."""

from __future__ import annotations

import re

from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.bedrock_converse.messages import (
    decode_message,
    decode_system,
    encode_foreign,
    encode_native,
)
from dragoman.protocols.bedrock_converse.parts import CachePoints
from dragoman.protocols.bedrock_converse.settings import JSON_INSTRUCTION, decode_settings, encode_settings
from dragoman.protocols.bedrock_converse.tools import decode_choice, decode_tools, encode_tool_config
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME, is_native

_SYSTEM = "system_blocks"  # key of the extras: blocks of the system that are no text
# Vendors whose models have no prompt cache here; Claude and Nova have (docs.aws.amazon.com, prompt caching)
_UNCACHED = re.compile(
    r"(?:^|\.|/)(?:meta|mistral|cohere|deepseek|openai|qwen|ai21|writer|google|minimax|moonshot)"
)


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are decoded, and also kept in the extras: they go back to Bedrock unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    messages = fields.list("messages") or []
    decoded = tuple([decode_message(each, f"messages[{i}]", losses) for i, each in enumerate(messages)])
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
        decoded,
        system,
        tools,
        choice,
        None,
        settings,
        stream,
        extras={PROTOCOL_NAME: extras},
    )


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    """The body wins over the extras, where something was changed since decoding."""
    native = is_native(request)
    points = CachePoints(native or not _UNCACHED.search(request.model), losses)
    if native:
        system, messages = encode_native(request, points, losses)
    else:
        system, messages = encode_foreign(request, profile, points, losses)
    extras = own(request.extras, PROTOCOL_NAME)
    system += extras.get(_SYSTEM, [])
    if not native and request.settings.output and request.settings.output.kind == "json":
        system.append({"text": JSON_INSTRUCTION})
    body: Wire = {"messages": messages}
    if system:
        body["system"] = system
    body |= encode_tool_config(request, profile, losses)
    if native:
        if "toolConfig" in extras:
            body["toolConfig"] = extras["toolConfig"] | body.get("toolConfig", {})
        return {key: value for key, value in extras.items() if key != _SYSTEM} | body
    return body | encode_settings(request, body, profile, losses)
