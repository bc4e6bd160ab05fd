"""Errors cross process borders: what they say and hold survives pickling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import dragoman
from dragoman import Failure, Loss, LossError, UpstreamError, WireError

ERRORS = [
    WireError("openai-chat", "messages[0]", "expected an object"),
    LossError([Loss("dropped", "seed", "no such setting", "setting.seed.dropped")]),
    UpstreamError(Failure("overloaded", "try later", 503, retry_after=2.5)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_the_public_names_are_listed() -> None:
    assert {"run", "tool", "generate", "stream", "Failure"} <= set(dir(dragoman))


def test_packages_of_protocols_and_dialects_are_not_hidden() -> None:
    import dragoman.dialects.hermes as hermes
    import dragoman.protocols.gemini as gemini

    packages: list[Any] = [dragoman.dialects, dragoman.protocols]
    assert hermes.DIALECT.name in packages[0]()
    assert gemini.PROTOCOL.codec.name in packages[1]()
