"""A loss shows the beginning of what its source holds there."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core.errors import ConfigError
from dragoman.core.losses import ABSENT, resolve

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "seed": 7,
    "logit_bias": {"50256": -100},
    "x_note": "long " * 40,
}


def test_values_of_a_request() -> None:
    exchange = dragoman.Exchange("openai-chat", "anthropic")
    exchange.request(BODY)
    values = {loss.where: loss.value for loss in exchange.losses}
    assert (values["seed"], values["logit_bias"]) == ("7", '{"50256":-100}')
    assert values["x_note"] == ("long " * 40)[:79] + "…"
    assert [loss.value for loss in exchange.bare_losses] == [""] * len(exchange.losses)


@pytest.mark.parametrize(
    "where, found",
    [
        ("messages[0].content", "hi"),
        ("messages[0]", BODY["messages"][0]),
        ("messages[1]", ABSENT),
        ("messages.content", ABSENT),
        ("seed.x", ABSENT),
        ("", BODY),
    ],
)
def test_a_path_is_resolved(where: str, found: Any) -> None:
    assert resolve(BODY, where) is found


@pytest.mark.parametrize(
    "strict, refused", [(True, True), ("minor", True), ("material", False), (False, False)]
)
def test_strict_takes_a_level(strict: Any, refused: bool) -> None:
    exchange = dragoman.Exchange("openai-chat", "anthropic", strict=strict)
    body = {"model": "m", "messages": BODY["messages"], "max_tokens": 5, "seed": 7}
    if not refused:
        exchange.request(body)
        return
    with pytest.raises(dragoman.LossError):
        exchange.request(body)


def test_an_unknown_level_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        dragoman.Exchange("openai-chat", "anthropic", strict="much").request(BODY)  # pyright: ignore[reportArgumentType] - on purpose
