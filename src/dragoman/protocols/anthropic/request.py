"""Requests <-> neutral requests.

`system` stands beside the conversation, `max_tokens` is required, the parallel switch lives inside
`tool_choice`, and newer models refuse the sampling settings that older ones take.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, get_args

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Effort,
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Role,
    Settings,
    Text,
    Tool,
    ToolChoice,
    Wire,
)
from dragoman.core.thinking import budget_for
from dragoman.protocols.anthropic import models
from dragoman.protocols.anthropic.parts import decode_content, encode_content
from dragoman.protocols.anthropic.tools import decode_choice, decode_tool, encode_choice, encode_tool
from dragoman.protocols.anthropic.wire import PROTOCOL

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_EFFORTS: dict[str | None, Effort] = {effort: effort for effort in get_args(Effort)}


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are read, and also kept as they stand: they go back to Anthropic unchanged."""
    fields = Fields(body, "", PROTOCOL)
    choice, parallel = decode_choice(fields, losses)
    request = Request(
        fields.text("model"),
        tuple([_decode_message(m, f"messages[{i}]", losses) for i, m in enumerate(_messages(fields))]),
        _decode_system(fields, losses),
        tuple([decode_tool(t, f"tools[{i}]", losses) for i, t in enumerate(fields.list("tools") or ())]),
        choice,
        parallel,
        stream=fields.take("stream", bool) or False,
        extras={PROTOCOL: fields.rest.copy()},
        settings=_decode_settings(fields, losses),
    )
    fields.extras(losses)
    return request


def encode_request(request: Request, losses: Losses) -> Wire:
    native = request.extras is not None and PROTOCOL in request.extras
    body: Wire = {"model": request.model}
    if not native:
        body["max_tokens"] = _encode_max_tokens(request, losses)
    leading = tuple(takewhile(lambda m: m.role in ("system", "developer"), request.messages))
    later = request.messages[len(leading) :]
    system = [*request.system, *(part for message in leading for part in message.parts)]
    messages: list[Wire] = []
    for message in later:
        if message.role in ("system", "developer") and not _system_allowed(request, message, messages):
            losses.changed(
                message.where, "this model takes no system text inside the conversation: moved to the front"
            )
            system += message.parts
        else:
            messages += _encode_message(message, losses)
    if system:
        body["system"] = encode_content(system, losses)
    body["messages"] = messages
    tools = [encode_tool(tool, losses) for tool in request.tools if _allowed(tool, request.tool_choice)]
    tools = [tool for tool in tools if tool]
    if tools:
        body["tools"] = tools
    body |= encode_choice(request, bool(tools), losses)
    if request.stream:
        body["stream"] = True
    if native:
        return body | own(request.extras, PROTOCOL)
    return body | _encode_settings(request, body, losses)


def _messages(fields: Fields) -> list[Any]:
    messages = fields.list("messages")
    if messages is None:
        raise WireError(PROTOCOL, "messages", "expected an array, got nothing")
    return messages


def _decode_message(message: Any, where: str, losses: Losses) -> Message:
    fields = Fields(message, where, PROTOCOL)
    role = _ROLES.get(name := fields.need("role", str))
    if role is None:
        raise WireError(PROTOCOL, f"{where}.role", f"expected user, assistant or system, got {name!r}")
    content = fields.any("content")
    if content is None:
        raise WireError(PROTOCOL, f"{where}.content", "expected a string or an array of blocks, got nothing")
    return Message(
        role, decode_content(content, f"{where}.content", losses), where=where, extras=fields.extras(losses)
    )


def _encode_message(message: Message, losses: Losses) -> list[Wire]:
    """A message whose parts all fell away falls away too."""
    extras = own(message.extras, PROTOCOL)
    role = "system" if message.role == "developer" else message.role
    parts = [part for part in message.parts if _sendable(part, losses)]
    content = encode_content(parts, losses)
    if not content:
        return []
    return [{"role": role, "content": content, **extras}]


def _sendable(part: AnyPart, losses: Losses) -> bool:
    """Anthropic takes back only the thinking that it signed; a signature cannot be made up."""
    if isinstance(part, Reasoning) and (part.state is None or part.state.origin != PROTOCOL):
        losses.dropped(part.where, "Anthropic takes back only reasoning that it signed")
        return False
    return True


def _system_allowed(request: Request, message: Message, before: list[Wire]) -> bool:
    """Newer models take a system message after a user turn; one that came that way goes back that way."""
    native = message.extras is not None and PROTOCOL in message.extras
    return native or (
        models.takes_system_messages(request.model) and bool(before) and before[-1]["role"] != "assistant"
    )


def _decode_system(fields: Fields, losses: Losses) -> tuple[Text, ...]:
    system = fields.any("system")
    if system is None:
        return ()
    parts = decode_content(system, "system", losses)
    if not all(isinstance(part, Text) for part in parts):
        raise WireError(PROTOCOL, "system", "expected a string or an array of text blocks")
    return parts  # pyright: ignore[reportReturnType] - checked above


def _allowed(tool: Any, choice: ToolChoice | None) -> bool:
    """There is no way to name a subset, so the tools outside it stay at home."""
    if choice is None or len(choice.names) < 2 or not isinstance(tool, Tool):
        return True
    return tool.name in choice.names


