"""Whole messages <-> responses, and the usage that streams share.

Anthropic counts cached input beside `input_tokens`; neutral usage counts it inside.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own, report_counts
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_stop_sequence, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Refusal,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.protocols.anthropic.context_management import encode_edits
from dragoman.protocols.anthropic.hosted import cited, count_requests, encode_search
from dragoman.protocols.anthropic.parts import decode_content, encode_input, encode_part
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, QUIET_RESPONSE, QUIET_USAGE, STOP, is_native

CUT = frozenset({"length", "context_full"})  # reasons to stop in the middle of a call


def decode_response(body: Wire, losses: Losses) -> Response:
    """Usage is decoded, and also kept in the extras: it goes back to an Anthropic client unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if "content" not in body:
        raise WireError(PROTOCOL_NAME, "content", "expected an array of blocks, got nothing")
    content, usage = fields.any("content"), fields.fields("usage")
    parts = decode_content([] if content is None else content, "content", losses)
    stop = decode_stop(fields, any(isinstance(part, ToolCall) for part in parts), losses)
    id, model = fields.nonempty("id"), fields.nonempty("model")
    counted = decode_usage(usage, losses) if usage else None
    extras = fields.extras(losses, quiet=QUIET_RESPONSE)
    if usage:
        extras[PROTOCOL_NAME]["usage"] = body["usage"]
    return Response(id, model, _cut(parts, stop), stop, counted, extras=extras)


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    content: list[Wire] = []
    refusal: str | None = None
    is_cited = is_foreign = False
    for part in response.parts:
        content += encode_reply_part(part, losses)
        if type(part) is Text:
            is_cited = is_cited or bool(part.citations)
        elif type(part) is Foreign:
            is_foreign = True
        elif type(part) is Refusal:
            refusal = (refusal or "") + part.text
    if is_native(response):
        named = {
            "id": response.id,
            "model": response.model,
            "stop_reason": response.stop.raw and encode_reason(response.stop, native=True),
            "stop_sequence": response.stop.sequence,
        }
        known = {key: value for key, value in named.items() if value}
        return {**own(response.extras, PROTOCOL_NAME), **known, "content": content}
    requests = count_requests(content) if is_foreign else None
    search: tuple[Wire, ...] = ()
    if is_cited and not requests:
        search = encode_search(response.id, cited(response.parts), request, losses)
        requests = count_requests(search)
    wire = _MESSAGE.copy()  # in a third of the time that its fields would take one by one
    wire["id"], wire["model"] = encode_id(response.id), response.model or (request.model if request else "")
    wire["content"] = [*content, *search] if search else content
    wire |= encode_stop(response.stop, refusal)
    wire["usage"] = encode_usage(response.usage or Usage(), requests)
    if request and (request.edits is not None or request.compaction is not None):
        wire |= encode_management(request)
    return wire


_MESSAGE: Wire = {
    "id": "",
    "type": "message",
    "role": "assistant",
    "model": "",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
    "usage": None,
}


_NO_EDITS: Wire = {"applied_edits": []}


def encode_management(request: Request | None) -> Wire:
    """What was done about the context of the request: edits, or compaction alone."""
    if request is None or (request.edits is None and request.compaction is None):
        return {}
    if request.compaction:
        return {"stop_reason": "compaction", "context_management": _NO_EDITS, **encode_edits(request)}
    return encode_edits(request)


def _cut(parts: tuple[AnyPart, ...], stop: Stop) -> tuple[AnyPart, ...]:
    """A call at the end of a reply that ran out of tokens is incomplete: its input is a fragment (G28)."""
    if stop.reason not in CUT or not parts or not isinstance(parts[-1], ToolCall):
        return parts
    return (*parts[:-1], replace(parts[-1], complete=False))


