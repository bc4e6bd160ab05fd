"""OpenAI Chat Completions: each object of the wire declared once, its words beside ours, and fields without
meaning elsewhere.

Structs say the common shape of a reply, which is read and written as they stand (`common_shape`). Any other
shape, and all that is a TypedDict here, is a plain dict, read by taking: servers that speak Chat add fields
of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from msgspec import Meta, Raw, Struct

from dragoman.core.fields import ABSENT, NOTHING, Fields, Table, made_by, unread_fields, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Extras, FailureKind, StopReason, Wire
from dragoman.protocols.openai import ERROR_TYPES, without_alarms

PROTOCOL_NAME: Final = "openai-chat"
is_native = made_by(PROTOCOL_NAME)
SEALED: Final = "dragoman-v1"  # the `format` of reasoning_details that we wrote

STOP: Table[StopReason] = Table(
    ("stop", "end"),
    ("stop", "stop_sequence"),
    ("stop", "pause"),
    ("tool_calls", "tool_calls"),
    ("function_call", "tool_calls"),
    ("length", "length"),
    ("model_length", "context_full"),  # Mistral
    ("eos", "end"),  # Together, and eos_token: Hugging Face
    ("eos_token", "end"),
    ("content_filter", "content_filter"),
    ("content_filter", "refusal"),
    ("", "end"),  # servers that send no finish reason
    other=("stop", "other"),
)

# error.code -> kind; without a known code the status decides
CODES: Table[FailureKind] = Table(
    ("context_length_exceeded", "context_too_long"),
    ("request_too_large", "too_large"),
    ("invalid_api_key", "unauthenticated"),
    ("insufficient_quota", "billing"),
    ("permission_denied", "forbidden"),
    ("unsupported_country_region_territory", "forbidden"),
    ("model_not_found", "not_found"),
    ("conflict", "conflict"),
    ("rate_limit_exceeded", "rate_limit"),
    ("overloaded", "overloaded"),
    ("timeout", "timeout"),
    ("stream_truncated", "truncated"),
    other=("", "server"),
)
TYPES: Table[FailureKind] = Table(
    *ERROR_TYPES, ("overloaded_error", "overloaded"), other=("server_error", "server")
)


# Requests


class MessageWire(TypedDict, total=False):
    """A message of a request, of a reply and of a chunk."""

    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: str | list[Wire] | None  # parts: text, refusal, image_url, input_audio, file
    name: str
    refusal: str | None
    annotations: list[Wire]  # {"type": "url_citation", "url_citation": {url, title, start_index, end_index}}
    audio: Wire | None
    tool_calls: list[Wire]  # CompletionCall; or {"type": "custom", "custom": {name, input: freeform text}}
    function_call: Wire  # deprecated: one call, without an id
    tool_call_id: str  # of role tool
    reasoning_content: str  # DeepSeek, vLLM, and what we write
    reasoning: str  # OpenRouter, Groq
    reasoning_text: str  # GitHub Copilot
    reasoning_details: list[Wire]  # OpenRouter: signed entries, to be echoed
    images: list[Wire]  # OpenRouter: image_url parts of a reply


class ChatCompletionsRequest(TypedDict):
    model: str
    messages: list[MessageWire]
    tools: NotRequired[
        list[Wire]
    ]  # {"type": "function", "function": {name, description, parameters, strict}}
    tool_choice: NotRequired[Literal["none", "auto", "required"] | Wire]
    functions: NotRequired[list[Wire]]  # deprecated form of tools
    function_call: NotRequired[Literal["none", "auto"] | Wire]  # deprecated form of tool_choice
    parallel_tool_calls: NotRequired[bool]
    web_search_options: NotRequired[Wire]
    stream: NotRequired[bool]
    stream_options: NotRequired[Wire]  # {"include_usage": true}
    response_format: NotRequired[Wire]  # text, json_object, json_schema
    reasoning_effort: NotRequired[str]


# Replies: what we write, and as Received… what servers add to it. These are classes of their own because each
# field that is not set costs the constructor about 10 ns, and a whole reply of ours takes 1.6 µs.

Count = Annotated[int, Meta(ge=0)]
Filled = Annotated[str, Meta(min_length=1)]
Empty = Annotated[tuple[Raw, ...], Meta(max_length=0)]


class CalledFunction(Struct, forbid_unknown_fields=True, gc=False):
    name: Filled
    arguments: Filled  # JSON text


class CompletionCall(Struct, frozen=True, gc=False):
    """Gemini's endpoint sends `extra_content` beside: {"google": {"thought_signature": …}}."""

    id: Filled
    type: Literal["function"] = "function"
    function: CalledFunction = ABSENT


