"""What an agent loop may use up, and what it has used."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.model import Usage

Stopped = Literal[
    "answer", "turns", "time", "tokens", "cost", "tool_calls", "approval", "output", "stopped", "cancelled"
]


class Bounds(Struct, frozen=True):
    """Of a whole run; None: no bound. `cost` is in US dollars."""

    turns: int | None = 20
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def reached(self, turns: int, usage: Usage, cost: float | None) -> Stopped | None:
        if self.tokens is not None and usage.input + usage.output >= self.tokens:
            return "tokens"
        if self.cost is not None:
            if cost is None:
                raise ConfigError(
                    "max_cost needs the price of the model, which is not known: give it to "
                    "Provider(profiles={…: {'price': {'input': …, 'output': …}}})"
                )
            if cost >= self.cost:
                return "cost"
        return "turns" if self.turns is not None and turns >= self.turns else None


def added(first: Usage, second: Usage) -> Usage:
    return Usage(*(getattr(first, name) + getattr(second, name) for name in Usage.__struct_fields__))
