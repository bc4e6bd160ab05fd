"""Errors cross process borders: what they say and hold survives pickling."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import pytest

import dragoman
from dragoman import Failure, Loss, LossError, UpstreamError, WireError
from dragoman.core.model import FailureKind

KINDS = get_args(FailureKind)
ERRORS = [
    WireError("openai-chat", "messages[0]", "expected an object"),
    LossError([Loss("dropped", "seed", "no such setting", "setting.seed.dropped")]),
    *(UpstreamError(Failure(kind, "try later", 503, retry_after=2.5)) for kind in KINDS),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_each_kind_of_failure_has_a_class() -> None:
    classes = {type(UpstreamError(Failure(kind, "no"))) for kind in KINDS}
    assert len(classes) == len(KINDS)
    assert UpstreamError not in classes
    assert {each.__name__ for each in classes} <= set(dragoman.__all__)


def test_kinds_of_failures_are_caught_by_their_family() -> None:
    with pytest.raises(dragoman.BadRequestError):
        raise UpstreamError(Failure("context_too_long", "too many tokens", 400))
    with pytest.raises(dragoman.RateLimitError, match="slow down"):
        raise dragoman.RateLimitError(Failure("rate_limit", "slow down", 429))


def test_the_public_names_are_listed() -> None:
    assert {"run", "tool", "generate", "stream", "Failure"} <= set(dir(dragoman))


def test_packages_of_protocols_and_dialects_are_not_hidden() -> None:
    import dragoman.dialects.hermes as hermes
    import dragoman.protocols.gemini as gemini

    packages: list[Any] = [dragoman.dialects, dragoman.protocols]
    assert hermes.DIALECT.name in packages[0]()
    assert gemini.PROTOCOL.codec.name in packages[1]()
