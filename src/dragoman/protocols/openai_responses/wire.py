"""OpenAI Responses: its name, its words beside ours, and the fields that mean nothing elsewhere."""

from __future__ import annotations

from typing import Any, Final, Literal

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.model import FailureKind, StopReason, Value
from dragoman.core.table import Table

PROTOCOL_NAME: Final = "openai-responses"

# Our own notes on a value, beside its wire fields: to which item or namespace it belongs. Never written.
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

# error.code beside kinds; Codex retries, compacts or gives up by these words
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

# error.type beside kinds, where the code says nothing
TYPES: Table[FailureKind | Literal[""]] = Table(
    ("invalid_request_error", "bad_request"),
    ("invalid_request_error", "context_too_long"),
    ("invalid_request_error", "too_large"),
    ("invalid_request_error", "unauthenticated"),
    ("invalid_request_error", "not_found"),
    ("invalid_request_error", "conflict"),
    ("authentication_error", "unauthenticated"),
    ("permission_error", "forbidden"),
    ("not_found_error", "not_found"),
    ("insufficient_quota", "billing"),
    ("rate_limit_error", "rate_limit"),
    ("requests", "rate_limit"),
    ("tokens", "rate_limit"),
    ("server_error", "server"),
    ("server_error", "overloaded"),
    ("server_error", "timeout"),
    ("server_error", "truncated"),
    other=("server_error", ""),
)

QUIET_ITEM = frozenset(
    {"type", "id", "status", "role", "caller", "name", "phase", "summary", "content", "action"}
)
QUIET_PART = frozenset({"type", "annotations", "logprobs", "image_url", "file_data"})
QUIET_REQUEST = frozenset(
    {"stream_options", "client_metadata", "stream", "input", "instructions", "model", "tools"}
)
# What a response says about itself, or repeats of the request
QUIET_RESPONSE = frozenset(
    {
        "access_programs",
        "background",
        "billing",
        "completed_at",
        "content_filters",
        "conversation",
        "error",
        "frequency_penalty",
        "created_at",
        "image",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "moderation",
        "id",
        "model",
        "object",
        "output",
        "output_text",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "status",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tool_usage",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "usage",
        "user",
    }
)
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def printed(value: Any, where: str) -> str:
    """JSON text; a caller's dict may hold what JSON cannot say."""
    try:
        return jsontext.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(PROTOCOL_NAME, where, f"expected JSON, got {error}") from None


def native(value: Value) -> bool:
    """Whether `value` came from this protocol and goes back as it came."""
    return value.extras is not None and PROTOCOL_NAME in value.extras
