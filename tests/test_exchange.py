"""Losses through the public contract: named as their source spells them, each side by its own words."""

from __future__ import annotations

import pytest

import dragoman


def test_losses_of_a_reply_keep_the_words_of_the_upstream() -> None:
    message = {"role": "assistant", "content": "Hi"}
    reply = {
        "id": "c",
        "model": "m",
        "user": "u",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    exchange.response(reply)
    assert [loss.where for loss in exchange.losses] == ["user"]


def test_state_that_is_withheld_is_reported_at_its_part() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turns = [{"role": "assistant", "content": [thinking, {"type": "text", "text": "Hi"}]}]
    exchange = dragoman.Exchange("anthropic", "gemini")
    exchange.request({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}, *turns]})
    (loss,) = [loss for loss in exchange.losses if "state" in loss.why]
    assert loss.where == "messages[1].content[0]"


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses"])
def test_G82_strict_is_left_off_where_it_would_forbid_what_the_schema_allows(upstream: str) -> None:
    env = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"env": env}, "required": ["env"]}
    exchange = dragoman.Exchange("anthropic", upstream)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    (tool,) = exchange.request({**body, "tools": [{"name": "f", "strict": True, "input_schema": schema}]})[
        "tools"
    ]
    tool = tool.get("function", tool)
    assert tool["parameters"] == schema
    assert not tool["strict"]
    assert [loss.where for loss in exchange.losses] == ["tools[0]"]