def _decode_settings(fields: Fields, losses: Losses) -> Settings:
    effort, output = _decode_output_config(fields, losses)
    budget, shown = _decode_thinking(fields, losses)
    metadata = fields.fields("metadata")
    user = metadata.take("user_id", str) if metadata else None
    if metadata:
        metadata.extras(losses)
    stop = fields.list("stop_sequences")
    return Settings(
        max_tokens=fields.integer("max_tokens"),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        stop=None if stop is None else tuple(str(item) for item in stop),
        output=output,
        effort="none" if budget == 0 else effort,
        budget=budget,
        show_reasoning=shown,
        user=user,
        service_tier=fields.take("service_tier", str),
    )


def _decode_output_config(fields: Fields, losses: Losses) -> tuple[Effort | None, OutputFormat | None]:
    config = fields.fields("output_config")
    if config is None:
        return None, None
    effort, format = config.take("effort", str), config.fields("format")
    output = None
    if format is not None and format.take("type", str) == "json_schema":
        output = OutputFormat("schema", format.object("schema"))
    if format is not None:
        format.extras(losses)
    config.extras(losses)
    return _EFFORTS.get(effort), output


def _decode_thinking(fields: Fields, losses: Losses) -> tuple[int | None, bool | None]:
    """Budget in tokens (0: off, -1: as the model likes), and whether the text is shown."""
    thinking = fields.fields("thinking")
    if thinking is None:
        return None, None
    kind, display = thinking.need("type", str), thinking.take("display", str)
    budget = thinking.integer("budget_tokens") if kind == "enabled" else _BUDGETS.get(kind)
    if budget is None:
        losses.dropped(f"thinking.type {kind}", f"only {PROTOCOL} understands it")
    thinking.extras(losses)
    return budget, None if budget in (0, None) else display != "omitted"


_BUDGETS = {"adaptive": -1, "disabled": 0}


def _encode_max_tokens(request: Request, losses: Losses) -> int:
    if request.settings.max_tokens is not None:
        return request.settings.max_tokens
    most = models.default_max_tokens(request.model)
    losses.invented("max_tokens", f"Anthropic requires it: {most}")
    return most


def _encode_settings(request: Request, body: Wire, losses: Losses) -> Wire:
    settings, wire = request.settings, dict[str, Any]()
    thinking = _encode_thinking(request, body, losses)
    if thinking:
        wire["thinking"] = thinking
    config: Wire = {}
    if settings.effort not in (None, "none") and models.takes_effort(request.model):
        config["effort"] = "low" if settings.effort == "minimal" else settings.effort
    config |= _encode_output(settings.output, losses)
    if config:
        wire["output_config"] = config
    wire |= _encode_sampling(request, bool(thinking and thinking["type"] == "enabled"), losses)
    if settings.stop:
        wire["stop_sequences"] = [item for item in settings.stop if item.strip()]
    if settings.user is not None:
        wire["metadata"] = {"user_id": settings.user}
    if settings.service_tier is not None:
        wire |= _encode_tier(settings.service_tier, losses)
    for name in _UNSAID:
        if getattr(settings, name) not in (None, False):
            losses.dropped(name, "Anthropic has no such setting")
    if (settings.n or 1) > 1:
        losses.dropped("n", "Anthropic gives one answer")
    return wire


_UNSAID = (
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "verbosity",
    "metadata",
    "logprobs",
    "top_logprobs",
    "cache_key",
    "store",
)


def _encode_sampling(request: Request, thinking: bool, losses: Losses) -> Wire:
    wire: Wire = {}
    refused = models.refuses_sampling(request.model)
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(request.settings, name)
        if value is None:
            continue
        if refused or (thinking and name == "temperature"):
            losses.dropped(
                name, "the model takes no sampling settings" if refused else "not together with thinking"
            )
        elif name == "temperature" and value > 1:
            losses.changed(name, "Anthropic takes at most 1")
            wire[name] = 1
        else:
            wire[name] = value
    return wire


def _encode_thinking(request: Request, body: Wire, losses: Losses) -> Wire | None:
    settings = request.settings
    if settings.effort == "none" or settings.budget == 0:
        return {"type": "disabled"}
    if settings.effort is None and settings.budget is None:
        return None
    display = {} if settings.show_reasoning is not False else {"display": "omitted"}
    if settings.budget in (None, -1) and models.takes_effort(request.model):
        return {"type": "adaptive", **display}
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        losses.dropped("thinking", "not together with a forced tool choice")
        return None
    budget = (
        settings.budget
        if settings.budget and settings.budget > 0
        else budget_for(settings.effort or "medium")
    )
    budget = min(max(budget, 1024), body["max_tokens"] - 1)
    if budget < 1024:
        losses.dropped("thinking", "max_tokens leaves no room for the least budget of 1024")
        return None
    return {"type": "enabled", "budget_tokens": budget, **display}


def _encode_output(output: OutputFormat | None, losses: Losses) -> Wire:
    match output:
        case OutputFormat(kind="schema"):
            return {"format": {"type": "json_schema", "schema": output.schema or {"type": "object"}}}
        case OutputFormat(kind="json"):
            losses.dropped("output format", "Anthropic has no JSON mode without a schema")
            return {}
        case _:
            return {}


def _encode_tier(tier: str, losses: Losses) -> Wire:
    match tier:
        case "auto" | "standard_only":
            return {"service_tier": tier}
        case "default" | "standard":
            return {"service_tier": "standard_only"}
        case _:
            losses.dropped("service_tier", f"Anthropic has no tier {tier!r}")
            return {}
