"""Anthropic Messages: its name, its words beside ours, and the fields that mean nothing elsewhere."""

from __future__ import annotations

from typing import Final

from dragoman.core.model import FailureKind, StopReason
from dragoman.core.table import Table

PROTOCOL_NAME: Final = "anthropic"

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

# error.type -> kind; the status that goes with it stands beside it
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

# What a call, a result, a tool or a response says about itself that no other protocol could repeat
QUIET_THINKING = frozenset({"signature"})
QUIET_CALL = frozenset({"caller"})
QUIET_RESULT = frozenset({"is_error", "content"})
QUIET_TOOL = frozenset({"type", "description", "strict", "defer_loading"})
QUIET_REQUEST = frozenset({"model", "stream", "tools", "system"})
QUIET_RESPONSE = frozenset(
    {"id", "type", "role", "model", "diagnostics", "context_management", "input_transformations"}
)
QUIET_USAGE = frozenset(
    {
        "cache_creation",
        "service_tier",
        "inference_geo",
        "server_tool_use",
        "speed",
        "output_tokens_details",
        "iterations",
        "fallback_credit",
    }
)
# How other protocols' losses name our settings
SPELLING = {
    "stop": "stop_sequences",
    "output": "output_config.format",
    "effort": "output_config.effort",
    "budget": "thinking.budget_tokens",
    "show_reasoning": "thinking.display",
    "user": "metadata.user_id",
    "parallel": "tool_choice.disable_parallel_tool_use",
}
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
