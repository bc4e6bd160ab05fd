"""The declared tools as a dialect sees them: plain functions with named parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, Tool, ToolCall, Wire
from dragoman.core.repeated import remembered
from dragoman.dialects.engine.values import Schema, property_of, read_value, write_value

_INPUT: Wire = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


class Declared:
    """Functions by name. A freeform tool is a function with one string, `input`."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self.tools = tuple(as_function(tool) for tool in tools if isinstance(tool, Tool))
        self._schemas: dict[str, Wire] = {tool.name: tool.parameters or {} for tool in self.tools}

    def __contains__(self, name: str) -> bool:
        return name in self._schemas

    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def parameters(self, tool: str) -> Wire:
        """The declared parameters by name, each with its schema."""
        properties = self._schemas.get(tool, {}).get("properties")
        return cast(Wire, properties) if isinstance(properties, dict) else {}

    def required(self, tool: str) -> list[str]:
        required = self._schemas.get(tool, {}).get("required")
        return cast(list[str], required) if isinstance(required, list) else []

    def read(
        self, tool: str, parameter: str, text: str, *, framed: bool = True, json: bool | None = None
    ) -> Any:
        """The value that `text` spells for this parameter. `json`: whether it is JSON, if the text says."""
        if json is not None:
            return (jsontext.decode(text) if jsontext.is_complete(text) else text) if json else text
        return read_value(text, self.schema(tool, parameter), self._schemas.get(tool, {}), framed=framed)

    def write(self, tool: str, arguments: Wire) -> dict[str, str]:
        """The arguments as text, each so that `read` reads it."""
        root = self._schemas.get(tool, {})
        return {name: write_value(it, self.schema(tool, name), root) for name, it in arguments.items()}

    def schema(self, tool: str, parameter: str) -> Schema:
        root = self._schemas.get(tool, {})
        return property_of(root, parameter, root)


@remembered
def declare(tools: Iterable[AnyTool], losses: Losses) -> Declared:
    return Declared(tools)


def as_function(tool: Tool) -> Tool:
    return tool if tool.kind == "function" else replace(tool, kind="function", parameters=_INPUT)


def arguments_of(call: ToolCall) -> Wire:
    """The arguments as an object. What is none travels inside one, so that nothing is lost."""
    if call.kind == "custom":
        return {"input": call.arguments}
    if not call.arguments.strip():
        return {}
    found = jsontext.decode_object(call.arguments)
    return {"_raw_arguments": call.arguments} if found is None else found
