"""Whole completions <-> responses, and the usage and stop reason that streams share.

The reply is the message of the first choice. `finish_reason` is `stop` for every ordinary end, also for a
refusal and, from many servers, for a reply with calls (G26).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import ValidationError, convert, to_builtins

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import ABSENT, Fields, report_counts, rows, whole_seconds
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_stop_sequence, report_unknown_stop
from dragoman.core.model import AnyPart, Refusal, Request, Response, Stop, ToolCall, Usage, Wire, whole_usage
from dragoman.protocols.openai_chat.calls import with_completeness
from dragoman.protocols.openai_chat.messages import decode_assistant, encode_reply
from dragoman.protocols.openai_chat.wire import (
    MATCHED_STOP,
    PROTOCOL_NAME,
    QUIET_CHOICE,
    QUIET_MESSAGE,
    QUIET_RESPONSE,
    QUIET_USAGE,
    REQUIRED_MESSAGE,
    STOP,
    CompletionUsage,
    Counts,
    InputCounts,
    OutputCounts,
    is_native,
    leftovers,
)

_ENDS_WHOLE = frozenset({"end", "tool_calls", "refusal"})
_CUT_CALL = "The reply was cut inside this call, so it must not run."


def decode_response(body: Wire, losses: Losses) -> Response:
    """Metadata of the reply is read, and also kept in the extras."""
    fields = Fields(body, "", PROTOCOL_NAME)
    choices = fields.list("choices")
    if not choices:
        raise WireError(PROTOCOL_NAME, "choices", "expected an array with a choice, got nothing")
    choices = join_choices(choices)
    choice = Fields(choices[0], "choices[0]", PROTOCOL_NAME)
    message = choice.fields("message")
    if message is None:
        if not choice.rest.get("finish_reason"):
            raise WireError(PROTOCOL_NAME, "choices[0].message", "expected an object, got nothing")
        message = Fields({}, "choices[0].message", PROTOCOL_NAME)  # Azure: filtered
    if is_object(content := message.rest.get("content")):  # the JSON mode of Cloudflare's Workers AI
        message.rest["content"] = jsontext.dumps(content)
    for i in range(1, len(choices)):
        losses.dropped(f"choices[{i}]", "Only the first choice is passed on.", "response.choices")
    parts = decode_assistant(message, losses, echoed=False)
    stop = decode_stop(_finish_reason(choice), losses, parts)
    report_matched_stop(choice.rest, losses)
    usage, created = fields.rest.get("usage"), fields.rest.get("created")
    if is_object(usage):
        report_usage(usage, losses)
    report_logprobs(choice.rest.get("logprobs"), losses)
    rest = leftovers(choice, losses, QUIET_CHOICE)[PROTOCOL_NAME]
    rest["message"] = leftovers(message, losses, QUIET_MESSAGE)[PROTOCOL_NAME]
    id, model = fields.nonempty("id"), fields.nonempty("model")
    extras = leftovers(fields, losses, QUIET_RESPONSE)
    extras[PROTOCOL_NAME]["choices"] = [rest, *choices[1:]]
    return Response(
        id,
        model,
        _settled(parts, stop, losses),
        stop,
        decode_usage(usage) if is_object(usage) else None,
        whole_seconds(created),
        extras=extras,
    )


def join_choices(choices: list[Any]) -> list[Any]:
    """GitHub Copilot makes one choice of Claude's text and another of the calls that belong to it."""
    first, *others = choices
    if not others or not is_object(first) or first.get("finish_reason") != "tool_calls":
        return choices
    messages = [choice.get("message") for choice in rows(choices)]
    calls = [call for message in messages if is_object(message) for call in rows(message.get("tool_calls"))]
    message = messages[0]
    if not calls or not is_object(message) or message.get("tool_calls"):
        return choices
    return [{**first, "message": {**message, "tool_calls": calls}}]


def report_logprobs(logprobs: Any, losses: Losses) -> None:
    if is_object(logprobs) and any(logprobs.values()):
        losses.dropped("choices[0].logprobs", f"Only {PROTOCOL_NAME} has this field.", "response.logprobs")


def encode_response(response: Response, losses: Losses, request: Request | None = None) -> Wire:
    extras: Wire = dict(response.extras[PROTOCOL_NAME]) if response.extras and is_native(response) else {}
    first, *others = extras.pop("choices", None) or (None,)
    if first and request:  # servers that speak Chat leave fields out, which typed clients require
        first = {"logprobs": None, **first, "message": {**REQUIRED_MESSAGE, **first["message"]}}
    choice = _encode_choice(response, first, losses, request)
    body: Wire = {
        "id": encode_id(response.id),
        "object": "chat.completion",
        "created": response.created,
        "model": response.model or (request.model if request else ""),
        "choices": [choice, *others],
    }
    if response.usage:
        body["usage"] = encode_usage(response.usage)
    if first is None or request:
        body["system_fingerprint"] = None  # the SDKs of OpenRouter refuse a reply without it
    if extras:
        if response.id:
            extras.pop("id", None)  # an empty one; the reply has got an id since
        body |= extras
    return body


