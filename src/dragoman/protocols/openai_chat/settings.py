"""The settings of a request <-> neutral ones.

The name of a setting, and whether it is accepted, depends on the server behind the model: see ModelProfile.
"""

from __future__ import annotations

from typing import Any, get_args

from dragoman.core.fields import Fields, GivenSettings, boolean, string, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import effort_for, encode_tier, report_unsent
from dragoman.protocols.openai import TIERS, decode_schema_format, encode_user
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME

_EFFORTS = frozenset(get_args(Effort))
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {
    "max_tokens": "max_completion_tokens|max_tokens",
    "output": "response_format",
    "output.mode": "response_format.type",
    "output.name": "response_format.json_schema.name",
    "output.description": "response_format.json_schema.description",
    "output.strict": "response_format.json_schema.strict",
    "effort": "reasoning_effort|reasoning",
    "budget": "reasoning.max_tokens|reasoning",
    "show_reasoning": "include_reasoning|reasoning_format|reasoning.exclude",
    "seed": "random_seed|seed",
    "parallel": "parallel_tool_calls",
    "user": "safety_identifier|user",
    "cache_key": "prompt_cache_key",
    ".cache": ".prompt_cache_breakpoint|.cache_control",
    ".strict": ".function.strict|.strict",
    ".detail": ".image_url.detail|.detail",
    ".name": ".file.filename|.name",
    ".location": ".user_location|.parameters.user_location",
    ".context_size": ".search_context_size|.parameters.search_context_size",
    ".max_uses": ".parameters.max_uses|.max_uses",
    ".allowed_domains": ".parameters.allowed_domains|.allowed_domains",
    ".blocked_domains": ".parameters.excluded_domains|.blocked_domains",
}


def decode_settings(fields: Fields, losses: Losses) -> Settings:
    values = fields.read(_READ)
    if _RARE.isdisjoint(fields.rest):
        return Settings(**_newest(values, fields))
    effort, budget, hidden = _decode_effort(fields, losses)
    shown = _decode_shown(fields, hidden)
    if (seed := fields.integer("random_seed")) is not None:
        values.setdefault("seed", seed)
    values = _newest(values, fields)
    if (user := fields.take("safety_identifier", str)) is not None:
        if values.get("user", user) != user:
            why = f"safety_identifier was sent as the user. {values['user']!r} was left out."
            losses.dropped("user", why, "setting.user")
        values["user"] = user
    output = _decode_output(fields, losses)
    return Settings(output=output, effort=effort, budget=budget, show_reasoning=shown, **values)


_RARE = word_set(
    "reasoning_effort reasoning include_reasoning reasoning_format"
    " random_seed safety_identifier response_format"
)


