"""Declarations of the standard tools: a tool is named after its function, its parameters are plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.client.tools import Tool
from dragoman.core.model import Wire


def tool(
    function: Callable[..., Any], about: str, required: list[str], /, parallel: bool = True, **fields: Wire
) -> Tool:
    schema: Wire = {"type": "object", "properties": fields, "required": required}
    made = Tool(function.__name__, about, schema, function, parallel=parallel)
    made.hints = {name: _TYPES[field["type"]] for name, field in fields.items()}
    return made


# An array of one may come as a text: the tools say what they take
_TYPES: dict[str, Any] = {"string": str, "integer": int, "array": list[str] | str}


def string(description: str) -> Wire:
    return {"type": "string", "description": description}


def integer(description: str) -> Wire:
    return {"type": "integer", "description": description}


def array(description: str) -> Wire:
    return {"type": "array", "items": {"type": "string"}, "description": description}
