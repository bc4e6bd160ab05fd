"""Requests <-> neutral requests. A body names neither the model nor whether it streams: the URL does."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from dragoman.core.conversation import RequestShape
from dragoman.core.fields import Fields, own
from dragoman.core.fold import DecodeRun, EncodedMessages, Fold, Pass
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
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


def read_messages(body: Wire, field: str, protocol: str) -> list[Any]:
    """They may be missing."""
    return Fields(body, "", protocol).list(field) or []


class DecodeTurns(Fold, frozen=True):
    def begin(self, state: int | None = None) -> DecodeRun:
        return DecodeRun(decode_message, "messages", state or 0)


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


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    """The body wins over the extras, where something was changed since decoding."""
    request = replace(request, messages=tuple(messages.entries))
    native = is_native(request)
    points = CachePoints(native or not _UNCACHED.search(request.model), losses)
    if native:
        system, turns = encode_native(request, points, losses)
    else:
        system, turns = encode_foreign(request, profile, points, losses)
    extras = own(request.extras, PROTOCOL_NAME)
    system += extras.get(_SYSTEM, [])
    if not native and request.settings.output and request.settings.output.kind == "json":
        system.append({"text": JSON_INSTRUCTION})
    body: Wire = {"messages": turns}
    if system:
        body["system"] = system
    body |= encode_tool_config(request, profile, losses)
    if native:
        if "toolConfig" in extras:
            body["toolConfig"] = extras["toolConfig"] | body.get("toolConfig", {})
        return {key: value for key, value in extras.items() if key != _SYSTEM} | body
    return body | encode_settings(request, body, profile, losses)


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="messages",
    read=read_messages,
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeTurns(),
    encode_messages=lambda request, profile: (Pass(),),
    encode_around=encode_around,
    encodes_together=True,
)