def _encode_choice(response: Response, first: Wire | None, losses: Losses, request: Request | None) -> Wire:
    """`first`: the choice that a reply of Chat came with."""
    parts: list[AnyPart] = []
    for part in response.parts:
        if type(part) is ToolCall and not part.complete and not is_native(part):
            losses.dropped(part.where or "tool call", _CUT_CALL, "call.incomplete")
        else:
            parts.append(part)
    refused, legacy = Refusal in map(type, parts), declares_functions(request)
    choice: Wire = {"index": 0, "message": encode_reply(parts, first and first["message"], losses, legacy)}
    finish = encode_stop(response.stop, refused, legacy, first is not None)
    if finish or request:
        choice["finish_reason"] = finish or "stop"
    if first is None:
        return {**choice, "logprobs": None}
    return choice | {key: value for key, value in first.items() if key not in choice}


def _settled(parts: Sequence[AnyPart], stop: Stop, losses: Losses) -> tuple[AnyPart, ...]:
    """Mark calls that the reply cut short; drop calls without a name, which cannot run."""
    settled: list[AnyPart] = []
    for part in parts:
        if type(part) is not ToolCall:
            settled.append(part)
        elif part.name:
            settled.append(with_completeness(part, is_cut(stop)))
        else:
            losses.dropped(part.where, "A call without a name cannot run.", "call.name")
    return tuple(settled)


def _finish_reason(choice: Fields) -> str:
    raw = choice.rest.get("finish_reason") or ""
    if type(raw) is not str:
        raise choice.wrong("finish_reason", "str", raw)
    return raw


def decode_stop(raw: str, losses: Losses, parts: Sequence[AnyPart] = ()) -> Stop:
    reason = STOP.decode(raw)
    if reason == "other":
        report_unknown_stop(losses, "choices[0].finish_reason", raw)
    if reason == "end" and any(isinstance(part, Refusal) for part in parts):
        reason = "refusal"
    return Stop(reason, raw)


def report_matched_stop(choice: Wire, losses: Losses) -> None:
    for key in MATCHED_STOP:
        if choice.get(key) and type(choice[key]) is str:
            report_stop_sequence(losses, f"choices[0].{key}")


def encode_stop(stop: Stop, refused: bool, legacy: bool, native: bool = False) -> str:
    """`refused`: the reply has a refusal part, so the stop is ordinary; `native`: return `stop.raw`."""
    if native and STOP.decode(stop.raw) == stop.reason:
        return stop.raw
    if refused and stop.reason in ("refusal", "end"):
        return "stop"
    if legacy and stop.reason == "tool_calls":
        return "function_call"
    return "length" if stop.reason == "context_full" else STOP.encode(stop.reason)


def is_cut(stop: Stop) -> bool:
    """Whether the reply ended before the model was done."""
    return stop.reason not in _ENDS_WHOLE


def declares_functions(request: Request | None) -> bool:
    """Whether the client declared `functions`, and so expects a `function_call`."""
    for tool in request.tools if request else ():
        if tool.extras and "functions" in tool.extras.get(PROTOCOL_NAME, ()):
            return True
    return False


def decode_usage(usage: Wire) -> Usage:
    try:
        return usage_of(convert(usage, Counts))
    except ValidationError:
        return usage_of(convert(_plausible(usage), Counts))


def report_usage(usage: Wire, losses: Losses) -> None:
    for where in ("usage", "usage.prompt_tokens_details", "usage.completion_tokens_details"):
        counts = usage if where == "usage" else usage.get(where.removeprefix("usage."))
        report_counts(counts, where, QUIET_USAGE, PROTOCOL_NAME, losses)


def usage_of(counts: Counts) -> Usage:
    """Gemini's Chat endpoint counts reasoning in the total only, and not in `completion_tokens` (G32), and
    Mistral what it heard, not in `prompt_tokens`."""
    before, after = counts.prompt_tokens_details, counts.completion_tokens_details
    input, output = counts.prompt_tokens, counts.completion_tokens
    reasoning = (after.reasoning_tokens if after else 0) or counts.reasoning_tokens
    missing = counts.total_tokens - input - output
    if missing > 0 and before and missing == before.audio_tokens:
        input += missing
    elif missing > 0:
        output, reasoning = output + missing, max(reasoning, missing)
    cached = before.cached_tokens if before else 0
    if not cached and (counts.prompt_cache_hit_tokens or counts.cached_tokens or counts.num_cached_tokens):
        cached = max(counts.prompt_cache_hit_tokens, counts.cached_tokens, counts.num_cached_tokens)
    return whole_usage(input, output, cached, (before.cache_write_tokens or 0) if before else 0, reasoning)


def _plausible(usage: Wire) -> Wire:
    """What can be a count, here and in the details."""
    named = {name: usage.get(name) for name in ("prompt_tokens_details", "completion_tokens_details")}
    details = {name: _positive(value) if is_object(value) else None for name, value in named.items()}
    return {**_positive(usage), **details}


def _positive(counts: Wire) -> Wire:
    return {name: value for name, value in counts.items() if type(value) is int and value > 0}


def counted(usage: Usage) -> CompletionUsage:
    return CompletionUsage(
        usage.input,
        usage.output,
        usage.input + usage.output,
        InputCounts(usage.cached, usage.cache_write or ABSENT),
        OutputCounts(usage.reasoning),
    )


def encode_usage(usage: Usage) -> Wire:
    return to_builtins(counted(usage))


def encode_id(id: str) -> str:
    return id if id.startswith("chatcmpl-") else f"chatcmpl-{id or 'dragoman'}"
