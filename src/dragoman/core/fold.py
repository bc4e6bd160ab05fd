"""Folds: what a conversation passes through, message by message, with explicit parameters and state.

    wire messages → decode → identify → pair → name → (dialect) → encode → text

The fields of a fold are everything that it may read beside its items, and the state of its run is everything
that later items may depend on. So two runs of equal folds from equal states do the same, and whoever keeps
states may go on from one of them (`memory/`). No fold knows whether anybody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.losses import Losses
from dragoman.core.model import Message


class Restart(Exception):
    """What was made of earlier items cannot be continued: begin again at the start, with all of them."""


class FoldRun:
    """A fold under way, private to one request.

    Items come in rows; how they are divided into rows changes nothing. A run is mutable, so `state` copies:
    it is asked for only where somebody keeps it. Its losses are reported phase by phase: first those of the
    first phase, of all items.
    """

    def __init__(self, phases: int = 1) -> None:
        self.losses = Losses()
        self.phases: tuple[Losses, ...] = (self.losses,)
        if phases > 1:
            self.phases += tuple([Losses() for _ in range(1, phases)])

    def feed(self, items: Sequence[Any], /) -> Sequence[Any]:
        raise NotImplementedError

    def close(self) -> Sequence[Any]:
        """No more items will come: what was held back."""
        return ()

    def state(self) -> Any:
        return None

    def facts(self) -> Any:
        """What others need to know of all items so far."""
        return None

    def reported(self) -> Iterable[Losses]:
        """The phases to report, in their order."""
        return self.phases


class Fold(Struct, frozen=True):
    def begin(self, state: Any = None) -> FoldRun:
        """A run from the start, or from where another run of an equal fold was in this state."""
        raise NotImplementedError


class Row:
    """Folds in a row, under way."""

    def __init__(self, folds: Sequence[Fold], states: Sequence[Any] | None = None) -> None:
        states = (None,) * len(folds) if states is None else states
        self.runs = [fold.begin(state) for fold, state in zip(folds, states, strict=True)]

    def feed(self, items: Sequence[Any]) -> Sequence[Any]:
        for run in self.runs:
            items = run.feed(items)
        return items

    def close(self) -> list[Any]:
        """What the folds held back, each past those after it."""
        out: list[Any] = []
        for place, run in enumerate(self.runs):
            items = run.close()
            if items:
                for after in self.runs[place + 1 :]:
                    items = after.feed(items)
                out += items
        return out

    def whole(self, items: Sequence[Any]) -> list[Any]:
        return [*self.feed(items), *self.close()]

    def states(self) -> tuple[Any, ...]:
        return tuple([run.state() for run in self.runs])

    def report(self, losses: Losses) -> None:
        report(self.runs, losses)


def report(runs: Sequence[FoldRun], losses: Losses) -> None:
    """What `runs` lost, one after the other."""
    for run in runs:
        for phase in run.reported():
            if phase.items:
                losses.extend(phase)


class EachRun(FoldRun):
    """Changes each item by itself: `function(item, losses)`."""

    def __init__(self, function: Callable[[Any, Losses], Any]) -> None:
        super().__init__()
        self._function = function

    def feed(self, items: Sequence[Any], /) -> list[Any]:
        function, losses = self._function, self.losses
        return [function(item, losses) for item in items]


class DecodeRun(FoldRun):
    """Decodes each entry of the array in `field`; `state` is how many came before."""

    def __init__(self, decode: Callable[[Any, str, Losses], Message], field: str, state: Any) -> None:
        super().__init__()
        self._decode, self._field, self.count = decode, field, state or 0

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        decode, field, losses, first = self._decode, self._field, self.losses, self.count
        self.count += len(items)
        return [decode(item, f"{field}[{i}]", losses) for i, item in enumerate(items, first)]

    def state(self) -> Any:
        return self.count


class EncodedMessages:
    """The messages of a request on the upstream's wire: `entries`, and what its other fields need of them.

    `facts` are those of the first fold that encoded them.
    """

    def __init__(self, entries: Any, facts: Any, report: Callable[[Losses], None]) -> None:
        self.entries, self.facts, self.report = entries, facts, report


def encode_whole(folds: Sequence[Fold], messages: Sequence[Message]) -> EncodedMessages:
    row = Row(folds)
    return EncodedMessages(row.whole(messages), row.runs[0].facts(), row.report)
