"""`generation_config`, `response_format` and the settings beside them <-> neutral settings."""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, GivenSettings, boolean, describe, string
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Request, Settings, ToolDeclaration, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.settings import described_schema, effort_for, encode_tier, report_unsent
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME

# neutral setting -> its field in generation_config and how it is read, where the value is the same
_SAME = {
    "max_tokens": ("max_output_tokens", Fields.integer),
    "temperature": ("temperature", Fields.number),
    "top_p": ("top_p", Fields.number),
    "seed": ("seed", Fields.integer),
}
_READ = {key: (name, read) for name, (key, read) in _SAME.items()}
_BESIDE = {
    "labels": ("metadata", Fields.object),
    "service_tier": ("service_tier", string),
    "store": ("store", boolean),
}
_SUPPORTED = GivenSettings(*_SAME)
_UNSUPPORTED = GivenSettings(
    *("top_k", "frequency_penalty", "presence_penalty", "verbosity", "user", "cache_key"),
    *("logprobs", "top_logprobs"),
)
# How a client of this protocol spells a neutral setting, for the reports of losses
SPELLING = {name: f"generation_config.{key}" for name, (key, _) in _SAME.items()} | {
    "messages": "input",
    "stop": "generation_config.stop_sequences",
    "output": "response_format",
    "output.mode": "response_format.mime_type|response_mime_type",
    "effort": "generation_config.thinking_level",
    "budget": "generation_config.thinking_level",
    "show_reasoning": "generation_config.thinking_summaries",
    "metadata": "labels",
    "tool_choice": "generation_config.tool_choice",
    ".detail": ".resolution|.detail",
    ".url": ".uri|.url",
    ".allowed": ".allowed_tools",
    ".label": ".name",
}
_TIERS = {"flex": "flex", "priority": "priority", "auto": ""} | dict.fromkeys(
    ("default", "standard", "standard_only"), "standard"
)
_LEVELS: tuple[Effort, ...] = ("minimal", "low", "medium", "high")
_MODALITIES = frozenset({"image", "audio", "video"})


def decode_settings(fields: Fields, config: Fields, losses: Losses) -> Settings:
    """`config` is what is left of `generation_config` without the choice of tools."""
    stop, shown = config.list("stop_sequences"), config.take("thinking_summaries", str)
    values = {**config.read(_READ), **fields.read(_BESIDE)}
    if (tier := values.get("service_tier")) == "standard":
        values["service_tier"] = "default"
    elif tier == "deferred":
        losses.dropped("service_tier", f"Only {PROTOCOL_NAME} has this tier.", "setting.service_tier")
        del values["service_tier"]
    settings = Settings(
        stop=None if stop is None else tuple(str(item) for item in stop),
        output=_decode_output(fields, losses),
        effort=_decode_level(config, losses),
        show_reasoning=None if shown is None else shown != "none",
        **values,
    )
    config.extras(losses)
    return settings


def encode_settings(request: Request, profile: ModelProfile, losses: Losses) -> tuple[Wire, Wire]:
    """`generation_config`, and the fields beside it."""
    settings = request.settings
    config: Wire = {_SAME[name][0]: value for name, value in _SUPPORTED(settings)}
    if settings.stop:
        config["stop_sequences"] = list(settings.stop)
    config |= _encode_level(request, profile, losses)
    if settings.show_reasoning:
        config["thinking_summaries"] = "auto"
    body = _encode_output(request, profile, losses) | _encode_labels(settings.metadata, losses)
    if settings.service_tier is not None:
        body |= encode_tier(settings.service_tier, _TIERS, PROTOCOL_NAME, losses)
    if settings.store is not None or not profile.transcript:
        body["store"] = settings.store or False  # Google's default is true (G113: bifrost#2270, of OpenAI)
    for name, _ in _UNSUPPORTED(settings):
        losses.dropped(name, f"{PROTOCOL_NAME} has no such setting.", f"setting.{name}")
    if (settings.n or 1) > 1:
        losses.dropped("n", f"{PROTOCOL_NAME} gives one answer.", "setting.n")
    return config, body


