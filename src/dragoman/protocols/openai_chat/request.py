"""Requests <-> neutral requests.

System text keeps its place among the messages; web search is a setting beside the tools.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.openai_chat.messages import decode_message, encode_messages
from dragoman.protocols.openai_chat.settings import decode_settings, encode_settings
from dragoman.protocols.openai_chat.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native, lifetime


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are read, and also kept in the extras: they go back to Chat unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    messages = fields.list("messages")
    if messages is None:
        raise WireError(PROTOCOL_NAME, "messages", "expected an array, got nothing")
    request = Request(
        fields.nonempty("model"),
        tuple([decode_message(m, f"messages[{i}]", losses) for i, m in enumerate(messages)]),
        (),
        decode_tools(fields, losses),
        decode_choice(fields),
        fields.take("parallel_tool_calls", bool),
        stream=fields.flag("stream"),
        extras={PROTOCOL_NAME: fields.rest.copy()},
        settings=decode_settings(fields, losses),
    )
    fields.extras(losses, quiet=QUIET_REQUEST)
    return request


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    native = is_native(request)
    body: Wire = {"model": request.model} if request.model or not native else {}
    body["messages"] = encode_messages(request, profile, losses)
    if profile.cache_breakpoints == "cache_control":
        body["messages"] = [_with_cache_control(message) for message in body["messages"]]
    tools = encode_tools(request, profile, losses)
    body |= tools | encode_choice(request, tools, profile, losses)
    if request.stream:
        body["stream"] = True
    if native:
        return own(request.extras, PROTOCOL_NAME) | body
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    return body | encode_settings(request, "tools" in tools, profile, losses)


def _with_cache_control(message: Wire) -> Wire:
    """OpenRouter takes cache breakpoints under Anthropic's name."""
    content = message.get("content")
    if not is_array(content):
        return message
    parts: list[Any] = []
    for part in content:
        if mark := part.get("prompt_cache_breakpoint"):
            ttl = {"ttl": "1h"} if lifetime(mark) == "1h" else {}
            rest = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
            part = {**rest, "cache_control": {"type": "ephemeral", **ttl}}
        parts.append(part)
    return {**message, "content": parts}
