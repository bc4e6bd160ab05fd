"""Whole responses <-> neutral ones, and the stop reason and usage that streams share.

Only the first candidate is an answer to anyone else. Gemini counts thoughts beside
`candidatesTokenCount`, and what tools put into the prompt beside `promptTokenCount`; neutral usage
counts both inside.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.fields import Fields, own, report_counts
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    Citation,
    Refusal,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.gemini.hosted import decode_grounding, encode_grounding
from dragoman.protocols.gemini.parts import decode_parts, encode_part
from dragoman.protocols.gemini.wire import (
    BLOCK_REASONS,
    CUT_CALL,
    FINISH_REASONS,
    PROTOCOL_NAME,
    QUIET_CANDIDATE,
    QUIET_CONTENT,
    QUIET_RESPONSE,
    QUIET_USAGE,
    STOP,
    UsageMetadata,
    enum_name,
    inner,
    is_native,
    opened,
)
from dragoman.protocols.google import decode_time


def decode_response(body: Wire, losses: Losses) -> Response:
    """The extras have the shape of the wire: what is not decoded stays at its place."""
    fields = opened(body, "")
    candidates = fields.list("candidates")
    id, model = fields.text("responseId"), fields.text("modelVersion")
    counted, created = fields.rest.get("usageMetadata"), decode_time(fields.rest.get("createTime"))
    usage = None if counted is None else decode_usage(counted, losses)
    feedback = fields.rest.get("promptFeedback")
    report_feedback(feedback, losses)
    extras = fields.extras(losses, quiet=QUIET_RESPONSE)
    if candidates is not None:
        extras[PROTOCOL_NAME]["candidates"] = candidates
    if not candidates:
        return Response(id, model, (), decode_block(feedback) or Stop("other"), usage, created, extras=extras)
    candidate = opened(candidates[0], "candidates[0]")
    parts, stop = _decode_candidate(candidate, losses)
    extras[PROTOCOL_NAME]["candidates"] = [candidate.rest, *candidates[1:]]
    if len(candidates) > 1:
        losses.dropped("candidates[1]", "Only the first candidate is passed on.", "response.choices")
    return Response(id, model, parts, stop, usage, created, extras=extras)


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    complete = [part for part in response.parts if not (isinstance(part, ToolCall) and not part.complete)]
    for part in response.parts:
        if isinstance(part, ToolCall) and not part.complete:
            losses.dropped(part.where or "tool call", CUT_CALL, "call.incomplete")
    parts = [wire for part in complete for wire in encode_part(part, losses)]
    if is_native(response):
        return _encode_native(response, parts)
    texts = [(part.text, part.citations) for part in complete if isinstance(part, Text)]
    refused = any(isinstance(part, Refusal) for part in complete)
    candidate: Wire = {
        "content": {"parts": parts or [{"text": ""}], "role": "model"},
        "finishReason": encode_stop(response.stop, refused),
        "index": 0,
        **encode_grounding(texts, losses),
    }
    return {
        "candidates": [candidate],
        "usageMetadata": encode_usage(response.usage or Usage()),
        **encode_names(response.id, response.model or (request.model if request else "")),
    }


def _decode_candidate(candidate: Fields, losses: Losses) -> tuple[tuple[AnyPart, ...], Stop]:
    """A candidate may have no content, and a content no parts."""
    content = inner(candidate, "content")
    parts: tuple[AnyPart, ...] = ()
    if type(number := candidate.rest.get("finishReason")) is int:
        candidate.rest["finishReason"] = enum_name(number, FINISH_REASONS)
    raw = candidate.text("finishReason")
    metadata = candidate.rest.get("groundingMetadata")
    candidate.extras(losses, quiet=QUIET_CANDIDATE)
    if content is not None:
        if content.rest.get("parts"):
            parts = decode_parts(content.any("parts"), content.path("parts"), losses)
        content.extras(losses, quiet=QUIET_CONTENT)
        candidate.rest["content"] = content.rest
    if metadata is not None:
        parts = _cited(parts, metadata, losses)
    report_finish(candidate.rest, raw, losses)
    called = any(isinstance(part, ToolCall) for part in parts)
    return parts, decode_stop(raw, called, losses)


def _encode_native(response: Response, parts: list[Wire]) -> Wire:
    """Gemini's own response: everything back at its place."""
    extras = own(response.extras, PROTOCOL_NAME)
    named = {"responseId": response.id, "modelVersion": response.model}
    body = {key: name for key, name in named.items() if name} | extras
    candidates: list[Wire] = extras.get("candidates") or []
    if not candidates and not parts:
        return body
    first: Wire = candidates[0] if candidates else {}
    candidate = {**first}
    if parts:
        candidate["content"] = {**(first.get("content") or {}), "parts": parts}
    if response.stop.raw:
        candidate["finishReason"] = response.stop.raw
    return {**body, "candidates": [candidate, *candidates[1:]]}


