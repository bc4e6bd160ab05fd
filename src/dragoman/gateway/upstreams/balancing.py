"""Weighted round-robin over choices that are equally good: targets of a model, keys of a provider.

Smooth weighted round-robin, as nginx has it: every choice gains its weight, the one with the most is taken
and pays the sum. Weights 5, 1, 1 give a a b a c a a: the spread is even at every moment, not only in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class WeightedRoundRobin(Generic[T]):
    """`choices` with their weights, all above 0."""

    def __init__(self, choices: Sequence[tuple[T, float]]) -> None:
        self._weights = dict(choices)
        self._gained = dict.fromkeys(self._weights, 0.0)

    def rank(self, choice: T) -> float:
        """The lower, the sooner it is its turn."""
        return -self._gained[choice]

    def count(self, choice: T) -> None:
        """It was taken out of turn."""
        for each, weight in self._weights.items():
            self._gained[each] += weight
        self._gained[choice] -= sum(self._weights.values())

    def take(self, without: Collection[T] = ()) -> T | None:
        """The next choice that is not in `without`; None where all are."""
        left = {choice: weight for choice, weight in self._weights.items() if choice not in without}
        if not left:
            return None
        for choice, weight in left.items():
            self._gained[choice] += weight
        best = max(left, key=self._gained.__getitem__)
        self._gained[best] -= sum(left.values())
        return best
