"""What the gateway counts in bodies that it does not decode."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from dragoman.core.fields import count, rows
from dragoman.core.jsontext import Glance, Once
from dragoman.core.model import Wire
from dragoman.protocols.anthropic.response import read_usage, usage_of
from dragoman.protocols.anthropic.wire import UsageCounts
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts


class _ScannedMessagesRequest(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[Entry] | None
    thread: Any
    mcp_servers: Any
    context_management: Any
    compaction: Any


class _ScannedBlock(Struct):
    type: Any = None


class _ScannedMessageReply(Struct):
    model: Once = None
    type: Any = None
    content: list[_ScannedBlock] | None = None
    usage: UsageCounts | None = None


_REPLY = Glance(_ScannedMessageReply)


def _scan_reply(body: bytes) -> ReplyFacts | None:
    """Like `decode_error`, `read_usage` and `_count_calls` together, for the usual shape."""
    reply = _REPLY.read(body)
    if reply is None or reply.type == "error" or reply.content is None:
        return None
    calls = 0
    for block in reply.content:
        calls += block.type == "tool_use"
    return ReplyFacts(reply.model, usage_of(reply.usage) if reply.usage else None, calls)


def _count_calls(body: Wire) -> int:
    calls = 0
    for block in rows(body.get("content")):
        calls += block.get("type") == "tool_use"
    return calls


ACCOUNTING = Accounting(
    request=Glance(_ScannedMessagesRequest),
    may_hold_key=lambda body: bool(body.get("mcp_servers")),
    reply=_scan_reply,
    tools=lambda body: count(body.get("tools")),
    calls=_count_calls,
    usage=read_usage,
    usage_field="usage",
    call_hint=b"tool_use",
    call_mark=r'"type":\s*"tool_use"',
)
