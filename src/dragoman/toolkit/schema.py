"""The few JSON Schemas that the standard tools need."""

from __future__ import annotations

from dragoman.core.model import Wire


def parameters(required: list[str], **properties: Wire) -> Wire:
    return {"type": "object", "properties": properties, "required": required}


def string(description: str) -> Wire:
    return {"type": "string", "description": description}


def integer(description: str) -> Wire:
    return {"type": "integer", "description": description}


def array(description: str) -> Wire:
    return {"type": "array", "items": {"type": "string"}, "description": description}
