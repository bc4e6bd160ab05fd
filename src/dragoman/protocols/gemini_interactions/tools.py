"""Tool declarations and tool choice <-> neutral ones.

Each entry of `tools` is one tool, a function or a hosted one. The choice stands in `generation_config`.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own, word_set
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, Request, ToolChoice, ToolDeclaration, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.gemini_interactions.hosted import decode_hosted, encode_hosted
from dragoman.protocols.gemini_interactions.parts import step_type
from dragoman.protocols.gemini_interactions.wire import CHOICES, PROTOCOL_NAME, is_native
from dragoman.protocols.google import chosen_tools

_QUIET = word_set("type description parameters")
_MODES = frozenset({"auto", "any", "none", "validated"})


@cached_by_tools
def decode_tools(tools: list[Any], losses: Losses) -> tuple[AnyTool, ...]:
    return tuple([_decode_tool(tool, f"tools[{i}]", losses) for i, tool in enumerate(tools)])


@cached_by_tools
def encode_tools(tools: tuple[AnyTool, ...], losses: Losses, profile: ModelProfile) -> list[Wire]:
    made = [
        encode_hosted(tool, losses) if isinstance(tool, HostedTool) else _encode_function(tool)
        for tool in chosen_tools(tools, profile, is_native, losses)
    ]
    return [wire for wire in made if wire is not None]


def _decode_tool(tool: Any, where: str, losses: Losses) -> AnyTool:
    kind, fields = step_type(tool, where), Fields(tool, where, PROTOCOL_NAME)
    if kind != "function":
        return decode_hosted(fields, kind, losses)
    return ToolDeclaration(
        fields.need("name", str),
        fields.nonempty("description"),
        fields.object("parameters"),
        where=where,
        extras=fields.extras(losses, quiet=_QUIET),
    )


def _encode_function(tool: ToolDeclaration) -> Wire:
    wire: Wire = {"type": "function", "name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if tool.parameters or (is_native(tool) and tool.parameters is not None):
        wire["parameters"] = tool.parameters
    return wire | own(tool.extras, PROTOCOL_NAME)


def decode_choice(config: Fields, losses: Losses) -> ToolChoice | None:
    """Taken out of `generation_config`."""
    choice, where = config.any("tool_choice"), config.path("tool_choice")
    whole = {PROTOCOL_NAME: {"tool_choice": choice}}
    match choice:
        case None:
            return None
        case str(mode) if mode in _MODES:
            names: tuple[str, ...] = ()
        case {"allowed_tools": {**allowed}, **rest}:
            listed: Any = allowed.get("tools") or []
            for key in (*rest, *(f"allowed_tools.{key}" for key in allowed if key not in ("mode", "tools"))):
                losses.dropped(f"{where}.{key}", f"Only {PROTOCOL_NAME} has this field.", "field.unknown")
            mode = allowed.get("mode") or "auto"
            if not is_array(listed) or not isinstance(mode, str) or mode not in _MODES:
                problem = "expected a mode (auto, any, none, validated) and an array of names"
                raise WireError(PROTOCOL_NAME, f"{where}.allowed_tools", problem)
            names = tuple([str(name) for name in listed])
        case _:
            problem = f"expected auto, any, none, validated or allowed_tools, got {describe(choice)}"
            raise WireError(PROTOCOL_NAME, where, problem)
    if mode == "validated":
        why = "Other protocols have no validated. auto was sent, so calls need not conform to their schemas."
        losses.changed(where, why, "tool.choice")
    return ToolChoice(CHOICES.decode(str(mode)), names, extras=whole)


def encode_choice(request: Request, tools: list[Wire], losses: Losses) -> Wire:
    choice, functions = request.tool_choice, any(tool.get("type") == "function" for tool in tools)
    if choice and (ours := own(choice.extras, PROTOCOL_NAME)):
        return ours
    if functions and request.parallel is False:
        why = f"{PROTOCOL_NAME} cannot be kept from calling several tools at once."
        losses.dropped("parallel", why, "setting.parallel")
    if functions:
        return _encode_mode(choice, request)
    if choice and choice.mode == "required":
        losses.dropped("tool_choice", "There are no functions to choose from.", "tool.choice")
    return {}


def _encode_mode(choice: ToolChoice | None, request: Request) -> Wire:
    """`validated` is `auto` with constrained decoding, as `any` has it."""
    strict = any(isinstance(tool, ToolDeclaration) and tool.strict for tool in request.tools)
    if choice is None:
        return {"tool_choice": "validated"} if strict and not is_native(request) else {}
    mode = "validated" if choice.mode == "auto" and strict else CHOICES.encode(choice.mode)
    if choice.names and choice.mode != "none":
        return {"tool_choice": {"allowed_tools": {"mode": mode, "tools": list(choice.names)}}}
    return {"tool_choice": mode}
