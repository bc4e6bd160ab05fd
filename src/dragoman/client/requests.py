"""A conversation, tools and settings -> the neutral request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

from dragoman.client.messages import Prompt, messages_of, neutral
from dragoman.client.output import OutputMode
from dragoman.client.tools import AnyTool, Tool, tools_of
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Strictness
from dragoman.core.model import Effort, OutputFormat, Request, Settings, Text, ToolChoice, Wire
from dragoman.core.transport import Timeouts

OTHER_NAMES = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "effort",
    "thinking_budget": "budget",
    "stop_sequences": "stop",
    "response_format": "output",
}


class RequestSettings(TypedDict, total=False):
    """Every setting of a request, as keywords of `generate`, `stream` and `run`; None means not set."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    n: int | None
    effort: Effort | None
    budget: int | None  # thinking tokens; 0: off, -1: as the model likes
    show_reasoning: bool | None
    verbosity: str | None
    user: str | None
    metadata: dict[str, Any] | None
    service_tier: str | None
    logprobs: bool | None
    top_logprobs: int | None
    store: bool | None
    cache_key: str | None
    # beside the neutral settings; `output` is a parameter of its own, so that results have its type
    output_mode: OutputMode | None  # how a typed output is requested; auto: as the model takes it best
    output_retries: int | None  # how often an invalid output is sent back to the model
    system: str | None
    tool_choice: ToolChoice | str | Tool | Sequence[str | Tool] | None
    parallel: bool | None
    strict: Strictness  # refuse what would be lost
    extra: Mapping[str, Any] | None  # put into the body as it is, for any provider
    # fields by the name of a provider or protocol: {"anthropic": {"top_k": 5}}; those of others are reported
    provider_options: Mapping[str, Mapping[str, Any]] | None
    timeout: float | Timeouts | None  # seconds of the whole call, retries and stream included
    tries: int | None  # how often the request is sent where another attempt may help
    # names that providers use for the same settings
    max_output_tokens: int | None
    max_completion_tokens: int | None
    reasoning_effort: Effort | None
    thinking_budget: int | None
    stop_sequences: str | Sequence[str] | None
    response_format: OutputFormat | Wire | Literal["json", "text"] | None


_OWN = ("system", "tool_choice", "parallel")
_SETTINGS = frozenset(Settings.__struct_fields__) - {"extras", "where"}


def request_of(
    model: str,
    conversation: Prompt,
    tools: Iterable[AnyTool],
    settings: Mapping[str, Any],
    stream: bool,
) -> Request:
    system, messages = neutral(messages_of(conversation))
    given = {OTHER_NAMES.get(name, name): value for name, value in settings.items() if value is not None}
    if "system" in given:
        system = (Text(given["system"]), *system)
    return Request(
        model,
        messages,
        system,
        tuple([each.neutral() if isinstance(each, Tool) else each for each in tools_of(tools)]),
        _choice(given.get("tool_choice")),
        given.get("parallel"),
        _settings(given),
        stream,
    )


def _settings(settings: Mapping[str, Any]) -> Settings:
    given = {name: value for name, value in settings.items() if name not in _OWN}
    if not given:
        return Settings()
    unknown = [name for name in given if name not in _SETTINGS]
    if unknown:
        known = ", ".join(sorted((*_OWN, *_SETTINGS)))
        raise ConfigError(f"unknown setting {unknown[0]!r}; known: {known}; others go into `extra`")
    if "stop" in given:
        given["stop"] = (given["stop"],) if isinstance(given["stop"], str) else tuple(given["stop"])
    if "output" in given:
        given["output"] = _output(given["output"])
    return Settings(**given)


def _choice(value: Any) -> ToolChoice | None:
    """auto, none, required, the name of a tool, or a list of names."""
    match value:
        case None | ToolChoice():
            return value
        case "auto" | "none" | "required":
            return ToolChoice(value)
        case "any":
            return ToolChoice("required")
        case str():
            return ToolChoice("required", (value,))
        case Tool():
            return ToolChoice("required", (value.name,))
        case list() | tuple():
            return ToolChoice("required", tuple(map(_name, cast(Iterable[Any], value))))
        case _:
            raise ConfigError(
                f"tool_choice is auto, none, required, a name or a list of names, not {value!r}"
            )


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", tool))


def _output(value: Any) -> OutputFormat:
    """`"json"`, a JSON Schema, or an OutputFormat."""
    match value:
        case OutputFormat():
            return value
        case "json" | "text":
            return OutputFormat(value)
        case _ if is_object(value):
            return OutputFormat("schema", value, "reply")
        case _:
            raise ConfigError(f"output is 'json', 'text' or a JSON Schema, not {value!r}")
