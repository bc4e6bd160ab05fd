"""What the gateway counts in replies that it does not decode; requests are read in full, to be stored."""

from __future__ import annotations

from typing import Any, TypedDict

from dragoman.core.fields import Fields, count, rows
from dragoman.core.jsontext import Glance, Once
from dragoman.protocols.openai_responses.errors import decode_error
from dragoman.protocols.openai_responses.response import decode_usage
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.accounting import Accounting, ReplyFacts

CALLS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
)


class _ScannedItem(TypedDict, total=False):
    type: Any


class _ScannedResponse(TypedDict, total=False):
    model: Once
    type: Any
    object: Any
    status: Any
    error: Any
    output: list[_ScannedItem] | None
    usage: Any


_REPLY = Glance(_ScannedResponse)


def _scan_reply(body: bytes) -> ReplyFacts | None:
    reply: Any = _REPLY.read(body)
    return None if reply is None or decode_error(reply, 200) else ACCOUNTING.facts(reply, "model")


ACCOUNTING = Accounting(  # a request is read in full, because it is stored by default
    reply=_scan_reply,
    tools=lambda body: count(body.get("tools")),
    calls=lambda body: sum(item.get("type") in CALLS for item in rows(body.get("output"))),
    usage=lambda usage: decode_usage(Fields({"usage": usage}, "", PROTOCOL_NAME)),
    usage_field="usage",
    call_hint=b".done",
    call_mark=r'"type":\s*"response\.(?:function_call_arguments|custom_tool_call_input)\.done"',
)
