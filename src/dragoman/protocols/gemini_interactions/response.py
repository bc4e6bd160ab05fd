"""Whole replies <-> neutral ones, and the status and usage that streams share.

Google counts thoughts beside `total_output_tokens`, and what tools put into the prompt beside
`total_input_tokens`. Neutral usage counts both inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dragoman.core.errors import UpstreamError
from dragoman.core.fields import Fields, own, report_counts, rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    Failure,
    Reasoning,
    Request,
    Response,
    Stop,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.gemini_interactions.hosted import StepsOfServers
from dragoman.protocols.gemini_interactions.parts import decode_step, encode_steps
from dragoman.protocols.gemini_interactions.wire import (
    CUT_CALL,
    PROTOCOL_NAME,
    QUIET_RESPONSE,
    QUIET_USAGE,
    RUNNING,
    STOP,
    WITHHELD,
    is_native,
)
from dragoman.protocols.google import decode_time


def decode_response(body: Wire, losses: Losses) -> Response:
    """Status, usage and times are read, and also kept in the extras. `outputs` was the name of `steps` until
    June 2026, with blocks of content among them."""
    fields = Fields(body, "", PROTOCOL_NAME)
    status = fields.rest.get("status")
    if isinstance(status, str) and (status in RUNNING or status == "cancelled"):
        raise UpstreamError(Failure("server", f"the upstream's interaction is {status}, not completed", 502))
    steps = [] if fields.rest.get("steps") == [] else fields.list("steps") or fields.list("outputs") or []
    id, model, servers = fields.nonempty("id"), fields.nonempty("model"), StepsOfServers()
    parts = tuple(
        [
            part
            for i, step in enumerate(steps)
            for part in decode_step(step, f"steps[{i}]", i, losses, servers)
        ]
    )
    called = any(isinstance(part, ToolCall) for part in parts)
    stop, usage = decode_stop(fields, called, losses), decode_usage(fields.rest.get("usage"), losses)
    created = decode_time(fields.rest.get("created"))
    extras = fields.extras(losses, quiet=QUIET_RESPONSE)
    return Response(id, model, parts, stop, usage, created, extras=extras)


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    complete = _without_cut_calls(response.parts, losses)
    steps = encode_steps(complete, losses)
    if is_native(response):
        known: Wire = {"id": response.id, "model": response.model, "steps": steps}
        rest = own(response.extras, PROTOCOL_NAME)
        return rest | {key: value for key, value in known.items() if value}
    if lacks_thought(request) and not any(isinstance(part, Reasoning) for part in complete):
        steps.insert(0, {"type": "thought"})
    model = response.model or (request.model if request else "")
    frame = frame_interaction(response.id, model, response.created)
    ended = encode_stop(response.stop) | {"usage": encode_usage(response.usage or Usage())}
    return {**frame, **ended, "steps": steps or [EMPTY]}


def _without_cut_calls(parts: Sequence[AnyPart], losses: Losses) -> list[AnyPart]:
    complete: list[AnyPart] = []
    for part in parts:
        if isinstance(part, ToolCall) and not part.complete:
            losses.dropped(part.where or "tool call", CUT_CALL, "call.incomplete")
        else:
            complete.append(part)
    return complete


EMPTY: Wire = {"type": "model_output", "content": [{"type": "text", "text": ""}]}


def lacks_thought(request: Request | None) -> bool:
    """Whether a client that asked for thinking expects a thought in any case: Gemini's replies have one."""
    return request is not None and request.settings.effort not in (None, "none")


def frame_interaction(id: str, model: str, created: int) -> Wire:
    """An interaction without its steps, final status and usage. A codec has no clock: `updated` repeats the
    time of creation."""
    frame: Wire = {"id": id or "dragoman", "object": "interaction", "model": model, "status": "in_progress"}
    if created:
        moment = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        frame |= {"created": moment, "updated": moment}
    return frame


def decode_stop(fields: Fields, called: bool, losses: Losses) -> Stop:
    """`called`: whether there are calls; some replies with calls say `completed`."""
    status = fields.rest.get("status")
    if type(status) is not str:
        return Stop("tool_calls" if called else "end")
    errors = rows(fields.rest.get("errors"))
    for reason in ("content_filter", "refusal"):
        if status == "incomplete" and any(error.get("code") == reason for error in errors):
            return Stop(reason, status)
    if errors:
        said = errors[0].get("message") or errors[0].get("code")
        losses.changed(fields.path("errors"), f"Only {PROTOCOL_NAME} says why: {said}.", "stop.reason")
    reason = STOP.decode(status)
    if reason in ("other", "pause"):
        report_unknown_stop(losses, fields.path("status"), status)
    return Stop("tool_calls" if called and reason == "end" else reason, status)


def encode_stop(stop: Stop) -> Wire:
    why = WITHHELD.get(stop.reason)
    errors = {"errors": [{"code": stop.reason, "message": why}]} if why else {}
    return {"status": STOP.encode(stop.reason), **errors}


def decode_usage(usage: Any, losses: Losses | None = None) -> Usage | None:
    """The usage of an interaction, which also stays in the extras; None where it counts nothing."""
    if usage is None:
        return None
    fields = Fields(usage, "usage", PROTOCOL_NAME)
    if losses is not None:
        report_counts(usage, "usage", QUIET_USAGE, PROTOCOL_NAME, losses)
    before, after = fields.integer("total_input_tokens"), fields.integer("total_output_tokens")
    if before is None and after is None:
        return None
    tools, thought = fields.integer("total_tool_use_tokens") or 0, fields.integer("total_thought_tokens") or 0
    cached = fields.integer("total_cached_tokens") or 0
    return Usage((before or 0) + tools, (after or 0) + thought, cached, reasoning=thought)


def encode_usage(usage: Usage) -> Wire:
    return {
        "total_input_tokens": usage.input,
        "total_cached_tokens": usage.cached,
        "total_output_tokens": max(usage.output - usage.reasoning, 0),
        "total_thought_tokens": usage.reasoning,
        "total_tool_use_tokens": 0,
        "total_tokens": usage.input + usage.output,
    }


def is_reply(body: Wire) -> bool:
    return isinstance(body.get("status"), str) or bool(rows(body.get("steps")))


def reason_of_failure(interaction: Wire) -> Wire:
    """The error of an interaction that failed: its own, or that of a step."""
    errors = rows(interaction.get("errors"))
    errors += [step["error"] for step in rows(interaction.get("steps")) if is_object(step.get("error"))]
    return errors[0] if errors else {"message": "the interaction failed without saying why"}