def encode_reply_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The blocks of a reply for `part`; an Anthropic client expects neither results nor media there."""
    if part.extras is None or PROTOCOL_NAME not in part.extras:
        if type(part) is ToolCall and part.complete and part.kind != "computer":
            value = encode_input(part, losses)
            return (
                {"type": "tool_use", "id": part.id, "name": part.name, "input": value, "caller": _DIRECT},
            )
        if type(part) is Text and not part.citations and not part.cache:
            return ({"type": "text", "text": part.text, "citations": None},) if part.text else ()
    match part:
        case ToolCall(complete=False) if not is_native(part):
            losses.dropped(
                part.where or "tool call", "the reply was cut inside it: it must not run", "call.incomplete"
            )
            return ()
        case ToolResult():
            losses.dropped(part.where, "no result of a tool stands in a reply", "result.place")
            return ()
        case Media() if not is_native(part):
            why = f"an Anthropic client expects no {part.kind} in a reply"
            losses.dropped(part.where or part.kind, why, f"media.{part.kind}")
            return ()
        case Text() | Refusal() if not is_native(part):
            return tuple([{**block, "citations": None, **block} for block in encode_part(part, losses)])
        case _:
            return encode_part(part, losses)


_DIRECT = {
    "type": "direct"
}  # `caller` and `citations`: a block of a reply has them, one of a request need not


def decode_stop(fields: Fields, called: bool, losses: Losses) -> Stop:
    """Without a stop_reason the content decides: a call, or the end."""
    raw, sequence = fields.text("stop_reason"), fields.nonempty("stop_sequence")
    if not raw:
        return Stop("tool_calls" if called else "end", "", sequence)
    reason = STOP.decode(raw)
    if reason == "pause":
        why = f"{raw}: only {PROTOCOL_NAME} clients know that the turn is sent back to be continued"
        losses.changed(fields.path("stop_reason"), why, "stop.reason")
    elif reason == "other":
        report_unknown_stop(losses, fields.path("stop_reason"), raw)
    if sequence:
        report_stop_sequence(losses, fields.path("stop_sequence"))
    return Stop(reason, raw, sequence)


def encode_stop(stop: Stop, refusal: str | None = None, native: bool = False) -> Wire:
    """`refusal`: its text; clients that hide the text of a refused reply show the explanation."""
    wire: Wire = {"stop_reason": encode_reason(stop, native), "stop_sequence": stop.sequence or None}
    if not native:
        wire["stop_details"] = wire["container"] = None
    if refusal is None or stop.reason not in ("end", "refusal", "content_filter"):
        return wire
    details = {"type": "refusal", "category": None, "explanation": refusal}
    return {**wire, "stop_reason": "refusal", "stop_details": details}


def encode_reason(stop: Stop, native: bool = False) -> str:
    """Anthropic's own word goes back to its client, unless the reason has changed since."""
    if native and STOP.decode(stop.raw) == stop.reason:
        return stop.raw
    return STOP.encode(stop.reason)


def decode_usage(fields: Fields, losses: Losses) -> Usage:
    fresh, cached = fields.integer("input_tokens") or 0, fields.integer("cache_read_input_tokens") or 0
    written = fields.integer("cache_creation_input_tokens") or 0
    details = fields.rest.get("output_tokens_details")
    thought = details.get("thinking_tokens") if is_object(details) else None
    requests = fields.rest.pop("server_tool_use", None)
    if is_object(requests) and any(requests.values()):
        why = "other protocols do not count the requests of hosted tools"
        losses.dropped(fields.path("server_tool_use"), why, "usage.detail")
    usage = Usage(
        fresh + cached + written,
        fields.integer("output_tokens") or 0,
        cached,
        written,
        thought if type(thought) is int else 0,
    )
    report_counts(fields.rest, fields.where, QUIET_USAGE, PROTOCOL_NAME, losses)
    report_counts(details, fields.path("output_tokens_details"), QUIET_USAGE, PROTOCOL_NAME, losses)
    return usage


def encode_usage(usage: Usage, requests: Wire | None = None) -> Wire:
    """All counts of a message. `requests`: those of hosted tools that the reply shows."""
    wire = encode_final_usage(usage, requests)
    wire["cache_creation"] = {
        "ephemeral_5m_input_tokens": usage.cache_write,
        "ephemeral_1h_input_tokens": 0,
    }
    wire |= _UNCOUNTED
    return wire


_UNCOUNTED: Wire = {"service_tier": "standard", "inference_geo": None, "speed": None}


def encode_final_usage(usage: Usage, requests: Wire | None = None) -> Wire:
    """The counts that the last event of a stream repeats."""
    fresh = usage.input - usage.cached - usage.cache_write
    return {
        "input_tokens": fresh if fresh > 0 else 0,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "server_tool_use": requests,
    }


def encode_id(id: str) -> str:
    return id if id.startswith("msg_") else f"msg_{id or 'dragoman'}"
