"""Stages in a row: what one gives, the next one gets; closing releases what each still holds."""

from collections.abc import Iterable
from typing import Any

from dragoman.core.codec import pipe


class Doubles:
    def feed(self, item: Any, /) -> Iterable[Any]:
        return (item, item)

    def close(self) -> Iterable[Any]:
        return ()


class Pairs:
    """Gives two at a time and keeps the odd one until the end."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def feed(self, item: Any, /) -> Iterable[Any]:
        self._kept.append(item)
        if len(self._kept) < 2:
            return ()
        pair, self._kept = tuple(self._kept), []
        return (pair,)

    def close(self) -> Iterable[Any]:
        return (("alone", *self._kept),) if self._kept else ()


def run(stage: Any, items: Iterable[Any]) -> list[Any]:
    return [out for item in items for out in stage.feed(item)] + list(stage.close())


def test_no_stage_passes_everything_on() -> None:
    assert run(pipe(), "ab") == ["a", "b"]


def test_many_items_pass_through_the_next_stage_one_by_one() -> None:
    assert run(pipe(Doubles(), Pairs()), "ab") == [("a", "a"), ("b", "b")]


def test_what_closing_releases_passes_the_later_stages_before_they_close() -> None:
    assert run(pipe(Pairs(), Doubles(), Pairs()), "abc") == [
        (("a", "b"), ("a", "b")),
        (("alone", "c"), ("alone", "c")),
    ]


def test_a_silent_stage_ends_the_way() -> None:
    assert list(pipe(Pairs(), Doubles()).feed("a")) == []
