"""Whole messages <-> responses, and the usage that streams share.

Anthropic counts cached input beside `input_tokens`; neutral usage counts it inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own, report_counts
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_stop_sequence, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    Response,
    RoundUsage,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.protocols.anthropic.context_management import encode_edits
from dragoman.protocols.anthropic.hosted import cited, count_requests, encode_search
from dragoman.protocols.anthropic.parts import decode_content, encode_part
from dragoman.protocols.anthropic.wire import (
    PROTOCOL_NAME,
    QUIET_RESPONSE,
    STOP,
    ThinkingCount,
    UsageCounts,
    UsageReply,
    is_native,
)
from dragoman.transforms.arguments import as_object

CUT = frozenset({"length", "context_full"})  # reasons to stop in the middle of a call


def decode_response(body: Wire, losses: Losses) -> Response:
    """Usage is decoded, and also kept in the extras: it goes back to an Anthropic client unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if "content" not in body:
        raise WireError(PROTOCOL_NAME, "content", "expected an array of blocks, got nothing")
    content, usage = fields.any("content"), fields.object("usage")
    parts = decode_content([] if content is None else content, "content", losses)
    stop = decode_stop(fields, any(isinstance(part, ToolCall) for part in parts), losses)
    id, model = fields.nonempty("id"), fields.nonempty("model")
    counted = decode_usage(usage, "usage", losses) if usage is not None else None
    extras = fields.extras(losses, quiet=QUIET_RESPONSE)
    if usage is not None:
        extras[PROTOCOL_NAME]["usage"] = body["usage"]
    return Response(id, model, _cut(parts, stop), stop, counted, extras=extras)


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    content = [block for part in response.parts for block in encode_reply_part(part, losses)]
    if is_native(response):
        return _encode_native(response, content)
    kinds = {*map(type, response.parts)}
    requests = count_requests(content) if Foreign in kinds else None
    if not requests and (citations := cited(response.parts)):
        search = encode_search(response.id, citations, request, losses)
        content += search
        requests = count_requests(search)
    refusal = None
    if Refusal in kinds:
        refusal = "".join([part.text for part in response.parts if type(part) is Refusal])
    wire = _MESSAGE.copy()  # in a third of the time that its fields would take one by one
    wire["id"], wire["model"] = encode_id(response.id), response.model or (request.model if request else "")
    wire["content"] = content
    wire |= encode_stop(response.stop, refusal)
    wire["usage"] = encode_usage(response.usage or Usage(), requests, response.rounds)
    wire |= encode_management(request)
    return wire


def _encode_native(response: Response, content: list[Wire]) -> Wire:
    """As it came, but for what was changed since."""
    named = {
        "id": response.id,
        "model": response.model,
        "stop_reason": response.stop.raw and encode_reason(response.stop, native=True),
        "stop_sequence": response.stop.sequence,
    }
    changed = {key: value for key, value in named.items() if value}
    return {**own(response.extras, PROTOCOL_NAME), **changed, "content": content}


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
            value = as_object(part, losses)
            return (
                {"type": "tool_use", "id": part.id, "name": part.name, "input": value, "caller": _DIRECT},
            )
        if type(part) is Text and not part.citations and not part.cache:
            return ({"type": "text", "text": part.text, "citations": None},) if part.text else ()
        if type(part) is not Reasoning:
            return _encode_rare(part, losses)
    elif type(part) is ToolResult:
        return _encode_rare(part, losses)
    return encode_part(part, losses)


