"""Whole messages <-> responses, and the usage that streams share.

Anthropic counts cached input beside `input_tokens`; neutral usage counts it inside.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Refusal, Request, Response, Stop, ToolCall, Usage, Wire
from dragoman.protocols.anthropic.parts import decode_content, encode_part
from dragoman.protocols.anthropic.wire import PROTOCOL, QUIET_RESPONSE, QUIET_USAGE, STOP


def decode_response(body: Wire, losses: Losses) -> Response:
    fields = Fields(body, "", PROTOCOL)
    usage = fields.fields("usage")
    return Response(
        fields.text("id"),
        fields.text("model"),
        decode_content(fields.list("content") or [], "content", losses),
        decode_stop(fields),
        decode_usage(usage, losses) if usage else None,
        extras=fields.extras(losses, quiet=QUIET_RESPONSE),
    )


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    parts = [part for part in response.parts if not (isinstance(part, ToolCall) and not part.complete)]
    if len(parts) < len(response.parts):
        losses.dropped("tool call", "the reply was cut inside it, and an incomplete call must not run")
    return {
        "id": encode_id(response.id),
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [block for part in parts for block in encode_part(part, losses)],
        **encode_stop(response.stop, any(isinstance(part, Refusal) for part in parts)),
        "usage": encode_usage(response.usage or Usage()),
        **own(response.extras, PROTOCOL),
    }


def decode_stop(fields: Fields) -> Stop:
    raw = fields.text("stop_reason")
    return Stop(STOP.decode(raw), raw, fields.text("stop_sequence"))


def encode_stop(stop: Stop, refused: bool = False) -> Wire:
    reason = "refusal" if refused and stop.reason == "end" else STOP.encode(stop.reason)
    return {"stop_reason": reason, "stop_sequence": stop.sequence or None}


def decode_usage(fields: Fields, losses: Losses) -> Usage:
    fresh, cached = fields.integer("input_tokens") or 0, fields.integer("cache_read_input_tokens") or 0
    written = fields.integer("cache_creation_input_tokens") or 0
    details = fields.rest.get("output_tokens_details")
    thought = details.get("thinking_tokens") if is_object(details) else None
    usage = Usage(
        fresh + cached + written,
        fields.integer("output_tokens") or 0,
        cached,
        written,
        thought if isinstance(thought, int) else 0,
    )
    fields.extras(losses, quiet=QUIET_USAGE)
    return usage


def encode_usage(usage: Usage) -> Wire:
    wire: dict[str, Any] = {
        "input_tokens": max(usage.input - usage.cached - usage.cache_write, 0),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }
    return (
        {**wire, "output_tokens_details": {"thinking_tokens": usage.reasoning}} if usage.reasoning else wire
    )


def encode_id(id: str) -> str:
    return id if id.startswith("msg_") else f"msg_{id or 'dragoman'}"