class ReceivedCall(CompletionCall, frozen=True, forbid_unknown_fields=True, gc=False):
    index: int = 0  # of a chunk, and of some whole replies


class CompletionMessage(Struct, frozen=True, gc=False):
    role: Literal["assistant"] = "assistant"
    content: str | None = None
    refusal: None = None
    annotations: Empty | None = None
    reasoning_content: str | None = ABSENT
    tool_calls: Sequence[CompletionCall] | None = ABSENT


class ReceivedMessage(CompletionMessage, frozen=True, forbid_unknown_fields=True, gc=False):
    tool_calls: list[ReceivedCall] | None = None
    audio: None = None
    function_call: None = None


class CompletionChoice(Struct, frozen=True, gc=False):
    """A chunk has a `delta` in place of the message."""

    index: int = 0
    message: CompletionMessage = ABSENT
    finish_reason: str = ""
    logprobs: None = None


class ReceivedChoice(CompletionChoice, frozen=True, forbid_unknown_fields=True, gc=False):
    """And what servers add. A field of type Raw means nothing to others."""

    message: ReceivedMessage = ABSENT
    stop_reason: None = None  # what stopped it, as is matched_stop
    native_finish_reason: Raw = ABSENT
    content_filter_results: Raw = ABSENT
    seed: Raw = ABSENT
    token_ids: Raw = ABSENT
    text: Raw = ABSENT


class InputCounts(Struct, frozen=True, gc=False):
    cached_tokens: Count = 0
    cache_write_tokens: Count = ABSENT
    audio_tokens: Count | None = ABSENT


class OutputCounts(Struct, frozen=True, gc=False):
    reasoning_tokens: Count = 0


class CompletionUsage(Struct, frozen=True, gc=False):
    prompt_tokens: Count = 0  # includes cached tokens
    completion_tokens: Count = 0  # includes reasoning tokens
    total_tokens: Count = 0
    prompt_tokens_details: InputCounts | None = None
    completion_tokens_details: OutputCounts | None = None


class Counts(CompletionUsage, frozen=True, gc=False):
    """Other places of the same counts. The last three are cached tokens at DeepSeek, Moonshot and others."""

    reasoning_tokens: Count = 0
    prompt_cache_hit_tokens: Count = 0
    cached_tokens: Count = 0
    num_cached_tokens: Count = 0


class ReceivedInputCounts(InputCounts, frozen=True, forbid_unknown_fields=True, gc=False):
    text_tokens: Raw = ABSENT
    image_tokens: Raw = ABSENT
    video_tokens: Raw = ABSENT


class ReceivedOutputCounts(OutputCounts, frozen=True, forbid_unknown_fields=True, gc=False):
    text_tokens: Raw = ABSENT
    audio_tokens: Raw = ABSENT
    image_tokens: Raw = ABSENT
    accepted_prediction_tokens: Literal[0] | None = 0  # any other count is reported
    rejected_prediction_tokens: Literal[0] | None = 0


