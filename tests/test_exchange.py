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


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize(
    "client, id",
    [("anthropic", "msg_abc"), ("openai-responses", "resp_abc"), ("gemini", "abc"), ("openai-chat", "abc")],
)
def test_a_reply_without_an_id_gets_the_one_that_is_given(client: str, id: str, streamed: bool) -> None:
    """Claude Code joins two replies with one id, so that calls made one after another look like one turn."""
    exchange = dragoman.Exchange(client, "openai-chat", dialect="hermes", reply_id="abc")
    message = {"role": "assistant", "content": "Hi"}
    if streamed:
        told = exchange.stream().feed(b'data: {"id":"","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
        assert f'"{id}"'.encode() in told
    else:
        reply = exchange.response({"id": "", "model": "m", "choices": [{"index": 0, "message": message}]})
        assert (reply.get("id") or reply["responseId"]) == id


def test_a_reply_with_an_id_keeps_it() -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat", reply_id="abc")
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
    assert exchange.response({"id": "own", "model": "m", "choices": [choice]})["id"] == "msg_own"
