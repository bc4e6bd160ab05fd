"""Stages: a stream is stages in a row. A stage never touches a socket, a clock or a global."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    """`feed` takes one item and gives what follows from it; `close` says that no more will come."""

    def feed(self, item: In, /) -> Iterable[Out]: ...

    def close(self) -> Iterable[Out]: ...


class Pipe:
    """Stages in a row, as one stage."""

    __slots__ = ("_feeds", "_stages")

    def __init__(self, stages: Sequence[Stage[Any, Any]]) -> None:
        self._stages = tuple(stages)
        self._feeds = tuple(stage.feed for stage in stages)

    def feed(self, item: Any, /) -> Sequence[Any]:
        return _through(self._feeds, (item,))

    def close(self) -> list[Any]:
        """Close the stages from first to last; what one releases passes through those after it."""
        out: list[Any] = []
        for position, stage in enumerate(self._stages):
            out += _through(self._feeds[position + 1 :], tuple(stage.close()))
        return out


def _through(feeds: tuple[Callable[[Any], Any], ...], items: Any) -> Sequence[Any]:
    for feed in feeds:
        if items.__class__ is tuple and len(items) == 1:  # nearly always: one event in, one event out
            items = feed(items[0])
        else:
            items = [out for item in items for out in feed(item)]
            if not items:
                break
    return tuple(items)


def pipe(*stages: Stage[Any, Any]) -> Pipe:
    return Pipe(stages)
