"""What a translation could not carry across: a list with a code, a kind, a place and a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import LossError
from dragoman.core.loss_codes import Severity, severity_of

LossKind = Literal["dropped", "changed", "invented", "emulated"]
Strictness = bool | Literal["material", "minor", "cosmetic"]
_RANK: dict[Severity, int] = {"cosmetic": 0, "minor": 1, "material": 2}


class Loss(Struct, frozen=True):
    """`where` is the path in the source, `target` the one in the target, where there is one.

    `code` is stable (see loss_codes.py); `value` is the beginning of what the source said there.
    """

    kind: LossKind
    where: str
    why: str
    code: str = ""
    severity: Severity = "minor"
    value: str = ""
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.why}"


def _respelled(loss: Loss, spelling: dict[str, str], source: Any) -> Loss:
    head, known = "", spelling.get(loss.where)
    if known is None:
        head, dot, last = loss.where.rpartition(".")
        known = spelling.get(f".{last}") if dot else None
    if known is None:
        return loss
    *first, last = [f"{head}{path}" for path in known.split("|")]
    return replace(loss, where=next((path for path in first if _has(source, path)), last))


def _has(source: Any, path: str) -> bool:
    for step in _STEP.findall(path):
        try:
            source = source[int(step) if step.isdigit() else step]
        except (KeyError, IndexError, TypeError):
            return False
    return source is not None


_STEP = re.compile(r"[^.\[\]]+")


class Losses:
    """Collects losses in order; the same loss reported twice is one loss.

    `topic` and the kind of the loss make its code: `losses.dropped(where, why, "tool.strict")` reports
    `tool.strict.dropped`.
    """

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[Loss, None] = {}

    def dropped(self, where: str, why: str, topic: str = "", target: str = "") -> None:
        self._add("dropped", where, why, topic, target)

    def changed(self, where: str, why: str, topic: str = "", target: str = "") -> None:
        self._add("changed", where, why, topic, target)

    def invented(self, where: str, why: str, topic: str = "", target: str = "") -> None:
        self._add("invented", where, why, topic, target)

    def emulated(self, where: str, why: str, topic: str = "", target: str = "") -> None:
        self._add("emulated", where, why, topic, target)

    def _add(self, kind: LossKind, where: str, why: str, topic: str, target: str) -> None:
        code = f"{topic}.{kind}" if topic else ""
        self._items[Loss(kind, where, why, code, severity_of(code), "", target)] = None

    def extend(self, losses: Iterable[Loss]) -> None:
        self._items.update(dict.fromkeys(losses))

    def respell(self, spelling: dict[str, str], source: Any = None, before: Iterable[Loss] = ()) -> None:
        """Name places as the source spells them, and put `before` in front.

        `spelling` maps a neutral path, or the end of one (`.strict`), to the paths of the protocol, joined by
        `|`: the first that `source` has, or else the last, is meant.
        """
        spelled = [_respelled(loss, spelling, source) for loss in self._items]
        self._items = dict.fromkeys([*before, *spelled])

    def refuse(self, strict: Strictness = True) -> None:
        """Strict mode: raise LossError where something of at least this severity was dropped or changed.

        What was invented or emulated adds something; it loses nothing.
        """
        lowest = _RANK[strict] if isinstance(strict, str) else 0
        lost = [
            loss
            for loss in self._items
            if loss.kind in ("dropped", "changed") and _RANK[loss.severity] >= lowest
        ]
        if lost:
            raise LossError(lost)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
