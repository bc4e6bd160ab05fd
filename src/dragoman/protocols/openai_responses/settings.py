"""Settings of a request <-> neutral ones.

The API has no stop, seed, penalty, top_k or n, and models that reason refuse sampling settings.
"""

from __future__ import annotations

from typing import Any, get_args

from dragoman.core.fields import Fields, GivenSettings, boolean, string
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import effort_for, encode_tier, report_unsent
from dragoman.protocols.openai import TIERS, decode_schema_format, encode_user
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

_EFFORTS = frozenset(get_args(Effort))
_TIERS = {**TIERS, "ultrafast": "ultrafast"}
_ENCRYPTED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
_ABSENT = GivenSettings("top_k", "frequency_penalty", "presence_penalty", "seed", "stop")
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "output": "text.format",
    "output.mode": "text.format.type",
    "output.name": "text.format.name",
    "output.description": "text.format.description",
    "output.strict": "text.format.strict",
    "effort": "reasoning.effort",
    "show_reasoning": "reasoning.summary",
    "verbosity": "text.verbosity",
    "logprobs": "include",
    "user": "safety_identifier|user",
    "cache_key": "prompt_cache_key",
    ".cache": ".prompt_cache_breakpoint",
    "parallel": "parallel_tool_calls",
    ".name": ".filename|.name",
    ".allowed": ".allowed_tools.tool_names|.allowed_tools",
    ".filter": ".allowed_tools",
    ".approval": ".require_approval",
    ".url": ".server_url|.url",
    ".label": ".server_label|.label",
    ".allowed_domains": ".filters.allowed_domains|.allowed_domains",
    ".blocked_domains": ".filters.blocked_domains|.blocked_domains",
    ".location": ".user_location|.location",
    ".context_size": ".search_context_size|.context_size",
}


def decode_settings(fields: Fields, losses: Losses) -> Settings:
    rest = fields.rest
    effort, shown = _decode_reasoning(fields, losses) if "reasoning" in rest else (None, None)
    output, verbosity = _decode_text(fields, losses) if "text" in rest else (None, None)
    values = fields.read(_READ)
    if user := fields.take("safety_identifier", str):
        values["user"] = user
    return Settings(
        output=output,
        effort=effort,
        show_reasoning=shown,
        verbosity=verbosity,
        logprobs=_decode_include(fields, losses) if "include" in rest else None,
        **values,
    )


