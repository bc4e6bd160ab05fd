"""Tool choice and the parallel switch <-> neutral ones.

A choice is a word or an object that names tools; the wire is kept whole beside what it means.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Tool, ToolChoice, Wire
from dragoman.protocols.openai_chat import models
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME


def decode_choice(fields: Fields) -> ToolChoice | None:
    for key in ("tool_choice", "function_call"):
        if (choice := fields.any(key)) is not None:
            mode, names = _read_choice(choice, key)
            return ToolChoice(mode, names, where=key, extras={PROTOCOL_NAME: {key: choice}})
    return None


def encode_choice(request: Request, declared: Wire, losses: Losses) -> Wire:
    """The choice and the parallel switch; neither may stand without tools."""
    choice = request.tool_choice
    if "tools" not in declared and "functions" not in declared:
        if choice and choice.mode == "required":
            losses.dropped("tool_choice", "there are no tools to choose from")
        return {}
    wire: Wire = {}
    if choice:
        wire |= own(choice.extras, PROTOCOL_NAME) or {"tool_choice": _write_choice(choice, request)}
    if request.parallel is not None and "tools" in declared:
        wire["parallel_tool_calls"] = request.parallel
    return wire


def _read_choice(choice: Any, key: str) -> tuple[Any, tuple[str, ...]]:
    match choice:
        case "auto" | "none" | "required":
            return choice, ()
        case "any":  # Mistral
            return "required", ()
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": tools},
        }:
            if not is_array(tools):
                raise WireError(PROTOCOL_NAME, f"{key}.allowed_tools.tools", "expected an array")
            return mode, tuple([_named(tool, key) for tool in tools])
        case dict():
            return "required", (_named(choice, key),)
        case _:
            raise WireError(
                PROTOCOL_NAME, key, f"expected none, auto, required or an object, got {describe(choice)}"
            )


def _named(choice: Any, key: str) -> str:
    """The name in `{type, function: {name}}`, in its custom twin, or in the older `{name}`."""
    match choice:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            raise WireError(
                PROTOCOL_NAME, key, f"expected an object that names a tool, got {describe(choice)}"
            )


def _write_choice(choice: ToolChoice, request: Request) -> Any:
    if choice.names and choice.mode != "none":
        custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.kind == "custom"}
        tools = [_naming(name, custom) for name in choice.names]
        if choice.mode == "required" and len(tools) == 1:
            return tools[0]
        if models.knows_openai_fields(request.model):
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return "any" if choice.mode == "required" and models.is_mistral(request.model) else choice.mode


def _naming(name: str, custom: set[str]) -> Wire:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}
