"""Messages of the usual shape, read and written in one step as structs: text, thinking, tool uses, usage.

A field that is not declared here, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for those that are, both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman.core.jsontext import decode_object, typed_reader
from dragoman.core.model import AnyPart, Reasoning, Request, Response, Stop, Text, ToolCall, Usage, Wire
from dragoman.core.seal import unseal_state
from dragoman.protocols.anthropic.parts import decode_input, encode_reasoning
from dragoman.protocols.anthropic.response import encode_id
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


class _ThinkingCount(Struct, forbid_unknown_fields=True):
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
    stop_sequence: None = None
    stop_details: None = None
    container: None = None
    context_management: Raw = Raw()


_read = typed_reader(_UsualMessage)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None:
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
        Stop(STOP.decode(reply.stop_reason), reply.stop_reason),
        Usage(usage.input_tokens + cached + written, usage.output_tokens, cached, written, thought),
    )


class _CacheCreation(Struct, gc=False):
    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int = 0


class _WrittenMessageUsage(Struct, gc=False):
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: _ThinkingCount
    server_tool_use: None
    cache_creation: _CacheCreation
    service_tier: str = "standard"
    inference_geo: None = None
    speed: None = None


class _WrittenMessage(Struct, gc=False):
    id: str
    type: str
    role: str
    model: str
    content: list[_TextBlock | _ToolUseBlock | Wire]
    stop_reason: str
    stop_sequence: str | None
    stop_details: None
    container: None
    usage: _WrittenMessageUsage


_DIRECT = _DirectCaller("direct")


def write_usual_reply(
    response: Response, request: Request | None, echo: bytes = b""
) -> _WrittenMessage | None:
    """Texts, thoughts and calls of functions."""
    if request is not None and (request.edits is not None or request.compaction is not None):
        return None
    content: list[_TextBlock | _ToolUseBlock | Wire] = []
    for part in response.parts:
        if type(part) is Text and not part.citations:
            if part.text:
                content.append(_TextBlock(part.text))
        elif type(part) is ToolCall and part.complete and part.kind == "function":
            value = decode_object(part.arguments)
            if value is None:
                return None
            content.append(_ToolUseBlock(part.id, part.name, value, _DIRECT))
        elif type(part) is Reasoning:
            content += encode_reasoning(part)
        else:
            return None
    stop, usage = response.stop, response.usage or Usage()
    written, cached = usage.cache_write, usage.cached
    fresh = usage.input - cached - written
    counted = _WrittenMessageUsage(
        fresh if fresh > 0 else 0,
        written,
        cached,
        usage.output,
        _ThinkingCount(usage.reasoning),
        None,
        _CacheCreation(written),
    )
    id, reason, sequence = encode_id(response.id), STOP.encode(stop.reason), stop.sequence or None
    model = response.model or (request.model if request else "")
    return _WrittenMessage(id, "message", "assistant", model, content, reason, sequence, None, None, counted)
