"""What a translation could not carry across: a list with a code, a kind, a place and a reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ConfigError, LossError
from dragoman.core.jsontext import dumps, is_array, is_object
from dragoman.core.loss_codes import Severity, severity_of
from dragoman.core.model import Text, Wire

LossKind = Literal["dropped", "changed", "invented", "emulated"]
Strictness = bool | Literal["material", "minor", "cosmetic"]
_RANK: dict[Severity, int] = {"cosmetic": 0, "minor": 1, "material": 2}


_FEW, _SHORT = 8, 2000  # losses, and characters of them, of which what is made is remembered


class Loss(Struct, frozen=True, gc=False, cache_hash=True):
    """`where` is the path in the source, `target` the one in the target, where there is one.

    `code` is stable (see loss_codes.py); `value` is the beginning of the source's value there.
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


def as_cache_key(losses: Collection[Loss]) -> tuple[Loss, ...] | None:
    """A key for caches: an agent's requests mostly lose the same few things. None for more, and for long
    texts: places hold names of fields that anybody may send."""
    if len(losses) > _FEW or sum([len(loss.where) + len(loss.why) for loss in losses]) > _SHORT:
        return None
    return tuple(losses)


class Spelling:
    """How a protocol spells places: a neutral path, or the end of one (`.strict`), and the paths of the
    protocol, joined by `|`: the first that the source has, or else the last, is meant.

    A few losses together are spelled once.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._few = lru_cache(256)(self._spelled_alike)

    def spelled(self, losses: Collection[Loss], source: Any = None) -> Iterable[Loss]:
        few = as_cache_key(losses)
        known = self._few(few) if few else None
        return known or [self._spelled(loss, source) for loss in losses]

    def _spelled(self, loss: Loss, source: Any) -> Loss:
        paths = self._paths(loss)
        if not paths:
            return loss
        *first, last = paths
        present = (path for path in first if resolve(source, path) not in (ABSENT, None))
        return replace(loss, where=next(present, last))

    def _spelled_alike(self, losses: tuple[Loss, ...]) -> tuple[Loss, ...] | None:
        """None where a place depends on the source."""
        alike = all(len(self._paths(loss)) < 2 for loss in losses)
        return tuple([self._spelled(loss, None) for loss in losses]) if alike else None

    def paths(self, settings: Iterable[str]) -> list[str]:
        """Where the protocol may say these settings."""
        return [path for name in settings for path in self._names.get(name, name).split("|")]

    def _paths(self, loss: Loss) -> list[str]:
        """Of the protocol; none where it spells the place alike."""
        head, known = "", self._names.get(loss.where)
        if known is None:
            head, dot, last = loss.where.rpartition(".")
            known = self._names.get(f".{last}") if dot else None
        return [] if known is None else [f"{head}{path}" for path in known.split("|")]


class Losses(Struct, eq=False):
    """Collects losses in order; the same loss reported twice is one loss.

    `topic` and the kind of the loss make its code: `losses.dropped(where, why, "tool.strict")` reports
    `tool.strict.dropped`.
    """

    items: dict[Loss, None] = {}

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
        self.items[Loss(kind, where, why, code, severity_of(code), "", target)] = None

    def extend(self, losses: Iterable[Loss]) -> None:
        self.items.update(losses.items if type(losses) is Losses else dict.fromkeys(losses))

    def leave_out(self, places: Collection[str]) -> None:
        """What stands there was not lost after all."""
        if places:
            self.items = {loss: None for loss in self.items if loss.where not in places}

    def respell(self, spelling: Spelling, source: Any = None, before: Iterable[Loss] = ()) -> None:
        """Name places as the source spells them, and put `before` in front."""
        spelled = dict.fromkeys(spelling.spelled(self.items, source))
        self.items = dict.fromkeys(before) | spelled if before else spelled

    def refuse(self, strict: Strictness = True) -> None:
        """Strict mode: raise LossError where something of at least this severity was dropped or changed.

        What was invented or emulated adds something; it loses nothing.
        """
        if isinstance(strict, str) and strict not in _RANK:
            raise ConfigError(f"strict is True, False, {', '.join(map(repr, _RANK))}, not {strict!r}")
        lowest = _RANK[strict] if isinstance(strict, str) else 0
        severe = [loss for loss in self.items if _RANK[loss.severity] >= lowest]
        lost = [loss for loss in severe if loss.kind in ("dropped", "changed")]
        if lost:
            raise LossError(lost)

    def damage(self) -> tuple[int, int, int]:
        """How many were dropped or changed, of each severity, the worst first."""
        lost = Counter([loss.severity for loss in self.items if loss.kind in ("dropped", "changed")])
        return lost["material"], lost["minor"], lost["cosmetic"]

    def with_values(self, *sources: Wire | None) -> list[Loss]:
        """The losses, each with the beginning of what a source holds at its place."""
        return with_values(self.items, *sources)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def report_citations(losses: Losses, text: Text, why: str) -> None:
    """The citations of `text` are left out; those without a URL were reported when they were decoded."""
    for citation in text.citations:
        if citation.url:
            losses.dropped(citation.where or f"{text.where}.citations", why, "citation")


def report_citation_detail(losses: Losses, where: str, why: str) -> None:
    """What the citation at `where` says beside its source is left out: one loss for its whole array."""
    losses.dropped(_LAST_INDEX.sub("", where) or "citations", why, "citation.detail")


def report_unknown_stop(losses: Losses, where: str, raw: str) -> None:
    """Most clients see an ordinary end instead."""
    losses.changed(where, f"No other protocol says {raw}. The nearest reason was sent.", "stop.reason")


def report_stop_sequence(losses: Losses, where: str) -> None:
    """Clients of the other protocols see that the reply ended, not at which of their sequences."""
    losses.dropped(where, "No other protocol names the stop sequence that matched.", "stop.sequence")


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_LAST_INDEX = re.compile(r"\[\d+\]$")
_LONGEST_VALUE = 80
ABSENT = object()


def resolve(source: Any, where: str) -> Any:
    """What `source` holds at the path `where`; `ABSENT` where there is no such place."""
    for name, index in _STEP.findall(where):
        if name and is_object(source) and name in source:
            source = source[name]
        elif index and is_array(source) and int(index) < len(source):
            source = source[int(index)]
        else:
            return ABSENT
    return source


def with_values(losses: Iterable[Loss], *sources: Wire | None) -> list[Loss]:
    """`losses`, each with the beginning of what a source holds at its place."""
    known = [source for source in sources if source is not None]
    return [_with_value(loss, known) if known and not loss.value else loss for loss in losses]


def _with_value(loss: Loss, sources: list[Wire]) -> Loss:
    for source in sources:
        value = resolve(source, loss.where) if loss.where else ABSENT
        if value is not ABSENT:
            try:
                text = value if isinstance(value, str) else dumps(value)
            except (TypeError, ValueError, RecursionError):
                text = type(value).__name__
            short = text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
            return replace(loss, value=short)
    return loss
