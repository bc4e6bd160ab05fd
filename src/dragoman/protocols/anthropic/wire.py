"""The wire of Anthropic Messages: its objects as types, its words beside the neutral ones.

The types document the wire; bodies stay plain dicts, so that fields newer than this file survive.
`Required` is what Anthropic's own server always sends or insists on.
"""

from __future__ import annotations

from typing import Final, Literal, Required, TypedDict

from dragoman.core.fields import Table, made_by, printer, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.model import Extras, FailureKind, StopReason, Wire

PROTOCOL_NAME: Final = "anthropic"
is_native = made_by(PROTOCOL_NAME)
printed = printer(PROTOCOL_NAME)
NO_EXTRAS: Extras = {PROTOCOL_NAME: {}}  # shared by the many values that have none; never written to
# Replies have every field of the vendor's schema, with null where it is empty: typed clients expect the keys.
# These are the extras of blocks that come back from a reply without citations, or from a direct call.
UNCITED: Extras = {PROTOCOL_NAME: {"citations": None}}
DIRECT: Extras = {PROTOCOL_NAME: {"caller": {"type": "direct"}}}


# Requests


class MessagesRequest(TypedDict, total=False):
    """POST /v1/messages. `system` stands beside the conversation."""

    model: Required[str]
    max_tokens: Required[int]
    messages: Required[list[MessageParam]]
    system: str | list[TextBlock]
    tools: list[CustomTool | Wire]  # hosted tools have a dated `type`
    tool_choice: ToolChoiceParam
    thinking: ThinkingParam
    output_config: Wire  # effort: low … max; format: {type: json_schema, schema}
    stop_sequences: list[str]
    temperature: float  # 0 to 1; refused by newer models, as are top_p and top_k
    top_p: float
    top_k: int
    stream: bool
    metadata: Wire  # user_id
    service_tier: Literal["auto", "standard_only"]
    cache_control: CacheControl
    container: str | Wire
    mcp_servers: list[McpServerParam]  # beta, as are the fields below
    context_management: Wire
    thread: Wire


class MessageParam(TypedDict):
    """`system`: Opus 4.8 and later, right before a turn of the model or at the end."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Wire]


class CustomTool(TypedDict, total=False):
    name: Required[str]  # [a-zA-Z0-9_-]{1,128}
    input_schema: Required[Wire]  # an object; names of properties are [a-zA-Z0-9_.-]{1,64}
    description: str
    type: Literal["custom"]
    strict: bool
    defer_loading: bool  # not part of the prompt until a tool search or a tool_reference loads it
    cache_control: CacheControl


class ToolChoiceParam(TypedDict, total=False):
    type: Required[Literal["auto", "any", "tool", "none"]]
    name: str  # with `tool`
    disable_parallel_tool_use: bool


class ThinkingParam(TypedDict, total=False):
    type: Required[Literal["enabled", "adaptive", "disabled", "between_tools"]]
    budget_tokens: int  # with `enabled`: 1024 and more, less than max_tokens
    display: Literal["summarized", "omitted"]


class McpServerParam(TypedDict, total=False):
    """Beta mcp-client-2025-11-20. A tool {type: mcp_toolset, mcp_server_name} names a server."""

    type: Required[Literal["url"]]
    name: Required[str]
    url: Required[str]
    authorization_token: str
    tool_configuration: Wire  # the older form of the beta: enabled, allowed_tools


class CacheControl(TypedDict, total=False):
    """At most four in a request."""

    type: Required[Literal["ephemeral"]]
    ttl: Literal["5m", "1h"]


# Content blocks


class TextBlock(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]  # not blank in requests
    citations: list[Wire] | None


class ThinkingBlock(TypedDict):
    """Anthropic takes it back only with the signature that it made."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(TypedDict):
    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(TypedDict, total=False):
    type: Required[Literal["tool_use"]]
    id: Required[str]  # [a-zA-Z0-9_-]+
    name: Required[str]
    input: Required[Wire]
    caller: Wire  # {type: direct}, or the code execution that made the call


