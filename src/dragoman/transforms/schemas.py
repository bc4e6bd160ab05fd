"""A tool's JSON Schema, made digestible for a target (being written)."""

from __future__ import annotations

from typing import Literal

from dragoman.core.losses import Losses
from dragoman.core.model import Wire

Target = Literal["json", "openai", "gemini"]


def fit(parameters: Wire | None, target: Target, where: str, losses: Losses, *, strict: bool = False) -> Wire:
    if not parameters:
        return {"type": "object", "properties": {}}
    return parameters
