"""What the gateway counts in bodies that it does not decode."""

from __future__ import annotations

from typing import Any, TypedDict

from dragoman.core.fields import count, rows
from dragoman.core.jsontext import Glance, Once, is_object
from dragoman.core.model import Wire
from dragoman.protocols.gemini.errors import decode_error
from dragoman.protocols.gemini.response import read_usage
from dragoman.protocols.gemini.wire import opened
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts


class _ScannedTool(TypedDict, total=False):
    functionDeclarations: list[Entry] | None
    mcpServers: Any
    mcp_servers: Any
    function_declarations: list[Entry] | None


class _ScannedContentRequest(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[_ScannedTool] | None


class _ScannedPart(TypedDict, total=False):
    functionCall: Entry | None


class _ScannedContent(TypedDict, total=False):
    parts: list[_ScannedPart] | None


class _ScannedCandidate(TypedDict, total=False):
    content: _ScannedContent | None


class _ScannedContentReply(TypedDict, total=False):
    modelVersion: Once
    error: Any
    promptFeedback: Any
    candidates: list[_ScannedCandidate] | None
    usageMetadata: Any


def _count_tools(body: Wire) -> int:
    tools = rows(body.get("tools"))
    return sum(
        count(tool.get("functionDeclarations") or tool.get("function_declarations")) or 1 for tool in tools
    )


def _count_calls(body: Wire) -> int:
    contents = [candidate.get("content") for candidate in rows(body.get("candidates"))]
    parts = [part for content in contents if is_object(content) for part in rows(content.get("parts"))]
    return sum("functionCall" in part for part in parts)


_REPLY = Glance(_ScannedContentReply)


def _scan_reply(body: bytes) -> ReplyFacts | None:
    reply: Any = _REPLY.read(body)
    return None if reply is None or decode_error(reply, 200) else ACCOUNTING.facts(reply, "modelVersion")


ACCOUNTING = Accounting(
    request=Glance(_ScannedContentRequest),
    may_hold_key=lambda body: any(
        "mcpServers" in tool or "mcp_servers" in tool for tool in rows(body.get("tools"))
    ),
    reply=_scan_reply,
    tools=_count_tools,
    calls=_count_calls,
    usage=lambda usage: read_usage(opened(usage, "usageMetadata")),
    usage_field="usageMetadata",
    call_hint=b"functionCall",
    call_mark=r'"functionCall":',
)
