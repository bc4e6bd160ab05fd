"""What the gateway counts in replies that it does not decode; requests are read in full, to be stored."""

from __future__ import annotations

from typing import Any, TypedDict

from dragoman.core.fields import count, rows
from dragoman.core.jsontext import Glance, Once
from dragoman.protocols.gemini_interactions.errors import decode_error
from dragoman.protocols.gemini_interactions.response import decode_usage
from dragoman.serving.accounting import Accounting, ReplyFacts


class _ScannedStep(TypedDict, total=False):
    type: Any


class _ScannedInteraction(TypedDict, total=False):
    model: Once
    status: Any
    error: Any
    errors: Any
    steps: list[_ScannedStep] | None
    usage: Any


_REPLY = Glance(_ScannedInteraction)


def _scan_reply(body: bytes) -> ReplyFacts | None:
    reply: Any = _REPLY.read(body)
    return None if reply is None or decode_error(reply, 200) else ACCOUNTING.facts(reply, "model")


ACCOUNTING = Accounting(  # a request is read in full, because it is stored by default
    reply=_scan_reply,
    tools=lambda body: count(body.get("tools")),
    calls=lambda body: sum(step.get("type") == "function_call" for step in rows(body.get("steps"))),
    usage=lambda usage: decode_usage(usage),
    usage_field="usage",
    call_hint=b"function_call",
    call_mark=r'"type":\s*"function_call"',
)
