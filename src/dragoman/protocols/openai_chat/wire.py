"""OpenAI Chat Completions: its name, its words beside ours, and the fields that mean nothing elsewhere."""

from __future__ import annotations

from typing import Any, Final

from dragoman.core.fields import NOTHING, Fields
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Extras, FailureKind, StopReason, Value, Wire
from dragoman.core.table import Table

PROTOCOL_NAME: Final = "openai-chat"
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
    ("", "end"),  # a server that never says why
    other=("stop", "other"),
)

# error.code -> kind; where no code tells, the status does
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
# error.type <-> kind, where a stream's error has neither code nor status
TYPES: Table[FailureKind] = Table(
    ("invalid_request_error", "bad_request"),
    ("invalid_request_error", "context_too_long"),
    ("invalid_request_error", "too_large"),
    ("invalid_request_error", "unauthenticated"),
    ("authentication_error", "unauthenticated"),
    ("insufficient_quota", "billing"),
    ("permission_error", "forbidden"),
    ("invalid_request_error", "not_found"),
    ("not_found_error", "not_found"),
    ("invalid_request_error", "conflict"),
    ("rate_limit_error", "rate_limit"),
    ("requests", "rate_limit"),
    ("tokens", "rate_limit"),
    ("server_error", "server"),
    ("overloaded_error", "overloaded"),
    other=("server_error", "server"),
)

QUIET_REQUEST = frozenset({"stream", "stream_options", "tools", "functions", "parallel_tool_calls"})
QUIET_MESSAGE = frozenset({"role", "content"})
QUIET_CALL = frozenset({"type", "index", "arguments", "extra_content"})
# What a response says about itself that no other protocol could repeat
QUIET_RESPONSE = frozenset(
    {
        "id",
        "object",
        "created",
        "model",
        "usage",
        "system_fingerprint",
        "service_tier",
        "obfuscation",
        "provider",
        "request_id",
        "time_info",
        "timings",
        "metadata",
        "prompt",
        "prompt_filter_results",
        "usage_breakdown",
        "x_groq",
        "nvext",
        "user_id",
    }
)
QUIET_CHOICE = frozenset(
    {
        "index",
        "finish_reason",
        "native_finish_reason",
        "stop_reason",
        "matched_stop",
        "seed",
        "token_ids",
        "text",
        "content_filter_results",
    }
)


def leftovers(fields: Fields, losses: Losses, quiet: frozenset[str] = NOTHING) -> Extras:
    """The extras of a message, a part or a reply, where an empty field says as little as an absent one."""
    rest = fields.rest
    if not rest or rest.keys() <= quiet:
        return {PROTOCOL_NAME: rest}
    return fields.extras(losses, quiet | {key for key, value in rest.items() if _says_nothing(value)})


def _says_nothing(value: Any) -> bool:
    return value is False or value in ("", []) or (is_object(value) and not any(value.values()))


def is_native(value: Value) -> bool:
    """Whether the value came from Chat as an object of its own."""
    return value.extras is not None and PROTOCOL_NAME in value.extras


def text_part(text: str) -> Wire:
    return {"type": "text", "text": text}