def _cited(parts: tuple[AnyPart, ...], metadata: Any, losses: Losses) -> tuple[AnyPart, ...]:
    places = [i for i, part in enumerate(parts) if isinstance(part, Text)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    found: dict[int, list[Citation]] = {}
    for number, citation in decode_grounding(metadata, texts, "candidates[0].groundingMetadata", losses):
        found.setdefault(places[number], []).append(citation)
    return tuple(
        replace(part, citations=tuple(found[i])) if i in found else part for i, part in enumerate(parts)
    )


def decode_stop(raw: str, called: bool, losses: Losses) -> Stop:
    """A call in the content means tool_calls (G26); a whole response without a reason has ended."""
    reason = STOP.decode(raw.upper()) if raw else "end"
    if reason in ("other", "pause"):
        report_unknown_stop(losses, "candidates[0].finishReason", raw)
    return Stop("tool_calls" if called and reason == "end" else reason, raw)


def report_finish(candidate: Wire, raw: str, losses: Losses) -> None:
    """What Gemini says in words about an end that is not an ordinary one."""
    if candidate.get("finishMessage") and raw and STOP.decode(raw.upper()) != "end":
        losses.dropped(
            "candidates[0].finishMessage", f"Only {PROTOCOL_NAME} has this field.", "field.unknown"
        )


def report_feedback(feedback: Any, losses: Losses) -> None:
    for key, value in feedback.items() if is_object(feedback) else ():
        if value and key not in _FEEDBACK:
            losses.dropped(f"promptFeedback.{key}", f"Only {PROTOCOL_NAME} has this field.", "field.unknown")


_FEEDBACK = frozenset({"blockReason", "safetyRatings"})


def encode_stop(stop: Stop, refused: bool = False) -> str:
    """Gemini's own word where the reply had one, otherwise the nearest one."""
    if refused and stop.reason == "end":
        return "SAFETY"
    is_own = stop.raw.isupper() and STOP.decode(stop.raw) == stop.reason
    return stop.raw if is_own else STOP.encode(stop.reason)


def decode_block(feedback: Any) -> Stop | None:
    """The stop of a blocked prompt, which has a reason and no candidate."""
    reason = enum_name(feedback.get("blockReason"), BLOCK_REASONS) if is_object(feedback) else None
    return Stop("content_filter", reason) if isinstance(reason, str) else None


def decode_usage(value: Any, losses: Losses) -> Usage | None:
    """`usageMetadata` of the body, which also stays in the extras."""
    fields = opened(value, "usageMetadata")
    report_counts(fields.rest, fields.where, QUIET_USAGE, PROTOCOL_NAME, losses)
    return read_usage(fields)


def read_usage(fields: Fields) -> Usage | None:
    """The counts of one `usageMetadata`; None where it counts nothing."""
    prompt, tools = fields.integer("promptTokenCount"), fields.integer("toolUsePromptTokenCount") or 0
    answer, thought = fields.integer("candidatesTokenCount"), fields.integer("thoughtsTokenCount") or 0
    if prompt is None and answer is None:
        return None
    cached = fields.integer("cachedContentTokenCount") or 0
    return Usage((prompt or 0) + tools, (answer or 0) + thought, cached, reasoning=thought)


def usage_of(counts: UsageMetadata) -> Usage:
    thought = counts.thoughtsTokenCount
    return Usage(
        counts.promptTokenCount + counts.toolUsePromptTokenCount,
        counts.candidatesTokenCount + thought,
        counts.cachedContentTokenCount,
        reasoning=thought,
    )


def encode_usage(usage: Usage) -> Wire:
    wire: Wire = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": max(usage.output - usage.reasoning, 0),
        "totalTokenCount": usage.input + usage.output,
    }
    if usage.cached:
        wire["cachedContentTokenCount"] = usage.cached
    if usage.reasoning:
        wire["thoughtsTokenCount"] = usage.reasoning
    return wire


def encode_names(id: str, model: str) -> Wire:
    return {"modelVersion": model, "responseId": id or "dragoman"}
