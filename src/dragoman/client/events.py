"""What a reply looks like while it grows."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.core.model import Usage


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    text: str


class RefusalDelta(Struct, frozen=True):
    text: str


class ToolCallStart(Struct, frozen=True):
    """`index` counts the calls of a reply."""

    index: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of the arguments' JSON text."""

    index: int
    text: str


class ToolCallEnd(Struct, frozen=True):
    """`call` is whole, in OpenAI's shape; None where the reply was cut inside it."""

    index: int
    call: dict[str, Any] | None


class Finish(Struct, frozen=True):
    """`reason` in OpenAI's words."""

    reason: str
    usage: Usage


class OutputDelta(Struct, frozen=True):
    """More of a typed output: `value` is the JSON of all that has arrived of it, not validated yet."""

    value: Any


StreamEvent = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | OutputDelta
    | Finish
)
