"""Completions of the usual shape, read in one step by a typed decoder: text, reasoning, calls, usage.

A field that is not declared here, or any other value, makes it another shape, which `decode_response` reads;
for those that are, both give the same reply (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from dragoman.core.jsontext import MALFORMED, typed_decoder
from dragoman.core.model import AnyPart, Reasoning, Response, Stop, Text, ToolCall
from dragoman.protocols.openai_chat.response import Counts, usage_of
from dragoman.protocols.openai_chat.wire import STOP

_Filled = Annotated[str, Meta(min_length=1)]
_Empty = Annotated[list[Raw], Meta(max_length=0)] | None
_REASONING = "choices[0].message.reasoning_content"
_CONTENT, _CALLS = "choices[0].message.content", "choices[0].message.tool_calls"


class _CalledFunction(Struct, forbid_unknown_fields=True):
    name: _Filled
    arguments: _Filled


class _CompletionCall(Struct, forbid_unknown_fields=True):
    id: _Filled
    function: _CalledFunction
    type: Literal["function"] = "function"
    index: int = 0


class _CompletionMessage(Struct, forbid_unknown_fields=True):
    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: list[_CompletionCall] | None = None
    refusal: None = None
    reasoning_content: str | None = None
    annotations: _Empty = None
    audio: None = None
    function_call: None = None


class _CompletionChoice(Struct, forbid_unknown_fields=True):
    message: _CompletionMessage
    finish_reason: Literal["stop", "tool_calls"]
    index: int = 0
    logprobs: None = None
    stop_reason: None = None
    content_filter_results: Raw = Raw()


class _Completion(Struct, forbid_unknown_fields=True):
    choices: Annotated[list[_CompletionChoice], Meta(min_length=1, max_length=1)]
    id: str = ""
    model: str = ""
    created: int = 0
    object: Literal["chat.completion"] = "chat.completion"
    usage: Counts | None = None
    service_tier: Raw = Raw()
    system_fingerprint: Raw = Raw()
    prompt_filter_results: Raw = Raw()
    usage_breakdown: Raw = Raw()
    time_info: Raw = Raw()
    x_groq: Raw = Raw()
    request_id: Raw = Raw()
    provider: Raw = Raw()
    timings: Raw = Raw()


_decode = typed_decoder(_Completion).decode


def read_usual_reply(body: bytes) -> Response | None:
    try:
        reply = _decode(body)
    except MALFORMED:
        return None
    choice = reply.choices[0]
    message = choice.message
    parts: list[AnyPart] = []
    if message.reasoning_content:
        parts.append(Reasoning(message.reasoning_content, where=_REASONING))
    if message.content:
        parts.append(Text(message.content, where=_CONTENT))
    for i, call in enumerate(message.tool_calls or ()):
        function = call.function
        parts.append(ToolCall(call.id, function.name, function.arguments, where=f"{_CALLS}[{i}]"))
    return Response(
        reply.id,
        reply.model,
        tuple(parts),
        Stop(STOP.decode(choice.finish_reason), choice.finish_reason),
        usage_of(reply.usage) if reply.usage else None,
        reply.created,
    )
