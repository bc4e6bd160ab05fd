"""Every error that dragoman raises on purpose reaches another process as it was: nobody lists them here."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
from importlib import import_module
from typing import Any

import cloudpickle
import pytest

import dragoman
from dragoman import DragomanError, Failure, Loss
from dragoman.gateway.config.source import ConfigMistake

SAMPLES: dict[str, Any] = {
    "Failure": Failure("rate_limit", "slow down", 429, retry_after=1.5),
    "list[Loss]": [Loss("dropped", "a.b", "no", "field.unknown.dropped")],
    "Iterable[ConfigMistake]": [ConfigMistake("no", ("server", "port"), 3)],
    "Sequence[str]": ["a", "b"],
    "Path": ("server", "port"),
    "int": 7,
    "str": "a text",
    "HostedError": "unavailable",
}


def errors() -> list[type[DragomanError]]:
    for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
        if module.name.rpartition(".")[2] not in ("__main__", "ray"):
            import_module(module.name)
    found, waiting = set[type[DragomanError]](), [DragomanError]
    while waiting:
        kind = waiting.pop()
        found.add(kind)
        waiting += kind.__subclasses__()
    return sorted(
        (kind for kind in found if kind.__module__.startswith("dragoman")), key=lambda kind: kind.__name__
    )


def made(kind: type[DragomanError]) -> DragomanError:
    own = next((each for each in kind.__mro__ if "__init__" in vars(each)), Exception)
    if not own.__module__.startswith("dragoman"):
        return kind("a text")
    given = [*inspect.signature(own.__init__).parameters.values()][1:]
    return kind(*[SAMPLES[str(each.annotation)] for each in given if each.default is inspect.Parameter.empty])


@pytest.mark.parametrize("kind", errors(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_an_error_arrives(kind: type[DragomanError], dumps: Any) -> None:
    error = made(kind)
    arrived = pickle.loads(dumps(error))
    assert (type(arrived), str(arrived), vars(arrived).keys()) == (
        type(error),
        str(error),
        vars(error).keys(),
    )


def test_all_errors_are_found() -> None:
    assert {dragoman.WireError, dragoman.MissingExtraError, dragoman.OutputError, ConfigMistake} < {*errors()}
