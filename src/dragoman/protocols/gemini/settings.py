"""`generationConfig` and the settings beside it <-> neutral settings."""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import Fields, GivenSettings, boolean, word_set
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, ToolDeclaration, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import budget_for, described_schema, effort_for, encode_tier, report_unsent
from dragoman.protocols.gemini.tools import decode_schema, json_schema
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, inner, opened

# neutral setting -> generationConfig key and how it is read, where the value is the same
_SAME = {
    "max_tokens": ("maxOutputTokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("topP", Fields.number),
    "top_k": ("topK", Fields.integer),
    "frequency_penalty": ("frequencyPenalty", Fields.number),
    "presence_penalty": ("presencePenalty", Fields.number),
    "seed": ("seed", Fields.integer),
    "n": ("candidateCount", Fields.integer),
    "logprobs": ("responseLogprobs", boolean),
    "top_logprobs": ("logprobs", Fields.integer),
}
_READ = {key: (name, read) for name, (key, read) in _SAME.items()}
_SUPPORTED, _UNSUPPORTED = GivenSettings(*_SAME), GivenSettings("verbosity", "user", "cache_key")
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {name: f"generationConfig.{key}" for name, (key, _) in _SAME.items()} | {
    "stop": "generationConfig.stopSequences",
    "output": "generationConfig.responseJsonSchema",
    "output.mode": "generationConfig.responseMimeType",
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
    "budget": "generationConfig.thinkingConfig.thinkingBudget",
    "show_reasoning": "generationConfig.thinkingConfig.includeThoughts",
    "metadata": "labels",
    "service_tier": "serviceTier",
    "tool_choice": "toolConfig.functionCallingConfig",
    "messages": "contents",
    ".detail": ".mediaResolution|.detail",
    ".blocked_domains": ".excludeDomains",
}
_TIERS = {"standard": "default", "unspecified": "auto"}
_WRITTEN_TIERS = {"flex": "flex", "priority": "priority", "auto": ""} | dict.fromkeys(
    ("default", "standard", "standard_only"), "standard"
)
_MOST_STOPS = 5


def decode_settings(fields: Fields, losses: Losses) -> Settings:
    config = inner(fields, "generationConfig") or opened({}, "generationConfig")
    if config.rest.get("responseModalities") in (["TEXT"], ["text"]):
        del config.rest["responseModalities"]
    thinks = "thinkingConfig" in config.rest
    effort, budget, shown = _decode_thinking(config, losses) if thinks else (None, None, None)
    stop = config.list("stopSequences")
    labels, tier = fields.object("labels"), fields.text("serviceTier").lower()
    settings = Settings(
        stop=None if stop is None else tuple(str(item) for item in stop),
        output=None if _OUTPUT.isdisjoint(config.rest) else _decode_output(config, losses),
        effort=effort,
        budget=budget,
        show_reasoning=shown,
        metadata=labels,
        service_tier=_TIERS.get(tier, tier) or None,
        store=fields.take("store", bool),
        **config.read(_READ),
    )
    config.extras(losses)
    return settings


_OUTPUT = word_set("responseMimeType responseJsonSchema responseSchema")


def encode_settings(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """`generationConfig` and the settings beside it."""
    settings = request.settings
    config: Wire = {_SAME[name][0]: value for name, value in _SUPPORTED(settings)}
    if settings.stop:
        config["stopSequences"] = list(settings.stop[:_MOST_STOPS])
        if len(settings.stop) > _MOST_STOPS:
            losses.dropped("stop", f"Gemini takes at most {_MOST_STOPS} stop sequences.", "setting.stop")
    if settings.output is not None:
        config |= _encode_output(request, settings.output, profile, losses)
    asked = settings.effort is not None or settings.budget is not None or settings.show_reasoning
    if asked and (thinking := _encode_thinking(request, profile, losses)):
        config["thinkingConfig"] = thinking
    body: Wire = {"generationConfig": config} if config else {}
    if settings.metadata:
        body |= _encode_labels(settings.metadata, losses)
    if settings.service_tier is not None:
        body |= encode_tier(settings.service_tier, _WRITTEN_TIERS, "Gemini", losses, "serviceTier")
    if settings.store:
        body["store"] = True
    for name, _ in _UNSUPPORTED(settings):
        losses.dropped(name, "Gemini has no such setting.", f"setting.{name}")
    return body


def _decode_thinking(config: Fields, losses: Losses) -> tuple[Effort | None, int | None, bool | None]:
    thinking = inner(config, "thinkingConfig")
    if thinking is None:
        return None, None, None
    level, budget = thinking.text("thinkingLevel").upper(), thinking.integer("thinkingBudget")
    shown = thinking.take("includeThoughts", bool)
    thinking.extras(losses)
    effort = _EFFORTS.get(level)
    if level and (effort is None or budget == 0) and level != "THINKING_LEVEL_UNSPECIFIED":
        why = (
            "It was sent as a budget of 0 tokens."
            if effort
            else f"Only {PROTOCOL_NAME} knows the level {level}."
        )
        losses.dropped(thinking.path("thinkingLevel"), why, "setting.effort")
    return "none" if budget == 0 else effort, budget, shown


_EFFORTS: dict[str, Effort] = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
_LEVELS: dict[Effort, str] = {effort: level for level, effort in _EFFORTS.items()}


def _encode_thinking(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """A level where the model takes efforts, else a budget in tokens; some models do not think."""
    settings = request.settings
    if profile.efforts is None or profile.efforts:
        wire = _encode_level(request, profile, losses)
    elif profile.budget is not False:
        wire = _encode_budget(request, profile, losses)
    else:
        for name, value in (("effort", settings.effort), ("budget", settings.budget)):
            if value not in (None, "none", 0):
                losses.dropped(name, "The model does not think.", f"setting.{name}")
        return {}
    return wire | {"includeThoughts": True} if settings.show_reasoning else wire


def _encode_level(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """Gemini 3: a level. Without one the model decides, as with a budget of -1."""
    effort, budget = request.settings.effort, request.settings.budget
    if effort is None and budget is not None and budget >= 0:
        effort = effort_for(budget)
        why = f"The model takes a level and no budget. It gets {effort} for {budget} tokens."
        losses.changed("budget", why, "setting.budget")
    if effort is None:
        return {}
    report_unsent("budget", request.settings, losses)
    level = _LEVELS.get(profile.nearest_effort(effort, tuple(_LEVELS)) or effort, "HIGH")
    if level != _LEVELS.get(effort):
        why = f"The model takes no effort {effort}. It gets {level}."
        losses.changed("effort", why, "setting.effort")
    return {"thinkingLevel": level}


def _encode_budget(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """Gemini 2.5: a budget in tokens."""
    effort, budget = request.settings.effort, request.settings.budget
    if budget in (None, -1) and effort is not None:
        budget = budget_for(effort)
    if budget is None:
        return {}
    report_unsent("effort", request.settings, losses)
    least, most = profile.budget_range
    tokens = budget if budget < 0 else min(max(budget, least), most)
    if tokens != budget:
        why = f"The model takes {least} to {most} tokens of thinking, not {budget}."
        losses.changed("budget", why, "setting.budget")
    return {"thinkingBudget": tokens}


def _decode_output(config: Fields, losses: Losses) -> OutputFormat | None:
    kind = config.text("responseMimeType")
    key = "responseJsonSchema" if "responseJsonSchema" in config.rest else "responseSchema"
    schema = _decode_output_schema(config)
    if schema is not None and kind in ("application/json", ""):  # without a type the schema says it
        return OutputFormat("schema", schema)
    match kind:
        case "application/json":
            return OutputFormat("json")
        case "text/plain":
            if schema is not None:
                losses.dropped(config.path(key), "Plain text has no schema.", "setting.output")
            return OutputFormat("text")
        case "":
            return None
        case _:
            why = f"Only {PROTOCOL_NAME} can answer in {kind}."
            losses.dropped("generationConfig.responseMimeType", why, "setting.output")
            return None


def _decode_output_schema(config: Fields) -> Wire | None:
    path = config.path("responseJsonSchema")
    if (schema := config.object("responseJsonSchema")) is not None:
        return json_schema(schema, path)
    schema = config.object("responseSchema")
    return None if schema is None else decode_schema(schema, config.path("responseSchema"))


def _encode_output(request: Request, output: OutputFormat, profile: ModelProfile, losses: Losses) -> Wire:
    if output.kind == "text":
        return {}
    if any(isinstance(tool, ToolDeclaration) for tool in request.tools) and not profile.combined_tools:
        losses.dropped("output", "The model takes no output format beside functions.", "setting.output")
        return {}
    wire: Wire = {"responseMimeType": "application/json"}
    if output.kind == "schema" and output.schema is not None:
        wire["responseJsonSchema"] = described_schema(output, losses)
    return wire


def _encode_labels(metadata: dict[str, Any], losses: Losses) -> Wire:
    labels: Wire = {}
    for key, value in metadata.items():
        if isinstance(value, str):
            labels[key] = value
        else:
            losses.dropped(f"metadata.{key}", "Gemini's labels are strings.", "setting.metadata")
    return {"labels": labels} if labels else {}


def config_as_body(config: Any) -> tuple[Wire, Wire, Wire]:
    """Fields of the JavaScript SDK's `config` that go into the body, into `generationConfig`, and neither."""
    fields = opened(config, "config")
    body = {key: fields.rest.pop(key) for key in tuple(fields.rest) if key in _BODY_KEYS}
    generation = {key: fields.rest.pop(key) for key in tuple(fields.rest) if key in _GENERATION_KEYS}
    return body, generation, fields.rest


_BODY_KEYS = word_set("systemInstruction tools toolConfig safetySettings cachedContent labels serviceTier")
_GENERATION_KEYS = {
    *_READ,
    *("stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"),
    *("mediaResolution", "speechConfig", "imageConfig", "thinkingConfig"),
}
