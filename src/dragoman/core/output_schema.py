"""The schema of a structured answer, for targets that take a schema and nothing beside it."""

from __future__ import annotations

from dragoman.core.losses import Losses
from dragoman.core.model import OutputFormat, Wire


def described_schema(output: OutputFormat, losses: Losses) -> Wire:
    """The schema with the name and description of the format as its own `title` and `description`."""
    schema = output.schema or {"type": "object"}
    if output.name:
        schema = {"title": output.name, **schema}
    if output.description and schema.get("description", output.description) != output.description:
        why = "the schema has a description of its own, and the target takes none beside it"
        losses.dropped("output.description", why, "setting.output")
    elif output.description:
        schema = {"description": output.description, **schema}
    return schema
