"""Messages of the usual shape, read in one step by a typed decoder: text, thinking, tool uses, usage.

A field that is not declared here, or any other value, makes it another shape, which `decode_response` reads;
for those that are, both give the same reply (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman.core.jsontext import MALFORMED, typed_decoder
from dragoman.core.model import AnyPart, Reasoning, Response, Stop, Text, ToolCall, Usage
from dragoman.core.seal import unseal_state
from dragoman.protocols.anthropic.parts import decode_input
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, STOP

_Count = Annotated[int, Meta(ge=0)]


class _TextBlock(Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str
    citations: None = None


class _ThinkingBlock(Struct, forbid_unknown_fields=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = ""


class _DirectCaller(Struct, forbid_unknown_fields=True):
    type: Literal["direct"]


class _ToolUseBlock(Struct, forbid_unknown_fields=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]
    caller: _DirectCaller | None = None


class _ThinkingCount(Struct):
    thinking_tokens: _Count = 0


class _MessageUsage(Struct, forbid_unknown_fields=True):
    input_tokens: _Count
    output_tokens: _Count
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    output_tokens_details: _ThinkingCount | None = None
    server_tool_use: None = None
    cache_creation: Raw = Raw()
    service_tier: Raw = Raw()
    inference_geo: Raw = Raw()
    speed: Raw = Raw()


class _UsualMessage(Struct, forbid_unknown_fields=True):
    content: list[_TextBlock | _ToolUseBlock | _ThinkingBlock]
    stop_reason: Literal["end_turn", "tool_use", "stop_sequence"]
    usage: _MessageUsage
    id: str = ""
    model: str = ""
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    stop_sequence: Annotated[str, Meta(min_length=1)] | None = None
    stop_details: None = None
    container: None = None
    context_management: Raw = Raw()


_decode = typed_decoder(_UsualMessage).decode


def read_usual_reply(body: bytes) -> Response | None:
    try:
        reply = _decode(body)
    except MALFORMED:
        return None
    parts: list[AnyPart] = []
    for i, block in enumerate(reply.content):
        where = f"content[{i}]"
        if type(block) is _ToolUseBlock:
            parts.append(ToolCall(block.id, block.name, decode_input(block.input, where), where=where))
        elif type(block) is _TextBlock:
            parts.append(Text(block.text, where=where))
        elif type(block) is _ThinkingBlock:
            state = unseal_state(block.signature, PROTOCOL_NAME) if block.signature else None
            parts.append(Reasoning(block.thinking, state=state, where=where))
    usage = reply.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    thought = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0
    return Response(
        reply.id,
        reply.model,
        tuple(parts),
        Stop(STOP.decode(reply.stop_reason), reply.stop_reason, reply.stop_sequence or ""),
        Usage(usage.input_tokens + cached + written, usage.output_tokens, cached, written, thought),
    )
