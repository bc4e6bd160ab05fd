"""What an agent loop may use up, and what it has used."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.model import Usage

Stopped = Literal["answer", "turns", "time", "tokens", "tool_calls"]


class Bounds(Struct, frozen=True):
    """None: no bound. `seconds` and `tokens` are for the whole run, `tool_seconds` for each call."""

    turns: int | None = 20
    seconds: float | None = None
    tokens: int | None = None
    tool_seconds: float | None = None

    def reached(self, turns: int, usage: Usage) -> Stopped | None:
        if self.tokens is not None and usage.input + usage.output >= self.tokens:
            return "tokens"
        return "turns" if self.turns is not None and turns >= self.turns else None


def added(first: Usage, second: Usage) -> Usage:
    return Usage(*(getattr(first, name) + getattr(second, name) for name in Usage.__struct_fields__))
