"""The wire of Anthropic Messages: each object declared once, its words beside the neutral ones.

Structs say the common shape of a reply, which is read and written as they stand (`common_shape`). Any other
shape, and all that is a TypedDict here, is a plain dict, read by taking, so that fields newer than this file
survive. `Required` is what Anthropic's own server always sends or insists on.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta, Raw, Struct

from dragoman.core.fields import ABSENT, Table, made_by, printer, unread_fields, word_set
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
    system: str | list[Wire]  # text blocks
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


class TextBlock(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="text"):
    """In requests it may have `cache_control`, and is not blank."""

    text: str
    citations: None = None  # or a list: then it is read by taking


class ThinkingBlock(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="thinking"):
    """Anthropic takes it back only with the signature that it made."""

    thinking: str
    signature: str = ""


class DirectCaller(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["direct"]


class ToolUseBlock(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="tool_use"):
    id: str  # [a-zA-Z0-9_-]+
    name: str
    input: dict[str, Any]
    caller: DirectCaller | None = None  # or the code execution that made the call


class RedactedThinkingBlock(TypedDict):
    type: Literal["redacted_thinking"]
    data: str


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


Count = Annotated[int, Meta(ge=0)]


class ThinkingCount(Struct, forbid_unknown_fields=True, gc=False):
    thinking_tokens: Count = 0


class UsageCounts(Struct, gc=False):
    """The three counts of input add up; `output_tokens` includes thinking."""

    input_tokens: Count = 0
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count = 0
    output_tokens_details: ThinkingCount | None = None


class UsageReply(UsageCounts, forbid_unknown_fields=True, gc=False):
    """And what is not counted elsewhere."""

    server_tool_use: Wire | None = None  # web_search_requests, web_fetch_requests
    cache_creation: Any = None  # the input written to a cache, by its lifetime
    service_tier: Any = None
    inference_geo: Any = None
    speed: Any = None
    iterations: Raw = ABSENT
    fallback_credit: Raw = ABSENT


class MessageReply(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A field of type Raw means nothing to others."""

    id: str = ""
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str = ""
    content: list[TextBlock | ToolUseBlock | ThinkingBlock]
    stop_reason: str
    stop_sequence: str | None = None
    stop_details: None = None  # {type: refusal, category, explanation}
    container: None = None
    usage: UsageReply
    context_management: Raw = ABSENT
    diagnostics: Raw = ABSENT
    input_transformations: Raw = ABSENT


class StreamEvent(TypedDict, total=False):
    """Events and their fields.

    message_start {message}, content_block_start {index, content_block}, content_block_delta {index, delta},
    content_block_stop {index}, message_delta {delta, usage}, message_stop, ping, error {error}.
    """

    type: Required[str]
    message: Wire  # a MessageReply without content
    index: int
    content_block: Wire
    delta: Wire
    usage: Wire
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
QUIET_RESPONSE = unread_fields(MessageReply) | {"id", "type", "role", "model"}
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def lifetime(block: Wire) -> str:
    """Of the cache breakpoint that a block has; empty: it has none."""
    mark = block.get("cache_control")
    return ("1h" if mark.get("ttl") == "1h" else "5m") if is_object(mark) else ""
