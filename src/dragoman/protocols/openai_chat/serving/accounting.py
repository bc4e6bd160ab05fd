"""What the gateway counts in bodies that it does not decode."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from dragoman.core.fields import count
from dragoman.core.jsontext import Glance, Once, is_array, is_object
from dragoman.core.model import Wire
from dragoman.protocols.openai_chat.response import decode_usage, usage_of
from dragoman.protocols.openai_chat.wire import Counts
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts


class _ScannedChatRequest(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[Entry] | None
    functions: list[Entry] | None


class _ScannedMessage(Struct, frozen=True):
    tool_calls: list[Entry] | None = None


class _ScannedChoice(Struct):
    message: _ScannedMessage = _ScannedMessage()


class _ScannedCompletion(Struct):
    model: Once = None
    error: Any = None
    object: Any = None
    choices: list[_ScannedChoice] | None = None
    usage: Counts | None = None


_REPLY = Glance(_ScannedCompletion)


def _scan_reply(body: bytes) -> ReplyFacts | None:
    """Like `decode_error`, `decode_usage` and `_count_calls` together, for the usual shape."""
    reply = _REPLY.read(body)
    if reply is None or reply.error or reply.object == "error" or not reply.choices:
        return None
    calls = 0
    for choice in reply.choices:
        if called := choice.message.tool_calls:
            calls += len(called)
    return ReplyFacts(reply.model, usage_of(reply.usage) if reply.usage else None, calls)


def _count_calls(body: Wire) -> int:
    calls, choices = 0, body.get("choices")
    for choice in choices if is_array(choices) else ():
        message = choice.get("message") if is_object(choice) else None
        if is_object(message) and (called := message.get("tool_calls")):
            calls += count(called)
    return calls


ACCOUNTING = Accounting(
    request=Glance(_ScannedChatRequest),
    reply=_scan_reply,
    tools=lambda body: count(body.get("tools")) or count(body.get("functions")),
    calls=_count_calls,
    usage=decode_usage,
    usage_field="usage",
    call_hint=b"tool_calls",
    call_mark=r'"type":\s*"function"',
    usage_request={"stream_options": {"include_usage": True}},
    usage_event=r'"choices":\s*\[\]',
    usage_alias={"usage": {"include": True}},  # OpenRouter
)
