"""Settings <-> neutral settings.

`max_tokens` is required; thinking is a budget on older models and an effort on newer ones, which
also refuse the sampling settings that older ones take.
"""

from __future__ import annotations

from typing import get_args

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, GivenSettings, describe, string
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import budget_for, described_schema, encode_tier, fit_thinking, report_unsent
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

JSON_INSTRUCTION = "Respond with one valid JSON object and nothing else: no prose, no code fence."
_EFFORTS: dict[str, Effort] = {effort: effort for effort in get_args(Effort)}
_BUDGETS = {"adaptive": -1, "disabled": 0}
_TIERS = {"auto": "auto"} | dict.fromkeys(("standard_only", "standard", "default"), "standard_only")
_LEAST_BUDGET = 1024
_MOST_THINKING = 0.8  # the share of max_tokens where we choose the budget: the rest is for the answer
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {
    "stop": "stop_sequences",
    "output": "output_config.format|output_format",
    "effort": "output_config.effort|thinking",
    "budget": "thinking.budget_tokens|thinking",
    "show_reasoning": "thinking.display|thinking",
    "user": "metadata.user_id",
    "parallel": "tool_choice.disable_parallel_tool_use",
    ".cache": ".cache_control",
    ".name": ".title|.name",
    ".allowed": ".tool_configuration.allowed_tools|.default_config.enabled",
    ".denied": ".configs",
}


def decode_settings(fields: Fields, losses: Losses) -> Settings:
    effort, output = _decode_output_config(fields, losses) if _OUTPUT & fields.rest.keys() else (None, None)
    budget, shown = _decode_thinking(fields, losses) if "thinking" in fields.rest else (None, None)
    if budget == 0 and effort is not None:
        why = f"In other protocols a model that does not think takes no effort {effort}."
        losses.dropped("output_config.effort", why, "setting.effort")
    metadata = fields.fields("metadata") if "metadata" in fields.rest else None
    user = metadata.take("user_id", str) if metadata else None
    if metadata:
        metadata.extras(losses)
    return Settings(
        output=output,
        effort="none" if budget == 0 else effort,
        budget=budget,
        show_reasoning=shown,
        user=user,
        **fields.read(_READ),
    )


_OUTPUT = frozenset({"output_config", "output_format"})


def encode_settings(
    request: Request, body: Wire, lacks_thinking: bool, profile: ModelProfile, losses: Losses
) -> Wire:
    """`body` is what is encoded already: max_tokens and tool_choice. `lacks_thinking`: the turn of the model
    that goes on does not begin with thinking."""
    settings = request.settings
    if settings.effort is None and settings.budget is None and not settings.show_reasoning:
        return _encode_beside_thinking(request, losses, profile, None, False)
    thinking, effort = _encode_thinking(request, body, lacks_thinking, profile, losses)
    _report_display(settings, thinking, losses)
    thinks = thinking is not None and thinking["type"] == "enabled"
    wire = _encode_beside_thinking(request, losses, profile, effort, thinks)
    return {"thinking": thinking, **wire} if thinking else wire


def _encode_beside_thinking(
    request: Request, losses: Losses, profile: ModelProfile, effort: str | None, thinks: bool
) -> Wire:
    settings = request.settings
    wire: Wire = {}
    config: Wire = {"effort": effort} if effort else {}
    if settings.output is not None:
        config |= _encode_output(settings.output, losses)
    if config:
        wire["output_config"] = config
    wire |= _encode_sampling(request, thinks, profile, losses)
    if settings.stop:
        wire |= _encode_stop(settings.stop, losses)
    if settings.user is not None:
        wire["metadata"] = {"user_id": settings.user}
    if settings.service_tier is not None:
        wire |= encode_tier(settings.service_tier, _TIERS, "Anthropic", losses)
    for name, value in _UNSUPPORTED(settings):
        if value is not False:
            losses.dropped(name, "Anthropic has no such setting.", f"setting.{name}")
    if (settings.n or 1) > 1:
        losses.dropped("n", "Anthropic gives one answer.", "setting.n")
    return wire


