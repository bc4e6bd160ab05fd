"""How much memory something known takes: `history_mb` bounds what is remembered with all that was made of it.

Sizes are estimates. To look at every object would take as long as to make it, so usual content is counted by
the length of its wire and the number of its objects; the factors were measured with tracemalloc, and a law
compares them with it. What is unusual, text that is not ASCII and parts that are kept whole, is looked at.
"""

from __future__ import annotations

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
