"""What OpenAI's two APIs, Chat and Responses, share; most compatible servers follow it too."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from dragoman.core.failures import with_opening
from dragoman.core.fields import Fields, word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, FailureKind, OutputFormat, Wire
from dragoman.core.schema_rules import SchemaRules, StrictRules
from dragoman.serving.server import ListedModel, RateLimitStatus

OPENAI_SCHEMAS = SchemaRules(
    vendor="OpenAI",
    plain_root=True,
    explicit=True,
    strict=StrictRules(
        keywords=word_set(
            "$defs $ref type title description enum const anyOf items prefixItems properties required "
            "multipleOf minimum maximum exclusiveMinimum exclusiveMaximum maxItems"
        ),
        formats=word_set("date-time time date duration email hostname ipv4 ipv6 uuid"),
        all_required=True,
    ),
)

FILTER_FIELDS = word_set("content_filter_results prompt_filter_results content_filters")


def is_alarm(found: Any) -> bool:
    """Whether a filter of Azure has found something, such as `jailbreak: {"detected": true}`."""
    inner = found.values() if is_object(found) else found if is_array(found) else ()
    return found is True or any(map(is_alarm, inner))


def without_alarms(quiet: frozenset[str], wire: Wire) -> frozenset[str]:
    """Of the fields that say nothing to others, those that do not in this object."""
    if FILTER_FIELDS.isdisjoint(wire):
        return quiet
    return quiet - {key for key in FILTER_FIELDS if is_alarm(wire.get(key))}


# error.type <-> kind, where there is neither a code nor a status
ERROR_TYPES: tuple[tuple[str, FailureKind], ...] = (
    ("invalid_request_error", "bad_request"),
    ("invalid_request_error", "context_too_long"),
    ("invalid_request_error", "too_large"),
    ("invalid_request_error", "unauthenticated"),
    ("invalid_request_error", "not_found"),
    ("invalid_request_error", "conflict"),
    ("authentication_error", "unauthenticated"),
    ("insufficient_quota", "billing"),
    ("permission_error", "forbidden"),
    ("not_found_error", "not_found"),
    ("rate_limit_error", "rate_limit"),
    ("requests", "rate_limit"),
    ("tokens", "rate_limit"),
    ("server_error", "server"),
)
_DATE = re.compile(r"_\d{4}_\d\d_\d\d$")
_TOO_LONG = re.compile("context (?:window|length)", re.IGNORECASE)
TIERS = {tier: tier for tier in ("auto", "default", "flex", "scale", "priority", "fast")} | {
    "standard": "default",
    "standard_only": "default",
}
_LONGEST_USER = 64


_CHOICE = word_set("type name function custom allowed_tools mode tools")
_FUNCTIONS = (None, "function", "custom")


def report_choice(choice: Wire, where: str, protocol: str, losses: Losses) -> None:
    """Fields of a tool choice, and of the functions that it names, which nobody reads."""
    for key, value in choice.items():
        if key not in _CHOICE:
            if value is not None:
                losses.dropped(f"{where}.{key}", f"Only {protocol} has this.", "field.unknown")
        elif is_object(value):
            report_choice(value, f"{where}.{key}", protocol, losses)
        for i, tool in enumerate(value if key == "tools" and is_array(value) else ()):
            if is_object(tool) and tool.get("type") in _FUNCTIONS:
                report_choice(tool, f"{where}.{key}[{i}]", protocol, losses)


def undated(kind: str) -> str:
    """The type of a hosted tool without the date of its version (web_search_2025_08_26)."""
    return _DATE.sub("", kind)


def error_message(failure: Failure) -> str:
    """Many agents recognise a conversation that is too long by these words only."""
    if failure.kind != "context_too_long":
        return failure.message
    return with_opening(failure.message, "Your input exceeds the context window of this model", _TOO_LONG)


def encode_user(user: str, losses: Losses) -> str:
    """OpenAI answers 400 to more than 64 characters; Claude Code's user_id has about 150."""
    if len(user) <= _LONGEST_USER:
        return user
    losses.changed("user", f"It has more than {_LONGEST_USER} characters. Its hash was sent.", "setting.user")
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def decode_schema_format(format: Fields) -> OutputFormat:
    strict = format.take("strict", bool)
    return OutputFormat(
        "schema", format.object("schema"), format.text("name"), format.text("description"), strict
    )


def lifetime(mark: Any) -> str:
    """Of a cache breakpoint, as Part.cache says it; OpenAI has 30m and 12h, OpenRouter 5m and 1h."""
    if not is_object(mark):
        return ""
    return "1h" if mark.get("ttl") in ("1h", "12h") else "5m"


def encode_lifetime(cache: str) -> Wire:
    """Without `ttl` it is that of the request, 30m."""
    return {"prompt_cache_breakpoint": {"mode": "explicit"} | ({"ttl": "12h"} if cache == "1h" else {})}


def encode_models(models: tuple[ListedModel, ...]) -> Wire:
    """There is no `models` for Codex here: an entry of its catalogue must hold `base_instructions`, which
    replace Codex's own prompt. `dragoman run codex` sets `model_context_window` instead."""
    return {"object": "list", "data": [encode_model(model) for model in models]}


def encode_model(model: ListedModel) -> Wire:
    """OpenAI's four fields, and the sizes and capabilities under the names that agents look for."""
    wire: Wire = {"id": model.name, "object": "model", "created": 0, "owned_by": "dragoman"}
    profile = model.profile
    if window := profile.context_window:  # OpenRouter's, Groq's and vLLM's name for it
        wire |= {"context_length": window, "context_window": window, "max_model_len": window}
    if profile.max_output:
        wire["max_completion_tokens"] = profile.max_output
    if window or profile.max_output:  # OpenRouter, from here on
        wire["top_provider"] = {"context_length": window, "max_completion_tokens": profile.max_output}
    if profile.images is not None:
        wire["architecture"] = {"input_modalities": model.modalities, "output_modalities": ["text"]}
    if profile.reasoning:
        wire["reasoning"] = {
            "supported_efforts": None if profile.efforts is None else list(profile.efforts),
            "default_effort": profile.default_effort,
        }
    return wire


def rate_limit_headers(quota: RateLimitStatus) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset:.3f}s",
    }