_UNSUPPORTED = GivenSettings(
    *("frequency_penalty", "presence_penalty", "seed", "verbosity", "metadata"),
    *("logprobs", "top_logprobs", "cache_key", "store"),
)


def encode_max_tokens(request: Request, profile: ModelProfile, losses: Losses) -> int:
    if request.settings.max_tokens is not None:
        return request.settings.max_tokens
    most = min(profile.default_output, profile.max_output or profile.default_output)
    losses.invented("max_tokens", f"Anthropic requires it. {most} was sent.", "setting.max_tokens")
    return most


def _decode_stop(fields: Fields, key: str) -> tuple[str, ...] | None:
    stop = fields.list(key)
    for i, item in enumerate(stop or ()):
        if not isinstance(item, str):
            raise WireError(PROTOCOL_NAME, f"{key}[{i}]", f"expected a string, got {describe(item)}")
    return None if stop is None else tuple(stop)


# field -> its neutral name, and how it is read
_READ = {
    "max_tokens": ("max_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "top_k": ("top_k", Fields.integer),
    "stop_sequences": ("stop", _decode_stop),
    "service_tier": ("service_tier", string),
}


def _encode_stop(stop: tuple[str, ...], losses: Losses) -> Wire:
    taken = [item for item in stop if item.strip()]
    if len(taken) < len(stop):
        losses.dropped("stop", "Anthropic refuses blank stop sequences.", "setting.stop")
    return {"stop_sequences": taken} if taken else {}


def _decode_output_config(fields: Fields, losses: Losses) -> tuple[Effort | None, OutputFormat | None]:
    """`output_format` is the old name of `output_config.format`."""
    config = fields.fields("output_config")
    if config is None:
        return None, _decode_output(fields.fields("output_format"), losses)
    effort = config.take("effort", str)
    if effort is not None and effort not in _EFFORTS:
        why = f"Only {PROTOCOL_NAME} understands the effort {effort!r}."
        losses.dropped("output_config.effort", why, "setting.effort")
    output = _decode_output(config.fields("format"), losses)
    config.extras(losses)
    return _EFFORTS.get(effort or ""), output or _decode_output(fields.fields("output_format"), losses)


def _decode_output(format: Fields | None, losses: Losses) -> OutputFormat | None:
    if format is None:
        return None
    schema = format.object("schema") if format.rest.get("type") == "json_schema" else None
    format.extras(losses, quiet=frozenset({"type"} if schema is not None else ()))
    return None if schema is None else OutputFormat("schema", schema)


def _encode_output(output: OutputFormat, losses: Losses) -> Wire:
    if output.kind == "text":
        return {}
    if output.kind == "json":  # encode_request adds JSON_INSTRUCTION to the system text
        why = "Anthropic has no JSON mode without a schema. The prompt asks for JSON."
        losses.changed("output.mode", why, "setting.output")
        return {}
    return {"format": {"type": "json_schema", "schema": described_schema(output, losses)}}


def _decode_thinking(fields: Fields, losses: Losses) -> tuple[int | None, bool | None]:
    """Budget in tokens (0: off, -1: the model decides), and whether the text is shown."""
    thinking = fields.fields("thinking")
    if thinking is None:
        return None, None
    kind, display = thinking.need("type", str), thinking.take("display", str)
    budget = thinking.integer("budget_tokens") if kind == "enabled" else _BUDGETS.get(kind)
    if kind == "enabled" and budget is None:
        budget = -1
    if budget is None:
        why = f"Only {PROTOCOL_NAME} understands thinking {kind!r}."
        losses.dropped("thinking.type", why, "setting.effort")
    thinking.extras(losses)
    return budget, None if budget in (0, None) else display != "omitted"


def _encode_thinking(
    request: Request, body: Wire, lacks_thinking: bool, profile: ModelProfile, losses: Losses
) -> tuple[Wire | None, str | None]:
    """`thinking`, and the effort where the model takes one."""
    settings, takes_effort = request.settings, profile.efforts != ()
    if settings.effort == "none" or settings.budget == 0:
        report_unsent("budget" if settings.effort == "none" else "effort", settings, losses)
        return {"type": "disabled"}, None
    effort, budget = fit_thinking(settings, profile, losses)
    if budget and not takes_effort:
        report_unsent("effort", settings, losses)
    if effort is None and settings.budget is None:
        return None, None
    taken = effort if takes_effort else None
    if budget is None and takes_effort:
        return {"type": "adaptive", **_encode_display(settings.show_reasoning, profile)}, taken
    budget = budget or budget_for(settings.effort or "medium")
    return _encode_budget(budget, settings, body, lacks_thinking, losses), taken


def _encode_budget(
    budget: int, settings: Settings, body: Wire, lacks_thinking: bool, losses: Losses
) -> Wire | None:
    where = "budget" if settings.budget else "effort"
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        losses.dropped(where, "The model cannot think when a tool choice is forced.", f"setting.{where}")
        return None
    # Anthropic: "Expected `thinking` or `redacted_thinking`, but found `tool_use`". A client dropped it, or
    # it was that of another model
    if lacks_thinking:
        why = "The message that goes on does not begin with thinking of this model."
        losses.dropped(where, why, f"setting.{where}")
        return None
    if "max_tokens" not in body:  # a transcript needs none
        return {"type": "enabled", "budget_tokens": budget}
    most, fitted = body["max_tokens"], max(budget, _LEAST_BUDGET)
    if most <= _LEAST_BUDGET:
        why = f"max_tokens leaves no room for thinking. The least budget is {_LEAST_BUDGET}."
        losses.dropped(where, why, f"setting.{where}")
        return None
    if fitted >= most or not settings.budget:
        fitted = min(fitted, max(int(most * _MOST_THINKING), _LEAST_BUDGET))
    if fitted != budget and settings.budget:
        why = f"Anthropic takes {_LEAST_BUDGET} or more, and less than max_tokens. {fitted} was sent."
        losses.changed(where, why, f"setting.{where}")
    return {"type": "enabled", "budget_tokens": fitted}


def _report_display(settings: Settings, thinking: Wire | None, losses: Losses) -> None:
    """Of a client that wants its model's reasoning shown, or hidden."""
    shown, why = settings.show_reasoning, ""
    if shown and thinking is None and settings.effort is None and settings.budget is None:
        why = "Without an effort or a budget the model does not think."
    elif shown is False and thinking and thinking["type"] != "disabled" and "display" not in thinking:
        why = "The model always shows its thinking."
    if why:
        losses.dropped("show_reasoning", why, "setting.show_reasoning")


def _encode_display(shown: bool | None, profile: ModelProfile) -> Wire:
    """Newer models omit the text of their thinking unless `display` asks for it."""
    known = shown is not None and profile.thinking_display
    return {"display": "summarized" if shown else "omitted"} if known else {}


def _encode_sampling(request: Request, thinking: bool, profile: ModelProfile, losses: Losses) -> Wire:
    wire: Wire = {}
    for name, value in _SAMPLING(request.settings):
        if problem := _sampling_problem(name, value, request, thinking, profile):
            losses.dropped(name, problem, f"setting.{name}")
        elif name == "temperature" and value > 1:
            losses.changed(name, "Anthropic takes at most 1.", "setting.temperature")
            wire[name] = 1
        else:
            wire[name] = value
    return wire


_SAMPLING = GivenSettings("temperature", "top_p", "top_k")


def _sampling_problem(
    name: str, value: float, request: Request, thinking: bool, profile: ModelProfile
) -> str:
    if profile.sampling == "none":
        return "The model takes no sampling settings."
    if thinking and (name == "top_k" or (name == "temperature" and value != 1)):
        return "It cannot be set while the model thinks."
    beside = name == "top_p" and request.settings.temperature is not None
    if beside and not thinking and profile.sampling == "one":
        return "The model takes temperature or top_p, not both."
    return ""