def _encode_rare(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """What few replies have, and what none can have."""
    match part:
        case ToolResult():
            losses.dropped(part.where, "A reply cannot hold the result of a tool.", "result.place")
            return ()
        case ToolCall(complete=False):
            why = "The reply was cut inside this call, so it must not run."
            losses.dropped(part.where or "tool call", why, "call.incomplete")
            return ()
        case Media():
            why = f"An Anthropic client expects no {part.kind} in a reply."
            losses.dropped(part.where or part.kind, why, f"media.{part.kind}")
            return ()
        case Text() | Refusal():
            return tuple([{**block, "citations": None, **block} for block in encode_part(part, losses)])
        case _:
            return encode_part(part, losses)


# `caller` and `citations`: a block of a reply has them, one of a request need not
_DIRECT = {"type": "direct"}


def decode_stop(fields: Fields, called: bool, losses: Losses) -> Stop:
    """Without a stop_reason the content decides: a call, or the end."""
    raw, sequence = fields.text("stop_reason"), ""
    if fields.rest.get("stop_sequence") != {}:  # R writes null so
        sequence = fields.nonempty("stop_sequence")
    if not raw:
        return Stop("tool_calls" if called else "end", "", sequence)
    reason = STOP.decode(raw)
    if reason == "pause":
        why = f"Only {PROTOCOL_NAME} clients know {raw}: send the turn back and it goes on."
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


def decode_usage(usage: Wire, where: str, losses: Losses) -> Usage:
    """Reports what no other protocol counts."""
    counts, requests = read_usage(usage, where), usage.get("server_tool_use")
    if is_object(requests) and any(requests.values()):
        why = "Other protocols do not count the requests of hosted tools."
        losses.dropped(f"{where}.server_tool_use", why, "usage.detail")
    report_counts(usage, where, _COUNTS, PROTOCOL_NAME, losses)
    details = usage.get("output_tokens_details")
    report_counts(details, f"{where}.output_tokens_details", _DETAILS, PROTOCOL_NAME, losses)
    return counts


_COUNTS = frozenset(UsageReply.__struct_fields__)
_DETAILS = frozenset(ThinkingCount.__struct_fields__)


def read_usage(usage: Wire, where: str = "usage") -> Usage:
    try:
        return usage_of(convert(usage, UsageCounts))
    except ValidationError:
        return usage_of(_plausible(Fields(usage, where, PROTOCOL_NAME)))


def _plausible(fields: Fields) -> UsageCounts:
    details = fields.rest.get("output_tokens_details")
    thought = details.get("thinking_tokens") if is_object(details) else None
    return UsageCounts(
        fields.integer("input_tokens") or 0,
        fields.integer("cache_creation_input_tokens"),
        fields.integer("cache_read_input_tokens"),
        fields.integer("output_tokens") or 0,
        ThinkingCount(thought if type(thought) is int else 0),
    )


def usage_of(counts: UsageCounts) -> Usage:
    cached, written = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    thought = counts.output_tokens_details.thinking_tokens if counts.output_tokens_details else 0
    return Usage(counts.input_tokens + cached + written, counts.output_tokens, cached, written, thought)


def counted(usage: Usage, requests: Wire | None = None) -> UsageReply:
    """All counts of a message. `requests`: those of hosted tools that the reply shows."""
    fresh = usage.input - usage.cached - usage.cache_write
    return UsageReply(
        fresh if fresh > 0 else 0,
        usage.cache_write,
        usage.cached,
        usage.output,
        ThinkingCount(usage.reasoning),
        requests,
        {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "standard",
    )


def encode_usage(usage: Usage, requests: Wire | None = None, rounds: Sequence[RoundUsage] = ()) -> Wire:
    wire: Wire = to_builtins(counted(usage, requests))
    if rounds:
        wire["iterations"] = [_encode_round(each) for each in rounds]
    return wire


def _encode_round(round: RoundUsage) -> Wire:
    """The last message says how full the context is, which the sum counts once a round (anthropic-sdk-python,
    BetaUsage.iterations)."""
    counts = encode_usage(round.usage)
    return {"type": _ROUNDS[round.kind], **{name: counts[name] for name in _COUNTS_OF_A_ROUND}}


_ROUNDS = {"answer": "message", "summary": "compaction"}
_COUNTS_OF_A_ROUND = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
)


def encode_id(id: str) -> str:
    return id if id.startswith("msg_") else f"msg_{id or 'dragoman'}"
