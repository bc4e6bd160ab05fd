"""How much memory something known takes: `history_mb` bounds what is remembered with all that was made of it.

Sizes are estimates. To look at every object would take as long as to make it, so usual content is counted by
the length of its wire and the number of its objects; the factors were measured with tracemalloc, and a law
compares them with it. What is unusual, text that is not ASCII and parts that are kept whole, is looked at.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from msgspec import Struct


class Footprint(Struct, eq=False, gc=False):
    """About how many bytes something known takes, and the last request that used it.

    `whole` is that of all together; something that was dropped has none.
    """

    whole: Footprint | None = None
    size: int = 0
    used: int = 0

    def add(self, size: int) -> None:
        self.size += size
        if self.whole:
            self.whole.size += size

    def drop(self) -> None:
        if self.whole:
            self.whole.size -= self.size
            self.whole = None


class KeptResult(Struct, eq=False, gc=False, kw_only=True):
    """What was made of known messages, in about `size` bytes; `made` is what was made of it in turn.

    `used` is the last request that used it, 0 where that is not noted.
    """

    size: int = 0
    made: dict[Any, Any] = {}
    used: int = 0

    @property
    def whole_size(self) -> int:
        return self.size + size_of(self.made) if self.made else self.size


def size_of(made: dict[Any, KeptResult]) -> int:
    return sum([result.whole_size for result in [*made.values()]])  # other threads may add some meanwhile


def weigh(value: Any) -> int:
    """What a value takes with all that it holds."""
    waiting, size = [value], 0
    while waiting:
        value = waiting.pop()
        size += getsizeof(value)
        if isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, Struct):
            waiting += [getattr(value, name) for name in value.__struct_fields__]
    return size