def _newest(values: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """`max_completion_tokens` is the newer name."""
    most = fields.integer("max_completion_tokens")
    return values if most is None else {**values, "max_tokens": most}


def encode_settings(request: Request, tools: bool, profile: ModelProfile, losses: Losses) -> Wire:
    settings = request.settings
    effort = None
    if settings.effort is not None or settings.budget is not None or profile.tools_without_reasoning:
        effort = _encode_effort(request, tools, profile, losses)
    reasons = profile.sampling == "unless_reasoning" and profile.reasons_with(effort)
    wire: Wire = {"reasoning_effort": effort} if effort else {}
    if settings.max_tokens is not None:
        wire[profile.max_tokens_field] = settings.max_tokens
    wire |= _encode_sampling(settings, reasons, losses)
    if settings.output is not None:
        wire |= _encode_output(settings.output, losses)
    wire.update(_SAME_NAME(settings))
    if settings.user is not None:
        wire["user"] = encode_user(settings.user, losses)
    if (settings.n or 1) > 1:
        wire["n"] = settings.n
    if settings.store:
        wire["store"] = True
    if settings.service_tier is not None:
        wire |= encode_tier(settings.service_tier, TIERS, "Chat", losses)
    if settings.verbosity is not None and profile.verbosity:
        wire["verbosity"] = settings.verbosity
    if settings.cache_key is not None:
        wire["prompt_cache_key"] = settings.cache_key
    _report_unsaid(settings, profile, losses)
    return wire


def _report_unsaid(settings: Settings, profile: ModelProfile, losses: Losses) -> None:
    if settings.verbosity is not None and not profile.verbosity:
        losses.dropped("verbosity", "This model has no such setting.", "setting.verbosity")
    if settings.top_k is not None:
        losses.dropped("top_k", "Chat has no such setting.", "setting.top_k")
    if settings.show_reasoning is False:
        why = "Chat cannot hide reasoning."
        losses.dropped("show_reasoning", why, "setting.show_reasoning")
    elif settings.show_reasoning and profile.reasoning_history == "refused" and profile.reasoning:
        losses.dropped("show_reasoning", "Chat shows no summary of reasoning.", "setting.show_reasoning")


_SAME_NAME = GivenSettings("seed", "metadata")


def _decode_stop(fields: Fields, key: str) -> tuple[str, ...] | None:
    """A string or an array of strings."""
    stop = fields.any(key)
    if stop is None:
        return None
    listed: list[Any] = [stop] if isinstance(stop, str) else stop
    if type(listed) is not list or not all(isinstance(item, str) for item in listed):
        raise fields.wrong(key, "a string or an array of strings", stop)
    return tuple(listed)


# field -> its neutral name, and how it is read
_READ = {
    "max_tokens": ("max_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "top_k": ("top_k", Fields.integer),
    "frequency_penalty": ("frequency_penalty", Fields.number),
    "presence_penalty": ("presence_penalty", Fields.number),
    "seed": ("seed", Fields.integer),
    "stop": ("stop", _decode_stop),
    "n": ("n", Fields.integer),
    "verbosity": ("verbosity", string),
    "user": ("user", string),
    "metadata": ("metadata", Fields.object),
    "service_tier": ("service_tier", string),
    "logprobs": ("logprobs", boolean),
    "top_logprobs": ("top_logprobs", Fields.integer),
    "store": ("store", boolean),
    "prompt_cache_key": ("cache_key", string),
}


def _encode_sampling(settings: Settings, reasons: bool, losses: Losses) -> Wire:
    """Sampling settings and stop sequences, which models refuse while they reason."""
    wire: Wire = {}
    for name, value in _SAMPLING(settings):
        if not reasons:
            wire[name] = value
        elif value is not False and value != _DEFAULTS.get(name):
            losses.dropped(name, "The model refuses it while it reasons.", f"setting.{name}")
    if "top_logprobs" in wire and not wire.get("logprobs"):  # OpenAI answers 400 to one without the other
        if wire["top_logprobs"]:
            wire["logprobs"] = True
        else:
            del wire["top_logprobs"]
    if settings.stop and reasons:
        losses.dropped("stop", "The model refuses it while it reasons.", "setting.stop")
    elif settings.stop:
        wire["stop"] = list(settings.stop[:4])
        if len(settings.stop) > 4:
            losses.changed("stop", "Chat takes at most four.", "setting.stop")
    return wire


_SAMPLING = GivenSettings(
    "temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs"
)
_DEFAULTS = {"temperature": 1, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0}


def _decode_shown(fields: Fields, hidden: bool | None) -> bool | None:
    """`include_reasoning` (OpenRouter, vLLM), `reasoning.exclude` (OpenRouter), `reasoning_format` (Groq)."""
    shown = fields.take("include_reasoning", bool)
    format = fields.take("reasoning_format", str)
    if shown is None and format is not None:
        shown = format != "hidden"
    return (None if hidden is None else not hidden) if shown is None else shown


def _decode_effort(fields: Fields, losses: Losses) -> tuple[Effort | None, int | None, bool | None]:
    """`reasoning_effort`, or OpenRouter's `reasoning` with an effort or a budget, and its `exclude`."""
    effort, budget, hidden = fields.take("reasoning_effort", str), None, None
    wider = fields.fields("reasoning") if is_object(fields.rest.get("reasoning")) else None
    if wider is not None:
        effort, budget = effort or wider.take("effort", str), wider.integer("max_tokens")
        enabled, hidden = wider.take("enabled", bool), wider.take("exclude", bool)
        if enabled is False:
            effort = "none"
        elif enabled and effort is None and budget is None:
            effort = "medium"  # what OpenRouter documents for `enabled: true` alone
        wider.extras(losses)
    if effort is not None and effort not in _EFFORTS:
        losses.dropped("reasoning_effort", f"No other protocol has the effort {effort!r}.", "setting.effort")
        effort = None
    return effort, budget, hidden  # pyright: ignore[reportReturnType] - checked above


def _encode_effort(request: Request, tools: bool, profile: ModelProfile, losses: Losses) -> Effort | None:
    settings = request.settings
    wanted = settings.effort
    name = "budget" if wanted is None and settings.budget is not None else "effort"
    if wanted is None and settings.budget is not None and settings.budget >= 0:
        wanted = effort_for(settings.budget)
    effort = profile.nearest_effort(wanted) if wanted else None
    if settings.effort is not None and settings.budget is not None:
        report_unsent("budget", settings, losses)
    if tools and profile.tools_without_reasoning and profile.reasons_with(effort):
        losses.changed(name, f"On Chat {request.model} takes tools only with effort none.", f"setting.{name}")
        return "none"
    if wanted and effort is None and wanted != "none":
        losses.dropped(name, "This model has no such setting.", f"setting.{name}")
    elif effort and effort != wanted:
        losses.changed(name, f"The model takes no effort {wanted}. It gets {effort}.", f"setting.{name}")
    elif effort not in (None, "none") and name == "budget":
        losses.changed(name, f"Chat takes an effort and no budget. {effort} was sent.", "setting.budget")
    return effort


def _decode_output(fields: Fields, losses: Losses) -> OutputFormat | None:
    format = fields.fields("response_format")
    if format is None:
        return None
    match kind := format.need("type", str):
        case "text":
            output = OutputFormat("text")
        case "json_object":
            output = OutputFormat("json")
        case "json_schema":
            schema = format.need_fields("json_schema")
            output = decode_schema_format(schema)
            schema.extras(losses)
        case _:
            why = f"Only {PROTOCOL_NAME} understands a format of type {kind}."
            losses.dropped("response_format", why, "setting.output")
            return None
    format.extras(losses)
    return output


def _encode_output(output: OutputFormat, losses: Losses) -> Wire:
    match output:
        case OutputFormat(kind="text"):
            return {}
        case OutputFormat(kind="json"):
            return {"response_format": {"type": "json_object"}}
        case _:
            return {"response_format": {"type": "json_schema", "json_schema": _encode_schema(output, losses)}}


def _encode_schema(output: OutputFormat, losses: Losses) -> Wire:
    if not output.name:
        losses.invented("output", "Chat needs a name for the schema. It got response.", "setting.output")
    wire: Wire = {"name": output.name or "response"}
    if output.description:
        wire["description"] = output.description
    wire["schema"] = output.schema or {"type": "object"}
    if output.strict is not None:
        wire["strict"] = output.strict
    return wire
