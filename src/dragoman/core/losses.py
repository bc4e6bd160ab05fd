"""What a translation could not carry across: a list with a kind, a place and a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from dragoman.core.errors import LossError

LossKind = Literal["dropped", "changed", "invented"]


class Loss(Struct, frozen=True):
    """`where` names the field as the source spells it."""

    kind: LossKind
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.why}"


class Losses:
    """Collects losses in order; the same loss said twice is one loss."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[Loss, None] = {}

    def dropped(self, where: str, why: str) -> None:
        self._items[Loss("dropped", where, why)] = None

    def changed(self, where: str, why: str) -> None:
        self._items[Loss("changed", where, why)] = None

    def invented(self, where: str, why: str) -> None:
        self._items[Loss("invented", where, why)] = None

    def extend(self, losses: Iterable[Loss]) -> None:
        self._items.update(dict.fromkeys(losses))

    def respell(self, spelling: dict[str, str], before: Iterable[Loss] = ()) -> None:
        """Name settings as the source spells them, and put `before` in front."""
        spelled = [Loss(loss.kind, spelling.get(loss.where, loss.where), loss.why) for loss in self._items]
        self._items = dict.fromkeys([*before, *spelled])

    def refuse(self) -> None:
        """Strict mode: whatever was dropped or changed is an error. An invention adds, it loses nothing."""
        lost = [loss for loss in self._items if loss.kind != "invented"]
        if lost:
            raise LossError(lost)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