class ReceivedUsage(Counts, frozen=True, forbid_unknown_fields=True, gc=False):
    """And the kinds of the tokens, and what a reply says about its price and its time."""

    prompt_tokens_details: ReceivedInputCounts | None = None
    completion_tokens_details: ReceivedOutputCounts | None = None
    prompt_cache_miss_tokens: Raw = ABSENT
    queue_time: Raw = ABSENT
    prompt_time: Raw = ABSENT
    completion_time: Raw = ABSENT
    total_time: Raw = ABSENT
    cost: Raw = ABSENT
    cost_details: Raw = ABSENT
    cost_in_usd_ticks: Raw = ABSENT
    is_byok: Raw = ABSENT
    latency_checkpoint: Raw = ABSENT


class Completion(Struct, frozen=True, gc=False):
    """A chunk of a stream has the same fields; its object is chat.completion.chunk."""

    id: str = ""
    object: Literal["chat.completion"] = "chat.completion"
    created: int = 0
    model: str = ""
    choices: tuple[CompletionChoice, ...] = ()
    usage: CompletionUsage | None = ABSENT
    system_fingerprint: Any = None


class ReceivedCompletion(Completion, frozen=True, forbid_unknown_fields=True, gc=False):
    """And what servers add."""

    choices: Annotated[tuple[ReceivedChoice, ...], Meta(max_length=1)] = ()
    usage: ReceivedUsage | None = None
    service_tier: Raw = ABSENT
    obfuscation: Raw = ABSENT
    provider: Raw = ABSENT
    request_id: Raw = ABSENT
    latency_checkpoint: Raw = ABSENT
    time_info: Raw = ABSENT
    timings: Raw = ABSENT
    metadata: Raw = ABSENT
    prompt: Raw = ABSENT
    prompt_filter_results: Raw = ABSENT
    usage_breakdown: Raw = ABSENT
    x_groq: Raw = ABSENT
    nvext: Raw = ABSENT
    user_id: Raw = ABSENT


class ErrorWire(TypedDict):
    """`{"error": …}` of a failed request, or of a chunk."""

    message: str
    type: str
    param: str | None
    code: str | None


NO_EXTRAS: Extras = {PROTOCOL_NAME: {}}  # of a value that came from Chat; shared, nobody writes into it
REQUIRED_MESSAGE: Wire = {"role": "assistant", "content": None, "refusal": None}  # of a reply

QUIET_REQUEST = word_set("stream stream_options tools functions parallel_tool_calls")
QUIET_MESSAGE = word_set("role content cache_control")
MARKS = word_set("prompt_cache_breakpoint cache_control")
QUIET_CALL = word_set("type index arguments extra_content cache_control")
MATCHED_STOP = ("stop_reason", "matched_stop")  # of vLLM and SGLang; a number is a token
QUIET_RESPONSE = unread_fields(ReceivedCompletion) | word_set(
    "id object created model usage system_fingerprint"
    " p"  # Mistral's padding
    # what a stored completion repeats of its request
    " temperature top_p frequency_penalty presence_penalty seed tools tool_choice response_format input_user"
)
QUIET_CHOICE = unread_fields(ReceivedChoice) | {"index", "finish_reason", "logprobs", *MATCHED_STOP}
# Counts that are read, and what a reply says about its price, its time and the kinds of its tokens
_KINDS = unread_fields(ReceivedInputCounts) | unread_fields(ReceivedOutputCounts)
QUIET_USAGE = _KINDS.union(
    ReceivedUsage.__struct_fields__, InputCounts.__struct_fields__, OutputCounts.__struct_fields__
)


def leftovers(fields: Fields, losses: Losses, quiet: frozenset[str] = NOTHING) -> Extras:
    """The extras of a message, a part or a reply. An empty field is not reported, as if it were absent."""
    rest, quiet = fields.rest, without_alarms(quiet, fields.rest)
    if not rest or rest.keys() <= quiet:
        return {PROTOCOL_NAME: rest}
    return fields.extras(losses, quiet | {key for key, value in rest.items() if _is_empty(value)})


def _is_empty(value: Any) -> bool:
    return value is False or value in ("", []) or (is_object(value) and not any(value.values()))


def text_part(text: str) -> Wire:
    return {"type": "text", "text": text}
