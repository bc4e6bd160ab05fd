"""Whole responses <-> neutral ones, and the usage that streams share.

A response repeats the settings of its request; towards a client they are filled in from what the
client asked, because SDKs and agents read them there.
"""

from __future__ import annotations

from typing import TypeGuard

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Refusal, Request, Response, Stop, ToolCall, Usage, Wire
from dragoman.core.repeated import private
from dragoman.protocols.openai_responses.output import decode_output, encode_output
from dragoman.protocols.openai_responses.tools import encode_tools
from dragoman.protocols.openai_responses.wire import INCOMPLETE, PROTOCOL_NAME, QUIET_RESPONSE, native


def decode_response(body: Wire, losses: Losses) -> Response:
    """Status, usage and the repeated settings are read, and also kept as they stand."""
    fields = Fields(body, "", PROTOCOL_NAME)
    id, model, created = fields.nonempty("id"), fields.nonempty("model"), decode_created(fields)
    items = [] if fields.rest.get("output") == [] else fields.list("output") or []
    parts = decode_output(items, losses)
    stop = decode_stop(fields, any(isinstance(part, ToolCall) and part.complete for part in parts))
    usage = decode_usage(fields)
    return Response(
        id,
        model,
        settle(parts, stop),
        stop,
        usage,
        created,
        extras=fields.extras(losses, quiet=QUIET_RESPONSE),
    )


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    if native(response):
        output = encode_output(response.parts, response.id, losses)
        known = {"id": response.id, "model": response.model, "output": output}
        return {
            **own(response.extras, PROTOCOL_NAME),
            **{key: value for key, value in known.items() if value},
        }
    id = encode_id(response.id)
    body = frame_response(id, response.model, response.created, request)
    body["output"] = encode_output(response.parts, id, losses, request)
    if request:
        body["tools"] = private(body["tools"], request.tools)
    refused = any(isinstance(part, Refusal) for part in response.parts)
    return {**body, **encode_stop(response.stop, refused), "usage": encode_usage(response.usage or Usage())}


def frame_response(id: str, model: str, created: int, request: Request | None) -> Wire:
    """A response object in which only its output, status and usage are still missing."""
    asked = own(request.extras, PROTOCOL_NAME) if request else {}
    echoed = _ECHOED | {key: said for key, said in asked.items() if said is not None and key in _ECHOED}
    instructions = "\n\n".join(part.text for part in request.system) if request else ""
    choice = (
        own(request.tool_choice.extras, PROTOCOL_NAME).get("tool_choice")
        if request and request.tool_choice
        else None
    )
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        "instructions": instructions or None,
        "tools": encode_tools(request.tools, Losses()) if request else [],
        "tool_choice": choice or "auto",
        **echoed,
        "metadata": echoed["metadata"] or {},
        "text": {"format": {"type": "text"}, **echoed["text"]},
        "reasoning": {"effort": None, "summary": None, **echoed["reasoning"]},
    }


_ECHOED: Wire = {
    "background": False,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {},
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


def decode_created(fields: Fields) -> int:
    """Read, and left where it is."""
    return (
        Fields({"created_at": fields.rest.get("created_at")}, fields.where, PROTOCOL_NAME).integer(
            "created_at"
        )
        or 0
    )


def decode_stop(fields: Fields, called: bool) -> Stop:
    """No reason is given for calls: whether the model `called` is seen in the output."""
    status = fields.rest.get("status")
    match status, fields.rest.get("incomplete_details"):
        case "incomplete", {"reason": str(reason)}:
            return Stop(INCOMPLETE.decode(reason), reason)
        case (("incomplete" | "cancelled" | "failed" | "queued" | "in_progress"), _):
            return Stop("other", str(status))
        case _:
            return Stop("tool_calls" if called else "end", status if isinstance(status, str) else "")


def encode_stop(stop: Stop, refused: bool = False) -> Wire:
    reason = "" if refused and stop.reason == "refusal" else INCOMPLETE.encode(stop.reason)
    if reason:
        return {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"status": "completed", "incomplete_details": None}


def settle(parts: tuple[AnyPart, ...], stop: Stop) -> tuple[AnyPart, ...]:
    """A reply that was cut may end inside a call, whether or not the call says so."""
    if stop.reason in _WHOLE:
        return parts
    return tuple([replace(part, complete=False) if is_cut(part, stop) else part for part in parts])


def is_cut(part: AnyPart | None, stop: Stop) -> TypeGuard[ToolCall]:
    """Whether `part` is a call that lacks its end, in a reply that ended so."""
    if stop.reason in _WHOLE or not isinstance(part, ToolCall) or part.kind != "function":
        return False
    return not jsontext.is_complete(part.arguments)


_WHOLE = frozenset({"end", "tool_calls"})


def decode_usage(fields: Fields) -> Usage | None:
    usage = (
        Fields(fields.rest["usage"], fields.path("usage"), PROTOCOL_NAME)
        if fields.rest.get("usage")
        else None
    )
    if usage is None:
        return None
    before, after = usage.fields("input_tokens_details"), usage.fields("output_tokens_details")
    return Usage(
        usage.integer("input_tokens") or 0,
        usage.integer("output_tokens") or 0,
        (before.integer("cached_tokens") or 0) if before else 0,
        (before.integer("cache_write_tokens") or 0) if before else 0,
        (after.integer("reasoning_tokens") or 0) if after else 0,
    )


def encode_usage(usage: Usage) -> Wire:
    """Codex and OpenCode need every one of these numbers."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def encode_id(id: str) -> str:
    return id if id.startswith("resp_") else f"resp_{id or 'dragoman'}"
