"""Completions of the usual shape, read and written in one step as structs: text, reasoning, calls, usage.

A field that is not declared here, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for those that are, both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from dragoman.core.jsontext import typed_reader
from dragoman.core.model import AnyPart, Reasoning, Request, Response, Stop, Text, ToolCall
from dragoman.protocols.openai_chat.response import (
    Counts,
    InputCounts,
    OutputCounts,
    declares_functions,
    encode_id,
    encode_stop,
    usage_of,
)
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


class _UsualInputCounts(InputCounts, frozen=True, forbid_unknown_fields=True):
    text_tokens: Raw = Raw()
    audio_tokens: Raw = Raw()
    image_tokens: Raw = Raw()
    video_tokens: Raw = Raw()


class _UsualOutputCounts(OutputCounts, frozen=True, forbid_unknown_fields=True):
    text_tokens: Raw = Raw()
    audio_tokens: Raw = Raw()
    image_tokens: Raw = Raw()
    accepted_prediction_tokens: Literal[0] | None = 0
    rejected_prediction_tokens: Literal[0] | None = 0


class _UsualCounts(Counts, frozen=True, forbid_unknown_fields=True):
    prompt_tokens_details: _UsualInputCounts | None = None
    completion_tokens_details: _UsualOutputCounts | None = None
    prompt_cache_miss_tokens: Raw = Raw()
    queue_time: Raw = Raw()
    prompt_time: Raw = Raw()
    completion_time: Raw = Raw()
    total_time: Raw = Raw()
    cost: Raw = Raw()
    cost_details: Raw = Raw()
    is_byok: Raw = Raw()


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
    usage: _UsualCounts | None = None
    service_tier: Raw = Raw()
    system_fingerprint: Raw = Raw()
    prompt_filter_results: Raw = Raw()
    usage_breakdown: Raw = Raw()
    time_info: Raw = Raw()
    x_groq: Raw = Raw()
    request_id: Raw = Raw()
    provider: Raw = Raw()
    timings: Raw = Raw()


_read = typed_reader(_Completion)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None:
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


class _WrittenFunction(Struct, gc=False):
    name: str
    arguments: str


class _WrittenCall(Struct, gc=False):
    id: str
    type: str
    function: _WrittenFunction


class _WrittenAssistant(Struct, gc=False):
    role: str
    content: str | None
    refusal: None
    annotations: tuple[()]
    reasoning_content: str | UnsetType
    tool_calls: list[_WrittenCall] | UnsetType


class _WrittenChoice(Struct, gc=False):
    index: int
    message: _WrittenAssistant
    finish_reason: str
    logprobs: None = None


class _WrittenInputCounts(Struct, gc=False):
    cached_tokens: int
    cache_write_tokens: int | UnsetType


class _WrittenOutputCounts(Struct, gc=False):
    reasoning_tokens: int


class _WrittenCompletionUsage(Struct, gc=False):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _WrittenInputCounts
    completion_tokens_details: _WrittenOutputCounts


class _WrittenCompletion(Struct, gc=False):
    id: str
    object: str
    created: int
    model: str
    choices: tuple[_WrittenChoice]
    usage: _WrittenCompletionUsage | UnsetType
    system_fingerprint: None = None


def write_usual_reply(
    response: Response, request: Request | None, echo: bytes = b""
) -> _WrittenCompletion | None:
    """Thoughts, then a text, then function calls, to a client that declares `tools`."""
    text, thought = None, UNSET
    calls: list[_WrittenCall] = []
    for part in response.parts:
        if part.state is not None:
            return None
        if type(part) is ToolCall and part.complete and part.kind == "function" and part.arguments.strip():
            calls.append(_WrittenCall(part.id, "function", _WrittenFunction(part.name, part.arguments)))
        elif type(part) is Text and part.text and not part.citations and text is None and not calls:
            text = part.text
        elif type(part) is Reasoning and part.text and thought is UNSET:
            thought = part.text
        else:
            return None
    if request is None or declares_functions(request):
        return None
    usage, counts = response.usage, UNSET
    if usage:
        counts = _WrittenCompletionUsage(
            usage.input,
            usage.output,
            usage.input + usage.output,
            _WrittenInputCounts(usage.cached, usage.cache_write or UNSET),
            _WrittenOutputCounts(usage.reasoning),
        )
    message = _WrittenAssistant("assistant", text, None, (), thought, calls or UNSET)
    choice = _WrittenChoice(0, message, encode_stop(response.stop, refused=False, legacy=False) or "stop")
    id, model = encode_id(response.id), response.model or request.model
    return _WrittenCompletion(id, "chat.completion", response.created, model, (choice,), counts)
