"""What the gateway counts in bodies that it does not decode."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct, ValidationError, convert

from dragoman.core.fields import Fields, count, rows
from dragoman.core.jsontext import Glance, Once
from dragoman.core.losses import Losses
from dragoman.core.model import Usage, Wire
from dragoman.protocols.anthropic.response import decode_usage
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts


class _RequestGlance(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[Entry] | None
    thread: Any
    mcp_servers: Any
    context_management: Any
    compaction: Any


class _BlockGlance(Struct):
    type: Any = None


class _ThinkingGlance(Struct):
    thinking_tokens: int = 0


class _UsageGlance(Struct):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _ThinkingGlance | None = None


class _ReplyGlance(Struct):
    model: Once = None
    type: Any = None
    content: list[_BlockGlance] | None = None
    usage: _UsageGlance | None = None


_REPLY = Glance(_ReplyGlance)


def _glance_reply(body: bytes) -> ReplyFacts | None:
    """Like `decode_error`, `decode_usage` and `_count_calls` together, for the usual shape."""
    reply = _REPLY.read(body)
    if reply is None or reply.type == "error" or reply.content is None:
        return None
    calls = 0
    for block in reply.content:
        calls += block.type == "tool_use"
    return ReplyFacts(reply.model, _usage_of(reply.usage) if reply.usage else None, calls)


def _count_calls(body: Wire) -> int:
    calls = 0
    for block in rows(body.get("content")):
        calls += block.get("type") == "tool_use"
    return calls


def _count_tokens(usage: Wire) -> Usage:
    """Like `decode_usage`, at once for the usual counts."""
    try:
        return _usage_of(convert(usage, _UsageGlance))
    except ValidationError:
        return decode_usage(Fields(usage, "usage", PROTOCOL_NAME), Losses())


def _usage_of(counts: _UsageGlance) -> Usage:
    cached, written = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    details = counts.output_tokens_details
    thought = details.thinking_tokens if details else 0
    return Usage(counts.input_tokens + cached + written, counts.output_tokens, cached, written, thought)


ACCOUNTING = Accounting(
    request=Glance(_RequestGlance),
    may_hold_key=lambda body: bool(body.get("mcp_servers")),
    reply=_glance_reply,
    tools=lambda body: count(body.get("tools")),
    calls=_count_calls,
    usage=_count_tokens,
    usage_field="usage",
    call_hint=b"tool_use",
    call_mark=r'"type":\s*"tool_use"',
)
