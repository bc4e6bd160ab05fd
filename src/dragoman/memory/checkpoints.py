"""Where folds stood after the first messages of a conversation: a longer request goes on from there."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.core.losses import Loss

_MOST_POINTS = 4  # an agent moves its cache breakpoints, which changes the last messages


class Checkpoint(Struct, frozen=True, gc=False):
    """After `count` messages: the state of each fold, how many bytes were written, and the losses so far, by
    fold and phase."""

    count: int
    states: tuple[Any, ...]
    written: int
    losses: dict[tuple[int, int], tuple[Loss, ...]]
    size: int


class CacheEntry(Struct, eq=False, gc=False):
    """What a row of folds wrote, and its latest checkpoints, the deepest last.

    `used` is the last request that used it.
    """

    text: bytes
    points: tuple[Checkpoint, ...]
    used: int = 0

    @property
    def size(self) -> int:
        return len(self.text) + sum([point.size for point in self.points])

    def find(self, count: int) -> Checkpoint | None:
        """The deepest one within the first `count` messages."""
        for point in reversed(self.points):
            if point.count <= count:
                return point
        return None

    def grown(self, text: bytes, point: Checkpoint) -> CacheEntry:
        """With a checkpoint that goes on from one of these."""
        kept = [each for each in self.points if each.count < point.count]
        return CacheEntry(text, (*kept[1 - _MOST_POINTS :], point))

    def up_to(self, count: int) -> CacheEntry | None:
        points = tuple([point for point in self.points if point.count <= count])
        return CacheEntry(self.text[: points[-1].written], points, self.used) if points else None

    def behind(self, count: int) -> CacheEntry | None:
        points = tuple([point for point in self.points if point.count > count])
        return CacheEntry(self.text, points, self.used) if points else None
