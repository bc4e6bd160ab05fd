"""A little of `make fuzz`, the same inputs every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from dragoman.core.errors import WireError
from fuzz import routes
from fuzz.parsers import Target, targets
from fuzz.running import fuzz_parser, fuzz_routes, fuzz_upstreams


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_parsers(target: Target) -> None:
    found = fuzz_parser(target, 250, seed=1)
    assert found.inputs == 250
    assert not found.bugs


@pytest.mark.parametrize("inputs", [routes.bodies, routes.wild], ids=["broken bodies", "broken HTTP"])
def test_routes(inputs: Callable[[Random], Iterator[routes.Sent]]) -> None:
    found = fuzz_routes(inputs, 400, seed=1)
    assert found.inputs == 400
    assert not found.bugs


def test_upstreams() -> None:
    found = fuzz_upstreams(300, seed=1)
    assert found.inputs == 300
    assert not found.bugs


def test_a_bug_is_found() -> None:
    def read(value: object, random: Random) -> None:
        if value:
            raise KeyError("not a WireError")
        raise WireError("x", "", "as it should be")

    target = Target("broken", read, lambda random: iter([0, 1, 0]))
    found = fuzz_parser(target, 10, seed=1)
    assert (found.inputs, found.refused, list(found.bugs.values())) == (3, 2, [1])
