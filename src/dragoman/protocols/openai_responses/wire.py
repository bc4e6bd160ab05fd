"""OpenAI Responses: each object of the wire declared once, its words beside ours, and fields without meaning
elsewhere.

Structs say the common shape of a reply, which is read and written as they stand (`common_shape`). Any other
shape, and all that is a TypedDict here, is a plain dict, read by taking, so that unknown fields survive.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from msgspec import Meta, Raw, Struct

from dragoman.core.fields import ABSENT, Table, made_by, printer, word_set
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
    ("max_tokens", "length"),  # OpenAI's own examples
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


# Replies: what we write, and as Received… what servers send. An item that is read is known by its `type`, so
# msgspec would write that first; servers write the id first.

Count = Annotated[int, Meta(ge=0)]
Empty = Annotated[tuple[Raw, ...], Meta(max_length=0)]


class OutputText(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    annotations: Empty | None = None
    logprobs: Empty | None = None
    text: str


class MessageItem(Struct, gc=False):
    id: str
    type: Literal["message"]
    status: Literal["completed"]
    role: Literal["assistant"]
    content: tuple[OutputText]


class ReceivedMessageItem(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="message"):
    content: Annotated[list[OutputText], Meta(min_length=1)]
    role: Literal["assistant"] = "assistant"
    id: str = ""
    status: Literal["completed"] = "completed"


class FunctionCallItem(Struct, gc=False):
    id: str
    status: Literal["completed"]
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str  # JSON text


class ReceivedCallItem(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str
    id: str = ""
    status: Literal["completed"] = "completed"


class SummaryText(Struct, forbid_unknown_fields=True, gc=False):
    text: str
    type: Raw = ABSENT


class ReceivedReasoningItem(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="reasoning"):
    summary: list[SummaryText]
    id: str = ""
    status: Literal["completed"] | None = None
    encrypted_content: str | None = None
    content: Empty | None = None


class InputTokensDetails(Struct, forbid_unknown_fields=True, gc=False):
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0


class OutputTokensDetails(Struct, forbid_unknown_fields=True, gc=False):
    reasoning_tokens: Count = 0


class ResponsesUsage(Struct, frozen=True, gc=False):
    """Codex and OpenCode fail without any one of these numbers (G32: cc-switch#3514)."""

    input_tokens: Count  # includes cached tokens
    input_tokens_details: InputTokensDetails | None
    output_tokens: Count  # includes reasoning tokens
    output_tokens_details: OutputTokensDetails | None
    total_tokens: Count


class ReceivedResponsesUsage(ResponsesUsage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """And what a reply says about its price."""

    input_tokens_details: InputTokensDetails | None = None
    output_tokens_details: OutputTokensDetails | None = None
    total_tokens: Any = ABSENT
    context_details: Raw = ABSENT
    cost: Raw = ABSENT
    cost_details: Raw = ABSENT
    cost_in_usd_ticks: Raw = ABSENT
    is_byok: Raw = ABSENT


class WrittenResponse(Struct, frozen=True, gc=False):
    """What a response does not repeat of its request."""

    id: str  # resp_…
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["completed", "incomplete", "failed", "in_progress", "queued", "cancelled"]
    error: Wire | None  # {"code", "message"} of a failed response
    incomplete_details: Wire | None  # {"reason"}
    model: str
    output: list[Any]  # of items
    usage: ResponsesUsage | None


class ReceivedResponse(WrittenResponse, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """And metadata, and the settings of the request: a field of type Raw means nothing to others."""

    id: str = ""
    object: Literal["response"] = "response"
    created_at: int = 0
    completed_at: Any = ABSENT
    status: Literal["completed"]
    error: None = None
    incomplete_details: None = None
    model: str = ""
    output: list[ReceivedMessageItem | ReceivedCallItem | ReceivedReasoningItem]
    usage: ReceivedResponsesUsage | None = None
    access_programs: Raw = ABSENT
    background: Raw = ABSENT
    billing: Raw = ABSENT
    content_filters: Raw = ABSENT
    conversation: Raw = ABSENT
    frequency_penalty: Raw = ABSENT
    image: Raw = ABSENT
    instructions: Raw = ABSENT
    max_output_tokens: Raw = ABSENT
    max_tool_calls: Raw = ABSENT
    metadata: Raw = ABSENT
    moderation: Raw = ABSENT
    output_text: Raw = ABSENT
    parallel_tool_calls: Raw = ABSENT
    presence_penalty: Raw = ABSENT
    previous_response_id: Raw = ABSENT
    prompt: Raw = ABSENT
    prompt_cache_key: Raw = ABSENT
    prompt_cache_options: Raw = ABSENT
    prompt_cache_retention: Raw = ABSENT
    reasoning: Raw = ABSENT
    safety_identifier: Raw = ABSENT
    service_tier: Raw = ABSENT
    store: Raw = ABSENT
    temperature: Raw = ABSENT
    text: Raw = ABSENT
    tool_choice: Raw = ABSENT
    tool_usage: Raw = ABSENT
    tools: Raw = ABSENT
    top_logprobs: Raw = ABSENT
    top_p: Raw = ABSENT
    truncation: Raw = ABSENT
    user: Raw = ABSENT


class EventWire(TypedDict):
    """An event of a stream; the SSE event has the same name as `type`."""

    type: str
    sequence_number: int
    response: NotRequired[Wire]  # response.created, .in_progress, .completed, .incomplete, .failed
    output_index: NotRequired[int]  # of events about an item
    item: NotRequired[ItemWire]  # response.output_item.added, .done
    item_id: NotRequired[str]
    content_index: NotRequired[int]  # of events about a part of a message
    summary_index: NotRequired[int]  # of events about a part of a reasoning summary
    delta: NotRequired[str]


QUIET_ITEM = word_set("type id status role name summary content action operation item_id output_index")
FINAL = QUIET_ITEM | {"phase"}  # of a final answer, which every other protocol takes a message for
QUIET_PART = word_set("type annotations logprobs image_url file_data prompt_cache_breakpoint")
QUIET_REQUEST = word_set("stream_options client_metadata stream input instructions model tools")
QUIET_RESPONSE = frozenset(ReceivedResponse.__struct_fields__)
# Counts that are read, and what a reply says about its price and the kinds of its tokens
QUIET_USAGE = word_set("prompt_tokens completion_tokens text_tokens audio_tokens image_tokens").union(
    ReceivedResponsesUsage.__struct_fields__,
    InputTokensDetails.__struct_fields__,
    OutputTokensDetails.__struct_fields__,
)
SECRETS = ("authorization", "headers")  # of a remote MCP server; never repeated
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
