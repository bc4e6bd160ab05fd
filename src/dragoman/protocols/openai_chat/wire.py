"""OpenAI Chat Completions: the wire as typed documentation, its words beside ours, and fields without meaning
elsewhere.

The TypedDicts describe what we read and write. Wire objects stay plain dicts, so that unknown fields survive;
servers that speak Chat add fields of their own.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

from dragoman.core.fields import NOTHING, Fields, Table, made_by, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Extras, FailureKind, StopReason, Wire
from dragoman.protocols.openai import ERROR_TYPES

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


class FunctionCall(TypedDict):
    name: str
    arguments: str  # JSON text


class CustomCall(TypedDict):
    name: str
    input: str  # freeform text


class ToolCallWire(TypedDict):
    id: str
    type: Literal["function", "custom"]
    function: NotRequired[FunctionCall]
    custom: NotRequired[CustomCall]
    extra_content: NotRequired[Wire]  # Gemini's endpoint: {"google": {"thought_signature": …}}


class MessageWire(TypedDict, total=False):
    """A message of a request, and of a reply (there `role`, `content` and `refusal` are always set)."""

    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: str | list[Wire] | None  # parts: text, refusal, image_url, input_audio, file
    name: str
    refusal: str | None
    annotations: list[Wire]  # {"type": "url_citation", "url_citation": {url, title, start_index, end_index}}
    audio: Wire | None
    tool_calls: list[ToolCallWire]
    function_call: FunctionCall  # deprecated: one call, without an id
    tool_call_id: str  # of role tool
    reasoning_content: str  # DeepSeek, vLLM, and what we write
    reasoning: str  # OpenRouter, Groq
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


class ChoiceWire(TypedDict):
    index: int
    message: NotRequired[MessageWire]  # of a whole reply
    delta: NotRequired[MessageWire]  # of a chunk; entries of tool_calls have an `index`
    finish_reason: str | None
    logprobs: Wire | None


class ChatUsage(TypedDict):
    prompt_tokens: int  # includes cached tokens
    completion_tokens: int  # includes reasoning tokens
    total_tokens: int
    prompt_tokens_details: Wire  # {"cached_tokens": …}
    completion_tokens_details: Wire  # {"reasoning_tokens": …}


class CompletionWire(TypedDict):
    """A whole reply, and a chunk of a stream."""

    id: str
    object: Literal["chat.completion", "chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChoiceWire]
    usage: NotRequired[ChatUsage | None]


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
QUIET_CALL = word_set("type index arguments extra_content")
# Metadata of a response that no other protocol can express
QUIET_RESPONSE = word_set(
    "id object created model usage system_fingerprint service_tier obfuscation provider request_id time_info "
    "timings metadata prompt prompt_filter_results usage_breakdown x_groq nvext user_id"
)
QUIET_CHOICE = word_set(
    "index finish_reason native_finish_reason stop_reason matched_stop seed token_ids text "
    "content_filter_results logprobs"
)


# Counts that are read, and what a reply says about its price, its time and the kinds of its tokens
QUIET_USAGE = word_set(
    "prompt_tokens completion_tokens total_tokens reasoning_tokens prompt_tokens_details "
    "completion_tokens_details prompt_cache_hit_tokens prompt_cache_miss_tokens cached_tokens "
    "num_cached_tokens cache_write_tokens text_tokens audio_tokens image_tokens video_tokens queue_time "
    "prompt_time completion_time total_time cost cost_details cost_in_usd_ticks is_byok"
)
MATCHED_STOP = ("stop_reason", "matched_stop")  # of vLLM and SGLang; a number is a token


def leftovers(fields: Fields, losses: Losses, quiet: frozenset[str] = NOTHING) -> Extras:
    """The extras of a message, a part or a reply. An empty field is not reported, as if it were absent."""
    rest = fields.rest
    if not rest or rest.keys() <= quiet:
        return {PROTOCOL_NAME: rest}
    return fields.extras(losses, quiet | {key for key, value in rest.items() if _is_empty(value)})


def _is_empty(value: Any) -> bool:
    return value is False or value in ("", []) or (is_object(value) and not any(value.values()))


def text_part(text: str) -> Wire:
    return {"type": "text", "text": text}