def _decode_level(config: Fields, losses: Losses) -> Effort | None:
    level = config.text("thinking_level")
    for effort in _LEVELS:
        if effort == level:
            return effort
    if level:
        where, why = config.path("thinking_level"), f"Only {PROTOCOL_NAME} knows the level {level}."
        losses.dropped(where, why, "setting.effort")
    return None


def _encode_level(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    """A level. Without one the model decides, as with a budget of -1."""
    effort, budget = request.settings.effort, request.settings.budget
    if effort is None and budget is not None and budget >= 0:
        effort = effort_for(budget)
        why = f"{PROTOCOL_NAME} takes a level and no budget. {effort} was sent."
        losses.changed("budget", why, "setting.budget")
    if effort is None:
        return {}
    if request.settings.effort is not None:
        report_unsent("budget", request.settings, losses)
    nearest = profile.nearest_effort(effort, _LEVELS) if profile.efforts != () else effort
    level = nearest if nearest in _LEVELS else "minimal" if effort == "none" else "high"
    if level != effort:
        losses.changed("effort", f"The model takes no effort {effort}. It gets {level}.", "setting.effort")
    return {"thinking_level": level}


def _decode_output(fields: Fields, losses: Losses) -> OutputFormat | None:
    """One format, or one for each modality. A bare JSON Schema is the older form."""
    given, mime = fields.any("response_format"), _decode_mime(fields, "response_mime_type", losses)
    formats = given if is_array(given) else [] if given is None else [given]
    found: OutputFormat | None = None
    for i, format in enumerate(formats):
        where = f"response_format[{i}]" if is_array(given) else "response_format"
        if not is_object(format):
            raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(format)}")
        kind = format.get("type")
        if isinstance(kind, str) and kind in _MODALITIES:
            losses.dropped(where, f"Only {PROTOCOL_NAME} can answer with {kind}.", "setting.output")
        elif kind == "text":
            found = _decode_text_format(Fields(format, where, PROTOCOL_NAME), losses)
        else:
            found = OutputFormat("schema", format)
    return found or (OutputFormat("json") if mime == "application/json" else None)


def _decode_text_format(format: Fields, losses: Losses) -> OutputFormat:
    mime, schema = _decode_mime(format, "mime_type", losses), format.object("schema")
    format.extras(losses, quiet=frozenset({"type"}))
    if schema is not None:
        return OutputFormat("schema", schema)
    return OutputFormat("json" if mime == "application/json" else "text")


def _decode_mime(fields: Fields, key: str, losses: Losses) -> str:
    mime = fields.text(key)
    if mime not in ("", "application/json", "text/plain"):
        losses.dropped(fields.path(key), f"Only {PROTOCOL_NAME} can answer with {mime}.", "setting.output")
    return mime


def _encode_output(request: Request, profile: ModelProfile, losses: Losses) -> Wire:
    output = request.settings.output
    if output is None or output.kind == "text":
        return {}
    if any(isinstance(tool, ToolDeclaration) for tool in request.tools) and not profile.combined_tools:
        losses.dropped("output", "The model takes no output format beside functions.", "setting.output")
        return {}
    format: Wire = {"type": "text", "mime_type": "application/json"}
    if output.kind == "schema" and output.schema is not None:
        format["schema"] = described_schema(output, losses)
    return {"response_format": format}


def _encode_labels(metadata: dict[str, Any] | None, losses: Losses) -> Wire:
    labels: Wire = {}
    for key, value in (metadata or {}).items():
        if isinstance(value, str):
            labels[key] = value
        else:
            losses.dropped(f"metadata.{key}", f"Labels of {PROTOCOL_NAME} are strings.", "setting.metadata")
    return {"labels": labels} if labels else {}
