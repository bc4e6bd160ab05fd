"""OpenAI Responses: the wire as typed documentation, its words beside ours, fields without meaning elsewhere.

The TypedDicts describe what we read and write. Wire objects stay plain dicts, so that unknown fields survive.
"""

from __future__ import annotations

from typing import Final, Literal, NotRequired, TypedDict

from dragoman.core.fields import Table, made_by, printer, word_set
from dragoman.core.model import FailureKind, StopReason, Wire
from dragoman.protocols.openai import ERROR_TYPES

PROTOCOL_NAME: Final = "openai-responses"
is_native = made_by(PROTOCOL_NAME)
printed = printer(PROTOCOL_NAME)

# Key of our own notes in the extras of a value: the item or namespace that it belongs to. Never written.
ITEM: Final = "openai-responses item"

# incomplete_details.reason; everything else is a completed response
INCOMPLETE: Table[StopReason] = Table(
    ("max_output_tokens", "length"),
    ("max_output_tokens", "context_full"),
    ("content_filter", "content_filter"),
    ("content_filter", "refusal"),
    ("malformed_call", "malformed_call"),
    other=("", "other"),
)

# error.code beside kinds; Codex retries, compacts or gives up by these codes (G36)
CODES: Table[FailureKind | Literal[""]] = Table(
    ("context_length_exceeded", "context_too_long"),
    ("invalid_api_key", "unauthenticated"),
    ("insufficient_quota", "billing"),
    ("billing_hard_limit_reached", "billing"),
    ("usage_not_included", "billing"),
    ("model_not_found", "not_found"),
    ("previous_response_not_found", "not_found"),
    ("rate_limit_exceeded", "rate_limit"),
    ("server_is_overloaded", "overloaded"),
    ("slow_down", "overloaded"),
    ("server_error", "server"),
    ("server_error", "truncated"),
    ("server_error", "timeout"),
    ("invalid_prompt", "bad_request"),
    ("invalid_value", "bad_request"),
    other=("", ""),
)

TYPES: Table[FailureKind | Literal[""]] = Table(
    *ERROR_TYPES,
    ("server_error", "overloaded"),
    ("server_error", "timeout"),
    ("server_error", "truncated"),
    other=("server_error", ""),
)


class ItemWire(TypedDict, total=False):
    """An entry of `input` or `output`. Each type has its own fields; these are the ones we read and write."""

    type: str  # message, reasoning, function_call, custom_tool_call, local_shell_call, their *_output, …
    id: str  # names the item: msg_, rs_, fc_, ctc_, …
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["user", "assistant", "system", "developer"]  # message
    content: str | list[Wire]  # message: input_text, output_text, refusal, input_image, input_file
    phase: str  # message of an assistant: commentary or final_answer
    summary: list[Wire]  # reasoning: {"type": "summary_text", "text": …}
    encrypted_content: str  # reasoning: state, to be echoed
    call_id: str  # pairs a call with its output
    name: str
    namespace: str
    arguments: str  # function_call: JSON text
    input: str  # custom_tool_call: freeform text
    action: Wire  # local_shell_call
    output: str | list[Wire]  # *_output: text or content parts


class ResponsesRequest(TypedDict):
    model: str
    input: str | list[ItemWire]
    instructions: NotRequired[str]
    tools: NotRequired[list[Wire]]  # function, custom, namespace, web_search, mcp, tool_search, …
    tool_choice: NotRequired[Literal["none", "auto", "required"] | Wire]
    parallel_tool_calls: NotRequired[bool]
    previous_response_id: NotRequired[str]
    store: NotRequired[bool]  # true unless set
    include: NotRequired[list[str]]
    reasoning: NotRequired[Wire]  # {"effort", "summary"}
    text: NotRequired[Wire]  # {"format", "verbosity"}
    max_output_tokens: NotRequired[int]
    stream: NotRequired[bool]


class ResponsesUsage(TypedDict):
    input_tokens: int  # includes cached tokens
    input_tokens_details: Wire  # {"cached_tokens": …}
    output_tokens: int  # includes reasoning tokens
    output_tokens_details: Wire  # {"reasoning_tokens": …}
    total_tokens: int


class ResponseWire(TypedDict):
    """Beside these fields a response repeats the settings of its request."""

    id: str  # resp_…
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "failed", "in_progress", "queued", "cancelled"]
    error: Wire | None  # {"code", "message"} of a failed response
    incomplete_details: Wire | None  # {"reason"}
    model: str
    output: list[ItemWire]
    usage: ResponsesUsage | None


class EventWire(TypedDict):
    """An event of a stream; the SSE event has the same name as `type`."""

    type: str
    sequence_number: int
    response: NotRequired[ResponseWire]  # response.created, .in_progress, .completed, .incomplete, .failed
    output_index: NotRequired[int]  # of events about an item
    item: NotRequired[ItemWire]  # response.output_item.added, .done
    item_id: NotRequired[str]
    content_index: NotRequired[int]  # of events about a part of a message
    summary_index: NotRequired[int]  # of events about a part of a reasoning summary
    delta: NotRequired[str]


QUIET_ITEM = word_set("type id status role name summary content action operation")
QUIET_PART = word_set("type annotations logprobs image_url file_data prompt_cache_breakpoint")
QUIET_REQUEST = word_set("stream_options client_metadata stream input instructions model tools")
# Metadata of a response, and settings that it repeats from the request
QUIET_RESPONSE = word_set(
    "access_programs background billing completed_at content_filters conversation error frequency_penalty "
    "created_at image incomplete_details instructions max_output_tokens max_tool_calls metadata moderation "
    "id model object output output_text parallel_tool_calls presence_penalty previous_response_id prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier "
    "status store temperature text tool_choice tool_usage tools top_logprobs top_p truncation usage user"
)
# Counts that are read, and what a reply says about its price and the kinds of its tokens
QUIET_USAGE = word_set(
    "input_tokens output_tokens total_tokens input_tokens_details output_tokens_details cached_tokens "
    "cache_write_tokens reasoning_tokens prompt_tokens completion_tokens context_details text_tokens "
    "audio_tokens image_tokens cost cost_details cost_in_usd_ticks is_byok"
)
SECRETS = ("authorization", "headers")  # of a remote MCP server; never repeated
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
