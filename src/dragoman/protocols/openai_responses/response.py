"""Whole responses <-> neutral ones, `output` <-> parts, and the usage that streams share.

A response repeats the settings of its request: towards a client they are filled in from the client's request,
because SDKs and agents read them. Every item needs an id with the prefix of its type (G49); ids are made from
that of the response and the position of the item, so the same response gives the same ids.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any, TypeGuard

from msgspec import to_builtins
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import UpstreamError
from dragoman.core.fields import Fields, groups_of, own, report_counts, whole_seconds
from dragoman.core.losses import Losses, report_unknown_stop
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    Base64,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
    whole_usage,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.openai import without_alarms
from dragoman.protocols.openai_responses.calls import encode_call, encode_result
from dragoman.protocols.openai_responses.hosted import TOOL_SEARCH, claimed
from dragoman.protocols.openai_responses.messages import decode_item, encode_reply
from dragoman.protocols.openai_responses.parts import encode_part, encode_reasoning
from dragoman.protocols.openai_responses.tools import encode_tools
from dragoman.protocols.openai_responses.wire import (
    IMAGE_TYPES,
    INCOMPLETE,
    ITEM,
    PROTOCOL_NAME,
    QUIET_RESPONSE,
    QUIET_USAGE,
    SECRETS,
    InputTokensDetails,
    OutputTokensDetails,
    ReceivedResponsesUsage,
    ResponsesUsage,
    is_native,
)


def decode_response(body: Wire, losses: Losses) -> Response:
    """Status, usage and the repeated settings are read, and also kept in the extras."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if isinstance(status := fields.rest.get("status"), str) and status in _UNFINISHED:
        raise UpstreamError(Failure("server", f"the upstream's response is {status}, not completed", 502))
    id, model, created = fields.nonempty("id"), fields.nonempty("model"), decode_created(fields)
    items = [] if fields.rest.get("output") == [] else fields.list("output") or []
    parts = decode_output(items, losses)
    called = any(isinstance(part, ToolCall) and part.complete for part in parts)
    stop = decode_stop(fields, called, losses)
    usage = decode_usage(fields)
    report_usage(fields, losses)
    return Response(
        id,
        model,
        settle(parts, stop),
        stop,
        usage,
        created,
        extras=fields.extras(losses, quiet=without_alarms(QUIET_RESPONSE, fields.rest)),
    )


_UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})  # of a response in the background


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    if is_native(response):
        output = encode_output(response.parts, response.id, losses)
        known = {"id": response.id, "model": response.model, "output": output}
        whole = frame_response(response.id, response.model, response.created, request) if request else {}
        return {  # servers that speak this protocol leave fields out, which typed clients require
            **whole,
            **own(response.extras, PROTOCOL_NAME),
            **{key: value for key, value in known.items() if value},
        }
    id = encode_id(response.id)
    body = frame_response(id, response.model, response.created, request)
    body["output"] = encode_output(response.parts, id, losses, request)
    refused = any(isinstance(part, Refusal) for part in response.parts)
    body |= encode_stop(response.stop, response.created, refused)
    return {**body, "usage": encode_usage(response.usage or Usage()), **encode_tool_usage(body["output"])}


def encode_tool_usage(output: list[Wire]) -> Wire:
    """The searches among the items, beside the usage; nothing where there is none."""
    calls = [item for item in output if item.get("type") == "web_search_call"]
    if not calls:
        return {}
    done = [item for item in calls if item.get("status") == "completed"]
    searches = sum(
        jsontext.is_object(it.get("action")) and it["action"].get("type") == "search" for it in done
    )
    return {"tool_usage": {"image_gen": _NO_IMAGES, "web_search": {"num_requests": searches}}}


_NO_IMAGES: Wire = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "total_tokens": 0,
}


def frame_response(id: str, model: str, created: int, request: Request | None) -> Wire:
    """A response object without its output, final status and usage.

    Every event that holds a response has all these fields: the Open Responses schema requires them.
    """
    frame = _FRAME.copy()
    frame["id"], frame["created_at"] = id, created
    frame["model"] = model or (request.model if request else "")
    frame["output"], frame["metadata"] = [], {}
    frame["text"] = {"format": {"type": "text"}, "verbosity": "medium"}
    frame["reasoning"] = {"effort": None, "summary": None}
    if request is None:
        frame["tools"] = []
        return frame
    if request.system:
        frame["instructions"] = "\n\n".join([part.text for part in request.system]) or None
    frame["tools"] = _echoed_tools(request.tools, Losses())
    if request.tool_choice:
        choice = own(request.tool_choice.extras, PROTOCOL_NAME).get("tool_choice")
        frame["tool_choice"] = choice or "auto"
    for key, value in own(request.extras, PROTOCOL_NAME).items():
        if value is not None and key in _ECHOED:
            frame[key] = {**frame[key], **value} if key in _ECHOED_OBJECTS else value
    return frame


