"""Messages of the common shape, read and written in one step as the Structs of `wire`.

A field that these do not declare, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for the common one both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Any

from dragoman.core.jsontext import decode_object, typed_reader
from dragoman.core.model import AnyPart, Reasoning, Request, Response, Stop, Text, ToolCall, Usage
from dragoman.core.seal import unseal_state
from dragoman.protocols.anthropic.parts import decode_input, encode_reasoning
from dragoman.protocols.anthropic.response import counted, encode_id, encode_management, usage_of
from dragoman.protocols.anthropic.wire import (
    PROTOCOL_NAME,
    STOP,
    DirectCaller,
    MessageReply,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

_read = typed_reader(MessageReply)
_COMMON_STOPS = frozenset({"end_turn", "tool_use", "stop_sequence"})
_DIRECT = DirectCaller("direct")


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None or reply.stop_reason not in _COMMON_STOPS or reply.stop_sequence is not None:
        return None
    if reply.usage.server_tool_use:
        return None
    parts: list[AnyPart] = []
    for i, block in enumerate(reply.content):
        where = f"content[{i}]"
        if type(block) is ToolUseBlock:
            parts.append(ToolCall(block.id, block.name, decode_input(block.input, where), where=where))
        elif type(block) is TextBlock:
            parts.append(Text(block.text, where=where))
        elif type(block) is ThinkingBlock:
            state = unseal_state(block.signature, PROTOCOL_NAME) if block.signature else None
            parts.append(Reasoning(block.thinking, state=state, where=where))
    return Response(
        reply.id,
        reply.model,
        tuple(parts),
        Stop(STOP.decode(reply.stop_reason), reply.stop_reason),
        usage_of(reply.usage),
    )


def write_usual_reply(response: Response, request: Request | None, echo: bytes = b"") -> MessageReply | None:
    """Texts, thoughts and calls of functions."""
    if encode_management(request):
        return None
    content: list[Any] = []
    for part in response.parts:
        if type(part) is Text and not part.citations:
            if part.text:
                content.append(TextBlock(part.text))
        elif type(part) is ToolCall and part.complete and part.kind == "function":
            value = decode_object(part.arguments)
            if value is None:
                return None
            content.append(ToolUseBlock(part.id, part.name, value, _DIRECT))
        elif type(part) is Reasoning:
            content += encode_reasoning(part)
        else:
            return None
    stop = response.stop
    return MessageReply(
        id=encode_id(response.id),
        model=response.model or (request.model if request else ""),
        content=content,
        stop_reason=STOP.encode(stop.reason),
        stop_sequence=stop.sequence or None,
        usage=counted(response.usage or Usage()),
    )
