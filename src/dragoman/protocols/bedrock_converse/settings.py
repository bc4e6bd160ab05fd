"""Settings <-> neutral settings.

`inferenceConfig` has four. What else a model takes stands in `additionalModelRequestFields` under the model's
own names: thinking and top_k as Claude has them.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, GivenSettings
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import (
    budget_for,
    effort_for,
    encode_tier,
    fit_effort,
    fit_thinking,
    report_unsent,
)
from dragoman.protocols.bedrock_converse.tools import is_forced
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME

JSON_INSTRUCTION = "Respond with one valid JSON object and nothing else: no prose, no code fence."
_CLAUDE = re.compile(r"claude|anthropic\.", re.IGNORECASE)
_EFFORTS: dict[str, Effort] = {effort: effort for effort in get_args(Effort)}
_BUDGETS = {"adaptive": -1, "disabled": 0}
_TIERS = {
    "auto": "",
    "default": "default",
    "priority": "priority",
    "flex": "flex",
    "standard_only": "default",
}
_LEAST_BUDGET = 1024
_MOST_THINKING = 0.8  # the share of max_tokens where we choose the budget: the rest is for the answer
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {
    "max_tokens": "inferenceConfig.maxTokens",
    "temperature": "inferenceConfig.temperature",
    "top_p": "inferenceConfig.topP",
    "stop": "inferenceConfig.stopSequences",
    "top_k": "additionalModelRequestFields.top_k",
    "output": "outputConfig.textFormat",
    "effort": "outputConfig.effort",
    "budget": "additionalModelRequestFields.thinking",
    "metadata": "requestMetadata",
    "service_tier": "serviceTier.type",
    "tool_choice": "toolConfig.toolChoice",
}
_SAMPLING = GivenSettings("temperature", "top_p", "top_k")
_UNSUPPORTED = GivenSettings(
    *("frequency_penalty", "presence_penalty", "seed", "verbosity", "user"),
    *("logprobs", "top_logprobs", "cache_key", "store"),
)
_FIELDS = {"temperature": "temperature", "top_p": "topP"}


def decode_settings(fields: Fields, losses: Losses) -> Settings:
    """What is read here stands in the extras too (request.py): it goes back as it came."""
    given: dict[str, Any] = {}
    if inference := fields.fields("inferenceConfig"):
        given = {
            "max_tokens": inference.integer("maxTokens"),
            "temperature": inference.number("temperature"),
            "top_p": inference.number("topP"),
            "stop": _strings(inference.list("stopSequences")),
        }
        inference.extras(losses)
    if config := fields.fields("outputConfig"):
        given["effort"] = _EFFORTS.get(config.text("effort"))
        given["output"] = _decode_output(config.fields("textFormat"))
        config.extras(losses)
    if more := fields.fields("additionalModelRequestFields"):
        given["top_k"] = more.integer("top_k")
        given["budget"] = _decode_thinking(more.rest.pop("thinking", None))
        more.extras(losses)
    if tier := fields.fields("serviceTier"):
        given["service_tier"] = tier.take("type", str)
    if (metadata := fields.object("requestMetadata")) is not None:
        given["metadata"] = metadata
    return Settings(**{name: value for name, value in given.items() if value is not None})


def _strings(values: list[Any] | None) -> tuple[str, ...] | None:
    if values is not None and not all(isinstance(value, str) for value in values):
        raise WireError(PROTOCOL_NAME, "inferenceConfig.stopSequences", "expected an array of strings")
    return None if values is None else tuple(values)


def _decode_output(format: Fields | None) -> OutputFormat | None:
    structure = format.fields("structure") if format else None
    schema = structure.fields("jsonSchema") if structure else None
    if schema is None:
        return None
    text = schema.need("schema", str)
    value = jsontext.decode_object(text)
    if value is None:
        raise WireError(PROTOCOL_NAME, schema.path("schema"), "expected the text of a JSON object")
    return OutputFormat("schema", value, schema.text("name"), schema.text("description"))


def _decode_thinking(thinking: Any) -> int | None:
    if not is_object(thinking):
        return None
    kind, budget = thinking.get("type"), thinking.get("budget_tokens")
    return budget if type(budget) is int else _BUDGETS.get(str(kind))


def encode_settings(
    request: Request, body: Wire, lacks_thinking: bool, profile: ModelProfile, losses: Losses
) -> Wire:
    """`body` holds the tools. `lacks_thinking`: the turn that goes on does not begin with thinking."""
    settings, wire = request.settings, Wire()
    inference, more = Wire(), Wire()
    if settings.max_tokens is not None:
        inference["maxTokens"] = settings.max_tokens
    problem = _thinking_problem(is_forced(body), lacks_thinking)
    thinking, effort = _encode_thinking(request, problem, profile, losses)
    if thinking:
        more["thinking"] = thinking
        _make_room(thinking, inference, profile, losses)
    _encode_sampling(request, profile, inference, more, losses)
    if taken := [item for item in settings.stop or () if item.strip()]:
        inference["stopSequences"] = taken
    if len(taken) < len(settings.stop or ()):
        losses.dropped("stop", "Bedrock refuses blank stop sequences.", "setting.stop")
    config = ({"effort": effort} if effort else {}) | _encode_output(settings.output, losses)
    named = {"inferenceConfig": inference, "outputConfig": config, "additionalModelRequestFields": more}
    wire |= {name: value for name, value in named.items() if value}
    return wire | _encode_rest(request, losses)


def _encode_rest(request: Request, losses: Losses) -> Wire:
    settings, wire = request.settings, Wire()
    if settings.service_tier is not None:
        tier = encode_tier(settings.service_tier, _TIERS, "Bedrock", losses, "type")
        wire |= {"serviceTier": tier} if tier else {}
    if settings.metadata:
        wire["requestMetadata"] = {str(key): str(value) for key, value in settings.metadata.items()}
    for name, value in _UNSUPPORTED(settings):
        if value is not False:
            losses.dropped(name, "Bedrock has no such setting.", f"setting.{name}")
    if (settings.n or 1) > 1:
        losses.dropped("n", "Bedrock gives one answer.", "setting.n")
    if request.parallel is not None and request.tools:
        losses.dropped("parallel", "Bedrock has no such setting.", "setting.parallel")
    return wire


def _encode_output(output: OutputFormat | None, losses: Losses) -> Wire:
    if output is None or output.kind == "text":
        return {}
    if output.kind == "json":  # encode_request adds JSON_INSTRUCTION to the system text
        why = "Bedrock has no JSON mode without a schema. The prompt asks for JSON."
        losses.changed("output.mode", why, "setting.output")
        return {}
    schema: Wire = {"schema": jsontext.dumps(output.schema or {"type": "object"})}
    schema |= {
        key: word for key, word in (("name", output.name), ("description", output.description)) if word
    }
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _encode_thinking(
    request: Request, problem: str, profile: ModelProfile, losses: Losses
) -> tuple[Wire | None, str | None]:
    """Claude's `thinking`, and the effort where the model takes one. `problem`: why it may not think now."""
    settings, takes_effort = request.settings, profile.efforts != ()
    if not _is_claude(request):
        return None, _other_effort(settings, profile, losses)
    if settings.effort == "none" or settings.budget == 0:
        report_unsent("budget" if settings.effort == "none" else "effort", settings, losses)
        return {"type": "disabled"}, None
    effort, budget = fit_thinking(settings, profile, losses)
    if effort is None and settings.budget is None:
        return None, None
    if budget is None and takes_effort:
        return {"type": "adaptive"}, effort
    if budget and not takes_effort:
        report_unsent("effort", settings, losses)
    wanted = budget or budget_for(settings.effort or "medium")
    return _encode_budget(wanted, settings, problem, losses), effort if takes_effort else None


