"""`--schema`: a JSON Schema, a file that holds one, or a short form such as `name, age int, tags str[]`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from dragoman.core import jsontext

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_FIELD = re.compile(
    r"(?P<name>\w+)(?:\s+(?P<type>str|int|float|bool)(?P<array>\[\])?)?(?:\s*:\s*(?P<about>.+))?"
)


def read_schema(text: str) -> dict[str, Any]:
    """Every field of the short form is required; `name type: description`, separated by commas or lines."""
    if not text.lstrip().startswith("{"):
        if not Path(text).is_file():
            return _short(text)
        text = Path(text).read_text("utf-8")
    schema = jsontext.decode_object(text)
    if schema is None:
        raise click.UsageError("--schema: expected a JSON object")
    return schema


def _short(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in filter(None, map(str.strip, re.split(r"[,\n]", text))):
        found = _FIELD.fullmatch(field)
        if not found:
            raise click.UsageError(
                f"--schema: {field!r} is no file, and no `name type: description`; types: {', '.join(_TYPES)}"
            )
        kind: dict[str, Any] = {"type": _TYPES[found["type"] or "str"]}
        kind = {"type": "array", "items": kind} if found["array"] else kind
        properties[found["name"]] = kind | ({"description": found["about"]} if found["about"] else {})
    if not properties:
        raise click.UsageError("--schema: it has no fields")
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
