"""Whole replies <-> responses, and the usage that streams share. A reply has no id and names no model."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fields import Fields, own, report_counts
from dragoman.core.losses import Losses, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    Media,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.protocols.bedrock_converse.parts import (
    decode_content,
    encode_citation,
    encode_part,
    encode_reasoning,
)
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME, QUIET_REPLY, QUIET_USAGE, STOP, is_native

_ROLE = frozenset({"role"})
CUT = frozenset({"length", "context_full"})  # reasons to stop in the middle of a call


def decode_response(body: Wire, losses: Losses) -> Response:
    """Usage is decoded, and also kept in the extras: it goes back unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    output = fields.need_fields("output")
    message = output.need_fields("message")
    parts = decode_content(message.any("content") or [], "output.message.content", losses)
    message.extras(losses, quiet=_ROLE)
    output.extras(losses)
    called = any(isinstance(part, ToolCall) for part in parts)
    stop = decode_stop(fields.text("stopReason"), called, "stopReason", losses)
    counted = decode_usage(inner, losses) if (inner := fields.fields("usage")) else None
    extras = fields.extras(losses, quiet=QUIET_REPLY)[PROTOCOL_NAME]
    if counted:
        extras["usage"] = body["usage"]
    return Response("", "", _cut(parts, stop), stop, counted, extras={PROTOCOL_NAME: extras})


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    content: list[Wire] = []
    for part in response.parts:
        content += encode_reply_part(part, losses)
    message: Wire = {"role": "assistant", "content": content}
    native = is_native(response)
    report_reasoning(response.usage, losses)
    wire: Wire = {
        "output": {"message": message},
        "stopReason": encode_reason(response.stop, native),
        "usage": encode_usage(response.usage or Usage()),
        "metrics": {"latencyMs": 0},
    }
    return wire | own(response.extras, PROTOCOL_NAME)


def encode_reply_part(part: AnyPart, losses: Losses) -> list[Wire]:
    match part:
        case ToolCall(complete=False) if not is_native(part):
            why = "The reply was cut inside this call, so it must not run."
            losses.dropped(part.where or "tool call", why, "call.incomplete")
            return []
        case ToolResult():
            losses.dropped(part.where, "A reply cannot hold the result of a tool.", "result.place")
            return []
        case Media(kind="document" | "video" | "audio") if not is_native(part):
            why = f"A Bedrock client expects no {part.kind} in a reply."
            losses.dropped(part.where or part.kind, why, f"media.{part.kind}")
            return []
        case Reasoning():
            return [{"reasoningContent": encode_reasoning(part)}] if part.text or part.state else []
        case Text(citations=citations) if citations and not is_native(part):
            cited = [encode_citation(citation) for citation in citations]
            return [{"citationsContent": {"content": [{"text": part.text}], "citations": cited}}]
        case _:
            return encode_part(part, losses)


def _cut(parts: tuple[AnyPart, ...], stop: Stop) -> tuple[AnyPart, ...]:
    """A call at the end of a reply that ran out of tokens is incomplete: its input is a fragment."""
    if stop.reason not in CUT or not parts or not isinstance(parts[-1], ToolCall):
        return parts
    return (*parts[:-1], replace(parts[-1], complete=False))


def decode_stop(raw: str, called: bool, where: str, losses: Losses) -> Stop:
    """Without a stopReason the content decides: a call, or the end."""
    if not raw:
        return Stop("tool_calls" if called else "end")
    reason = STOP.decode(raw)
    if reason == "other":
        report_unknown_stop(losses, where, raw)
    return Stop(reason, raw)


def encode_reason(stop: Stop, native: bool = False) -> str:
    """Bedrock's own word goes back to its client, unless the reason has changed since."""
    if native and stop.raw and STOP.decode(stop.raw) == stop.reason:
        return stop.raw
    return STOP.encode(stop.reason)


def decode_usage(fields: Fields, losses: Losses) -> Usage:
    fresh, cached = fields.integer("inputTokens") or 0, fields.integer("cacheReadInputTokens") or 0
    written, output = fields.integer("cacheWriteInputTokens") or 0, fields.integer("outputTokens") or 0
    report_counts(fields.rest, fields.where, QUIET_USAGE, PROTOCOL_NAME, losses)
    return Usage(fresh + cached + written, output, cached, written)


def report_reasoning(usage: Usage | None, losses: Losses) -> None:
    if usage and usage.reasoning:
        losses.dropped("usage.reasoning", "Bedrock does not count tokens of reasoning.", "usage.detail")


def encode_usage(usage: Usage) -> Wire:
    fresh = max(usage.input - usage.cached - usage.cache_write, 0)
    return {
        "inputTokens": fresh,
        "outputTokens": usage.output,
        "totalTokens": usage.input + usage.output,
        "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": usage.cache_write,
    }