_ECHOED: Wire = {
    "background": False,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
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
_ECHOED_OBJECTS = ("metadata", "reasoning", "text")
_FRAME: Wire = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "completed_at": None,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "model": "",
    "output": [],
    "usage": None,
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    **_ECHOED,
}


@cached_by_tools
def _echoed_tools(tools: tuple[AnyTool, ...], losses: Losses) -> list[Wire]:
    """The tools as a response repeats them: functions with every field, MCP servers without secrets."""
    return [_echoed_tool(tool) for tool in encode_tools(tools, losses)]


def _echoed_tool(tool: Wire) -> Wire:
    match tool.get("type"):
        case "function":
            required = {"description": None, "parameters": None, "strict": False}
            return tool | {key: value for key, value in required.items() if tool.get(key) is None}
        case "mcp":
            return {key: value for key, value in tool.items() if key not in SECRETS}
        case _:
            return tool


def decode_created(fields: Fields) -> int:
    """Read, and also kept in the extras."""
    return whole_seconds(fields.rest.get("created_at"))


_PREFIX = {
    "function": "fc_",
    "custom": "ctc_",
    "local_shell": "lsh_",
    "shell": "sh_",
    "apply_patch": "apc_",
    "computer": "cu_",
}
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def decode_output(items: list[Any], losses: Losses) -> tuple[AnyPart, ...]:
    return tuple(
        [part for i, item in enumerate(items) for part in decode_item(item, f"output[{i}]", i, losses)]
    )


def encode_output(
    parts: tuple[AnyPart, ...], response: str, losses: Losses, request: Request | None = None
) -> list[Wire]:
    items: list[Wire] = []
    for group in groups_of(parts, ITEM):
        id = item_id(group[0], response, len(items))
        if ITEM in (group[0].extras or ()):
            items.append(encode_reply(group, losses))
        elif item := encode_item(claimed(group[0], request, id), id, losses):
            items.append(item)
    return items


def item_id(part: AnyPart, response: str, place: int) -> str:
    """The item's own id where it came from this protocol; otherwise a new one of at most 64 characters."""
    known = part.extras and own(part.extras, PROTOCOL_NAME).get("id")
    if not known and part.state and _own_state(part):
        known = part.state.id
    if known and isinstance(known, str):
        return known
    if type(part) is ToolCall:
        prefix = "tsc_" if part.name == TOOL_SEARCH else _PREFIX[part.kind]
    elif type(part) is Media and _is_picture(part):
        prefix = "ig_"
    else:
        prefix = "rs_" if type(part) is Reasoning else "msg_"
    return f"{prefix}{id_stem(response)}_{place}"


@lru_cache(64)
def id_stem(response: str) -> str:
    """What the ids of the items of a response have in common."""
    stem = _ILLEGAL.sub("_", response.removeprefix("resp_")) or "dragoman"
    if len(stem) <= 52:
        return stem
    return hashlib.sha256(stem.encode("utf-8", "surrogatepass")).hexdigest()[:48]


def encode_item(part: AnyPart, id: str, losses: Losses) -> Wire | None:
    """The finished item of `part`; None for an empty one."""
    match part:
        case Text() | Refusal():
            said = part.text or (isinstance(part, Text) and part.citations)
            return encode_message([part], id, losses) if said else None
        case ToolCall():
            item = encode_call(part, losses)
            known = own(part.extras, PROTOCOL_NAME).get("type", item["type"]) if is_native(part) else ""
            return item if known == item["type"] else {"id": id, "status": "completed", **item}
        case Reasoning():
            encrypted, native = seal_state(part.state, PROTOCOL_NAME) if part.state else "", is_native(part)
            if not (part.text or encrypted or native):
                return None
            return encode_reasoning(part, "" if native else id, encrypted)
        case Media():
            return _encode_media(part, id, losses)
        case ToolResult():
            return encode_result(part, losses)
        case Foreign():
            return part.body if part.origin == PROTOCOL_NAME else None


def opened_item(part: AnyPart, id: str, losses: Losses) -> Wire:
    """The item as `output_item.added` announces it, still empty."""
    match part:
        case ToolCall():
            text = "input" if part.kind == "custom" else "arguments"
            return {"id": id, **encode_call(part, losses), "status": "in_progress", text: ""}
        case Reasoning():
            return {"id": id, "type": "reasoning", "summary": []}
        case _:
            return {**encode_message([], id, losses), "status": "in_progress", **_phase(part)}