class ToolResultBlock(TypedDict, total=False):
    """In the user message right after the call, before any text."""

    type: Required[Literal["tool_result"]]
    tool_use_id: Required[str]
    content: str | list[Wire]  # text, image, document, search_result, tool_reference
    is_error: bool


class MediaBlock(TypedDict, total=False):
    """`source` has a type of base64, url, file or text (document only), or content (document only)."""

    type: Required[Literal["image", "document"]]
    source: Required[Wire]
    title: str  # of a document


# Replies


class MessageReply(TypedDict):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Wire]
    stop_reason: str | None
    stop_sequence: str | None
    stop_details: Wire | None  # {type: refusal, category, explanation}
    container: Wire | None
    usage: UsageReply


class UsageReply(TypedDict, total=False):
    """The three counts of input add up; `output_tokens` includes thinking."""

    input_tokens: Required[int]
    cache_creation_input_tokens: Required[int | None]
    cache_read_input_tokens: Required[int | None]
    output_tokens: Required[int]
    cache_creation: Wire | None  # the input written to a cache, by its lifetime
    output_tokens_details: Wire | None  # thinking_tokens
    server_tool_use: Wire | None  # web_search_requests, web_fetch_requests
    service_tier: str | None


class StreamEvent(TypedDict, total=False):
    """Events and their fields.

    message_start {message}, content_block_start {index, content_block}, content_block_delta {index, delta},
    content_block_stop {index}, message_delta {delta, usage}, message_stop, ping, error {error}.
    """

    type: Required[str]
    message: MessageReply
    index: int
    content_block: Wire
    delta: Wire
    usage: UsageReply
    error: Wire


class ErrorReply(TypedDict):
    type: Literal["error"]
    error: Wire  # type, message, details {error_code}


# Words

STOP: Table[StopReason] = Table(
    ("end_turn", "end"),
    ("stop_sequence", "stop_sequence"),
    ("tool_use", "tool_calls"),
    ("max_tokens", "length"),
    ("model_context_window_exceeded", "context_full"),
    ("refusal", "refusal"),
    ("refusal", "content_filter"),
    ("pause_turn", "pause"),
    ("compaction", "pause"),
    other=("end_turn", "other"),
)

# error.type <-> kind of failure
ERRORS: Table[FailureKind] = Table(
    ("invalid_request_error", "bad_request"),
    ("invalid_request_error", "context_too_long"),
    ("request_too_large", "too_large"),
    ("authentication_error", "unauthenticated"),
    ("billing_error", "billing"),
    ("permission_error", "forbidden"),
    ("not_found_error", "not_found"),
    ("conflict_error", "conflict"),
    ("rate_limit_error", "rate_limit"),
    ("api_error", "server"),
    ("api_error", "truncated"),
    ("overloaded_error", "overloaded"),
    ("timeout_error", "timeout"),
    other=("api_error", "server"),
)

# Fields that no other protocol has and that nobody misses there: they are kept, but are no losses
QUIET_THINKING = word_set("signature")
QUIET_DIRECT_CALL = word_set("caller toolset_name")  # a caller that is code is reported
QUIET_MARK = word_set("cache_control toolset_name")
QUIET_RESULT = word_set("is_error content cache_control toolset_name")
# Fields of a tool that other servers answer 400 to (G84: copilot-api#260, litellm#29479)
QUIET_TOOL = word_set("type description strict defer_loading cache_control")
# cache_control of a request caches all of it, as other servers do by themselves
QUIET_REQUEST = word_set("model stream tools system cache_control compaction")
QUIET_RESPONSE = word_set("id type role model diagnostics context_management input_transformations")
QUIET_USAGE = word_set(
    "cache_creation service_tier inference_geo speed output_tokens_details thinking_tokens iterations "
    "fallback_credit"
)
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def lifetime(block: Wire) -> str:
    """Of the cache breakpoint that a block has; empty: it has none."""
    mark = block.get("cache_control")
    return ("1h" if mark.get("ttl") == "1h" else "5m") if is_object(mark) else ""
