"""What was made of a short text before; agents send the same schemas in every request of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", str, bytes)

MOST, LONGEST = 512, 20_000  # texts, and how long one may be: memory stays small whatever clients send


def of_short_texts(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Like lru_cache, for a function of a text; what a long text becomes is not kept."""
    kept = lru_cache(MOST)(function)

    @wraps(function)
    def answered(text: T, *about: P.args, **named: P.kwargs) -> R:
        return (kept if len(text) <= LONGEST else function)(text, *about, **named)

    return answered