def encode_message(parts: list[AnyPart], id: str, losses: Losses) -> Wire:
    content = [wire for part in parts for wire in encode_part(part, "output_text", losses)]
    wire: Wire = {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content}
    return {**wire, **_phase(parts[0])} if parts else wire


def _phase(part: AnyPart) -> Wire:
    """`phase` distinguishes commentary from the final answer, where the model sent it."""
    phase = own(part.extras, ITEM).get("message", {}).get("phase")
    return {"phase": phase} if phase else {}


def _encode_media(media: Media, id: str, losses: Losses) -> Wire:
    """An image is sent as the result of an image generation; other media as a notice in a message."""
    if not _is_picture(media) or not isinstance(media.source, Base64):
        return encode_message([media], id, losses)
    made: Wire = {"id": id, "type": "image_generation_call", "status": "completed"}
    return {**made, "output_format": media.media_type.removeprefix("image/"), "result": media.source.data}


def _is_picture(media: Media) -> bool:
    return isinstance(media.source, Base64) and media.media_type in IMAGE_TYPES


def _own_state(part: AnyPart) -> bool:
    return part.state is not None and part.state.origin == PROTOCOL_NAME


def decode_stop(fields: Fields, called: bool, losses: Losses) -> Stop:
    """The API has no stop reason for calls: `called`: whether the output has any (G26)."""
    status = fields.rest.get("status")
    match status, fields.rest.get("incomplete_details"):
        case "incomplete", {"reason": str(reason)}:
            stop = Stop(INCOMPLETE.decode(reason), reason)
            if stop.reason == "other":
                report_unknown_stop(losses, fields.path("incomplete_details.reason"), reason)
            return stop
        case "incomplete", _:  # some servers leave the details out; the token limit is the usual reason
            return Stop("length", "incomplete")
        case "failed", _:
            return Stop("other", "failed")
        case _:
            return Stop("tool_calls" if called else "end", status if isinstance(status, str) else "")


def encode_stop(stop: Stop, created: int, refused: bool = False) -> Wire:
    """`completed_at` repeats the time of creation: a codec has no clock."""
    reason = "" if refused and stop.reason == "refusal" else INCOMPLETE.encode(stop.reason)
    if reason:
        return {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"status": "completed", "completed_at": created, "incomplete_details": None}


def settle(parts: tuple[AnyPart, ...], stop: Stop) -> tuple[AnyPart, ...]:
    """Mark calls as incomplete where the reply was cut inside them (G28)."""
    if stop.reason in _WHOLE:
        return parts
    return tuple([replace(part, complete=False) if is_cut(part, stop) else part for part in parts])


def is_cut(part: AnyPart | None, stop: Stop) -> TypeGuard[ToolCall]:
    """Whether `part` is a call without its end, in a reply with this stop reason."""
    if stop.reason in _WHOLE or not isinstance(part, ToolCall) or part.kind != "function":
        return False
    return not jsontext.is_complete(part.arguments)


_WHOLE = frozenset({"end", "tool_calls"})


def report_usage(fields: Fields, losses: Losses) -> None:
    usage: Wire = fields.rest.get("usage") or {}
    report_counts(usage, "usage", QUIET_USAGE, PROTOCOL_NAME, losses)
    for name in ("input_tokens_details", "output_tokens_details"):
        report_counts(usage.get(name), f"usage.{name}", QUIET_USAGE, PROTOCOL_NAME, losses)


def decode_usage(fields: Fields) -> Usage | None:
    if not fields.rest.get("usage"):
        return None
    usage = Fields(fields.rest["usage"], fields.path("usage"), PROTOCOL_NAME)
    before, after = usage.fields("input_tokens_details"), usage.fields("output_tokens_details")
    return whole_usage(
        usage.integer("input_tokens") or 0,
        usage.integer("output_tokens") or 0,
        (before.integer("cached_tokens") or 0) if before else 0,
        (before.integer("cache_write_tokens") or 0) if before else 0,
        (after.integer("reasoning_tokens") or 0) if after else 0,
    )


def usage_of(counts: ReceivedResponsesUsage) -> Usage:
    before, after = counts.input_tokens_details, counts.output_tokens_details
    return whole_usage(
        counts.input_tokens,
        counts.output_tokens,
        before.cached_tokens if before else 0,
        before.cache_write_tokens if before else 0,
        after.reasoning_tokens if after else 0,
    )


def counted(usage: Usage) -> ResponsesUsage:
    return ResponsesUsage(
        usage.input,
        InputTokensDetails(usage.cached, usage.cache_write),
        usage.output,
        OutputTokensDetails(usage.reasoning),
        usage.input + usage.output,
    )


def encode_usage(usage: Usage) -> Wire:
    return to_builtins(counted(usage))


def encode_id(id: str) -> str:
    return id if id.startswith("resp_") else f"resp_{id or 'dragoman'}"