# field -> its neutral name, and how it is read
_READ = {
    "max_output_tokens": ("max_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "user": ("user", string),
    "metadata": ("metadata", Fields.object),
    "service_tier": ("service_tier", string),
    "top_logprobs": ("top_logprobs", Fields.integer),
    "store": ("store", boolean),
    "prompt_cache_key": ("cache_key", string),
}


def encode_settings(request: Request, tools: bool, profile: ModelProfile, losses: Losses) -> Wire:
    settings = request.settings
    wire: Wire = {}
    if settings.max_tokens is not None:
        wire["max_output_tokens"] = settings.max_tokens
    reasoning = _encode_reasoning(request, profile, losses)
    if reasoning:
        wire["reasoning"] = reasoning
    wire |= _encode_sampling(request, reasoning.get("effort"), profile, losses)
    text = _encode_output(settings.output) | ({"verbosity": settings.verbosity} if settings.verbosity else {})
    if text:
        wire["text"] = text
    if settings.user is not None:
        wire["safety_identifier"] = encode_user(settings.user, losses)
    if settings.metadata:
        wire["metadata"] = _encode_metadata(settings.metadata, losses)
    if settings.service_tier is not None:
        wire |= encode_tier(settings.service_tier.lower(), _TIERS, PROTOCOL_NAME, losses)
    if settings.cache_key is not None:
        wire["prompt_cache_key"] = settings.cache_key
    if tools and request.parallel is not None:
        wire["parallel_tool_calls"] = request.parallel
    if settings.store is not None or not profile.transcript:
        wire["store"] = settings.store or False  # the API's default is true (G113: bifrost#2270)
    wire |= _encode_include(request, profile)
    for name, _ in _ABSENT(settings):
        losses.dropped(name, f"{PROTOCOL_NAME} has no such setting.", f"setting.{name}")
    if (settings.n or 1) > 1:
        losses.dropped("n", f"{PROTOCOL_NAME} gives one answer.", "setting.n")
    return wire


def _decode_reasoning(fields: Fields, losses: Losses) -> tuple[Effort | None, bool | None]:
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None, None
    effort = reasoning.take("effort", str)
    shown = reasoning.take("summary", str) or reasoning.take("generate_summary", str)
    if effort is not None and effort not in _EFFORTS:
        losses.dropped(
            f"reasoning.effort {effort}", f"Only {PROTOCOL_NAME} has this effort.", "setting.effort"
        )
        effort = None
    reasoning.extras(losses)
    return effort, True if shown else None  # pyright: ignore[reportReturnType] - checked above


def _encode_reasoning(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    settings = request.settings
    effort = settings.effort
    if effort is None and settings.budget is not None and settings.budget >= 0:
        effort = effort_for(settings.budget)
        if effort != "none":
            why = f"{PROTOCOL_NAME} takes an effort and no budget. {effort} was sent."
            losses.changed("budget", why, "setting.budget")
    if settings.effort is not None and settings.budget is not None:
        report_unsent("budget", settings, losses)
    if profile.reasoning is False:
        if effort not in (None, "none"):
            losses.dropped("effort", "The model does not reason.", "setting.effort")
        return {}
    wire: Wire = {}
    if effort is not None and (nearest := profile.nearest_effort(effort)):
        wire["effort"] = nearest
        if nearest != effort:
            losses.changed(
                "effort", f"The model takes no effort {effort}. It gets {nearest}.", "setting.effort"
            )
    elif effort not in (None, "none"):
        losses.dropped("effort", "The model takes no effort.", "setting.effort")
    if settings.show_reasoning and effort != "none":
        wire["summary"] = "auto"
    return wire


def _encode_sampling(request: Request, effort: Effort | None, profile: ModelProfile, losses: Losses) -> Wire:
    refused = profile.sampling == "unless_reasoning" and profile.reasons_with(effort)
    wire: Wire = {}
    for name, value in _SAMPLING(request.settings):
        if refused:
            losses.dropped(name, "A model that reasons takes no sampling settings.", f"setting.{name}")
        else:
            wire[name] = value
    return wire


_SAMPLING = GivenSettings("temperature", "top_p", "top_logprobs")


def _decode_text(fields: Fields, losses: Losses) -> tuple[OutputFormat | None, str | None]:
    text = fields.fields("text")
    if text is None:
        return None, None
    format, verbosity = text.fields("format"), text.take("verbosity", str)
    text.extras(losses)
    return (_decode_output(format, losses) if format else None), verbosity


def _decode_output(format: Fields, losses: Losses) -> OutputFormat | None:
    match kind := format.need("type", str):
        case "json_schema":
            output = decode_schema_format(format)
        case "json_object":
            output = OutputFormat("json")
        case "text":
            output = OutputFormat("text")
        case _:
            losses.dropped(f"text.format {kind}", f"Only {PROTOCOL_NAME} has this format.", "setting.output")
            return None
    format.extras(losses)
    return output


def _encode_output(output: OutputFormat | None) -> Wire:
    match output:
        case OutputFormat(kind="schema"):
            schema = output.schema or {"type": "object", "properties": {}}
            format: Wire = {"type": "json_schema", "name": output.name or "response", "schema": schema}
            if output.description:
                format["description"] = output.description
            return {"format": {**format, "strict": output.strict or False}}
        case OutputFormat(kind="json"):
            return {"format": {"type": "json_object"}}
        case _:
            return {}


def _encode_metadata(metadata: dict[str, Any], losses: Losses) -> dict[str, str]:
    if not all(isinstance(value, str) for value in metadata.values()):
        losses.changed("metadata", f"{PROTOCOL_NAME} takes texts only.", "setting.metadata")
    return {key: value if isinstance(value, str) else str(value) for key, value in metadata.items()}


def _decode_include(fields: Fields, losses: Losses) -> bool | None:
    """Encrypted reasoning is always carried; logprobs are a setting; other entries only this protocol has."""
    include = fields.list("include") or []
    for item in include:
        if item not in (_ENCRYPTED, _LOGPROBS):
            losses.dropped(f"include {item}", f"Only {PROTOCOL_NAME} has this item.", "setting.include")
    return True if _LOGPROBS in include else None


def _encode_include(request: Request, profile: ModelProfile) -> Wire:
    include: list[str] = []
    if profile.reasoning is not False and not profile.transcript:
        include.append(_ENCRYPTED)
    if request.settings.logprobs:
        include.append(_LOGPROBS)
    return {"include": include} if include else {}
