"""Two-way tables: names that correspond stand side by side, so the directions cannot drift apart."""

from __future__ import annotations

from typing import Generic, TypeVar

Neutral = TypeVar("Neutral", bound=str)


class Table(Generic[Neutral]):
    """Rows of (wire, neutral). The first row that names a value decides its direction.

    `other` is the pair for what no row names: (wire for an unknown neutral, neutral for an unknown wire).
    """

    __slots__ = ("_to_neutral", "_to_wire", "other")

    def __init__(self, *rows: tuple[str, Neutral], other: tuple[str, Neutral]) -> None:
        self.other = other
        self._to_neutral: dict[str, Neutral] = {}
        self._to_wire: dict[str, str] = {}
        for wire, neutral in rows:
            self._to_neutral.setdefault(wire, neutral)
            self._to_wire.setdefault(neutral, wire)

    def decode(self, wire: str) -> Neutral:
        return self._to_neutral.get(wire, self.other[1])

    def encode(self, neutral: str) -> str:
        return self._to_wire.get(neutral, self.other[0])

    def knows(self, neutral: str) -> bool:
        """Whether the wire has a word of its own for `neutral`."""
        return neutral in self._to_wire