def _thinking_problem(forced: bool, lacks_thinking: bool) -> str:
    if lacks_thinking:  # Claude refuses it then, as it does at Anthropic
        return "The message that goes on does not begin with thinking of this model."
    return "The model cannot think when a tool choice is forced." if forced else ""


def _is_claude(request: Request) -> bool:
    return bool(_CLAUDE.search(request.model))


def _encode_budget(budget: int, settings: Settings, problem: str, losses: Losses) -> Wire | None:
    where, most = "budget" if settings.budget else "effort", settings.max_tokens
    is_given = budget == settings.budget  # by the client, and not by us
    if not problem and most is not None and most <= _LEAST_BUDGET:
        problem = f"max_tokens leaves no room for thinking. The least budget is {_LEAST_BUDGET}."
    if problem:
        losses.dropped(where, problem, f"setting.{where}")
        return None
    fitted = max(budget, _LEAST_BUDGET)
    if most is not None and (fitted >= most or not is_given):
        fitted = min(fitted, max(int(most * _MOST_THINKING), _LEAST_BUDGET))
    if fitted != budget and is_given:
        why = f"Claude takes {_LEAST_BUDGET} or more, and less than max_tokens. {fitted} was sent."
        losses.changed(where, why, f"setting.{where}")
    return {"type": "enabled", "budget_tokens": fitted}


def _make_room(thinking: Wire, inference: Wire, profile: ModelProfile, losses: Losses) -> None:
    """The budget must be less than maxTokens, which a client may leave out."""
    budget = thinking.get("budget_tokens")
    if budget and "maxTokens" not in inference:
        most = max(profile.default_output, budget + _LEAST_BUDGET)
        losses.invented("max_tokens", f"Thinking needs it. {most} was sent.", "setting.max_tokens")
        inference["maxTokens"] = most


def _other_effort(settings: Settings, profile: ModelProfile, losses: Losses) -> str | None:
    if settings.budget is not None and settings.effort is None:
        losses.changed("budget", "The model takes an effort and no budget.", "setting.budget")
    elif settings.budget is not None:
        report_unsent("budget", settings, losses)
    effort = settings.effort
    if effort is None and settings.budget is not None:
        effort = effort_for(settings.budget) if settings.budget >= 0 else None
    if effort is None or effort == "none":
        if effort == "none":
            losses.dropped(
                "effort" if settings.effort else "budget",
                "The model's thinking cannot be switched off.",
                "setting.effort",
            )
        return None
    return fit_effort(effort, profile, losses)


def _encode_sampling(
    request: Request, profile: ModelProfile, inference: Wire, more: Wire, losses: Losses
) -> None:
    thinks = more.get("thinking", {}).get("type") == "enabled"
    for name, value in _SAMPLING(request.settings):
        if problem := _sampling_problem(name, value, request, thinks, profile):
            losses.dropped(name, problem, f"setting.{name}")
        elif name == "top_k":
            more["top_k"] = value
        else:
            if name == "temperature" and value > 1 and _is_claude(request):
                losses.changed(name, "Claude takes at most 1.", "setting.temperature")
                value = 1
            inference[_FIELDS[name]] = value


def _sampling_problem(name: str, value: float, request: Request, thinks: bool, profile: ModelProfile) -> str:
    if name == "top_k" and not _is_claude(request):
        return "Bedrock has no such setting, and models name it differently."
    if profile.sampling == "none":
        return "The model takes no sampling settings."
    if thinks and (name == "top_k" or (name == "temperature" and value != 1)):
        return "It cannot be set while the model thinks."
    if name == "top_p" and request.settings.temperature is not None and profile.sampling == "one":
        return "The model takes temperature or top_p, not both."
    return ""
