"""Gemini: its name, its words beside ours, and the fields that mean nothing elsewhere."""

from __future__ import annotations

from typing import Final, Literal

from dragoman.core.model import FailureKind, HostedKind, StopReason
from dragoman.core.table import Table

PROTOCOL_NAME: Final = "gemini"

# There is no finish reason for tool calls: a call in the content is the only sign.
STOP: Table[StopReason] = Table(
    ("STOP", "end"),
    ("STOP", "tool_calls"),
    ("STOP", "stop_sequence"),
    ("MAX_TOKENS", "length"),
    ("MAX_TOKENS", "context_full"),
    ("SAFETY", "content_filter"),
    ("SAFETY", "refusal"),
    ("RECITATION", "content_filter"),
    ("LANGUAGE", "content_filter"),
    ("BLOCKLIST", "content_filter"),
    ("PROHIBITED_CONTENT", "content_filter"),
    ("SPII", "content_filter"),
    ("IMAGE_SAFETY", "content_filter"),
    ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
    ("IMAGE_RECITATION", "content_filter"),
    ("MODEL_ARMOR", "content_filter"),
    ("JAILBREAK", "content_filter"),
    ("MALFORMED_FUNCTION_CALL", "malformed_call"),
    ("UNEXPECTED_TOOL_CALL", "malformed_call"),
    ("TOO_MANY_TOOL_CALLS", "malformed_call"),
    ("MALFORMED_RESPONSE", "malformed_call"),
    ("CONTINUATION", "pause"),
    other=("OTHER", "other"),
)

# error.status -> kind; the HTTP status that goes with it stands in core.failures
ERRORS: Table[FailureKind] = Table(
    ("INVALID_ARGUMENT", "bad_request"),
    ("INVALID_ARGUMENT", "context_too_long"),
    ("INVALID_ARGUMENT", "too_large"),
    ("FAILED_PRECONDITION", "bad_request"),
    ("OUT_OF_RANGE", "bad_request"),
    ("UNIMPLEMENTED", "bad_request"),
    ("UNAUTHENTICATED", "unauthenticated"),
    ("PERMISSION_DENIED", "forbidden"),
    ("NOT_FOUND", "not_found"),
    ("ABORTED", "conflict"),
    ("ALREADY_EXISTS", "conflict"),
    ("RESOURCE_EXHAUSTED", "rate_limit"),
    ("RESOURCE_EXHAUSTED", "billing"),
    ("DEADLINE_EXCEEDED", "timeout"),
    ("CANCELLED", "timeout"),
    ("UNAVAILABLE", "overloaded"),
    ("INTERNAL", "server"),
    ("INTERNAL", "truncated"),
    other=("INTERNAL", "server"),
)

MODES: Table[Literal["auto", "none", "required"]] = Table(
    ("AUTO", "auto"), ("NONE", "none"), ("ANY", "required"), other=("AUTO", "auto")
)

# tools[] key -> kind; the first key of a kind is the one that we write
HOSTED: dict[str, HostedKind] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "enterpriseWebSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
    "googleMaps": "maps",
    "fileSearch": "file_search",
    "computerUse": "computer",
    "retrieval": "file_search",
    "parallelAiSearch": "web_search",
    "exaAiSearch": "web_search",
}

# The documented way to replay a call that Gemini did not make; letters and _ are base64 too
SENTINEL = "skip_thought_signature_validator"

CUT_CALL = "the reply was cut inside it, and an incomplete call must not run"

# What a response says about itself that no other protocol could repeat
QUIET_RESPONSE = frozenset({"usageMetadata", "promptFeedback", "createTime", "modelStatus"})
QUIET_CANDIDATE = frozenset(
    {"index", "avgLogprobs", "safetyRatings", "tokenCount", "finishMessage", "groundingMetadata"}
)
QUIET_CONTENT = frozenset({"role", "parts"})
QUIET_PART = frozenset({"thought", "thoughtSignature"})
