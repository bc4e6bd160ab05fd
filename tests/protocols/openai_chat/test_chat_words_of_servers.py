"""Fields that some servers of Chat have, and their clients send to all of them."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext

CLAUDE, GEMINI = "claude-sonnet-4-5", "gemini-2.5-flash"
MARK = {"type": "ephemeral"}


def sent(upstream: str, model: str, messages: Any = None, **fields: Any) -> tuple[Any, list[tuple[str, str]]]:
    exchange = dragoman.Exchange("openai-chat", upstream)
    asked = messages or [{"role": "user", "content": "hi"}]
    body = exchange.request({"model": model, "messages": asked, "max_tokens": 9000, **fields})
    return body, [(loss.code, loss.where) for loss in exchange.losses if loss.kind != "invented"]


@pytest.mark.parametrize("upstream", [name for name in dragoman.protocols() if name != "openai-chat"])
def test_a_wish_for_usage_is_no_loss(upstream: str) -> None:
    assert not sent(upstream, "m", usage={"include": True})[1]
    assert sent(upstream, "m", usage={"include": True, "more": 1})[1]


@pytest.mark.parametrize(
    "fields", [{"usage": {"include": True}}, {"stream_options": {"include_usage": True}}, {}]
)
def test_a_wish_for_usage_is_granted_in_a_stream(fields: Any) -> None:
    exchange = dragoman.Exchange("openai-chat", "gemini")
    exchange.request(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], **fields}
    )
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    candidate = {"content": {"parts": [{"text": "Hi"}], "role": "model"}, "finishReason": "STOP"}
    reply = jsontext.encode({"candidates": [candidate], "usageMetadata": counts})
    stream = exchange.stream()
    out = stream.feed(b"data: %b\n\n" % reply) + stream.close()
    assert (b'"total_tokens":5' in out) == bool(fields)


HIDDEN = [{"include_reasoning": False}, {"reasoning_format": "hidden"}, {"reasoning": {"exclude": True}}]
SHOWN = [{"include_reasoning": True}, {"reasoning_format": "parsed"}, {"reasoning": {"exclude": False}}]


@pytest.mark.parametrize("fields", HIDDEN + SHOWN, ids=str)
def test_whether_reasoning_is_shown(fields: Any) -> None:
    effort = {"reasoning_effort": "high"}
    asked, losses = sent("openai-responses", "gpt-5", **effort, **fields)
    assert ("summary" in asked["reasoning"], losses) == (fields in SHOWN, [])
    asked, losses = sent("gemini", GEMINI, **effort, **fields)
    assert asked["generationConfig"]["thinkingConfig"].get("includeThoughts", False) == (fields in SHOWN)
    _, losses = sent("anthropic", CLAUDE, **effort, **fields)
    name = next(iter(fields))
    where = "reasoning.exclude" if name == "reasoning" else name
    hidden = [("setting.show_reasoning.dropped", where)]  # the model shows its thinking
    assert [loss for loss in losses if "effort" not in loss[0]] == (hidden if fields in HIDDEN else [])


def test_the_seed_of_mistral_clients() -> None:
    asked, losses = sent("gemini", GEMINI, random_seed=7)
    assert (asked["generationConfig"]["seed"], losses) == (7, [])
    assert sent("gemini", GEMINI, random_seed=7, seed=8)[0]["generationConfig"]["seed"] == 8
    assert sent("anthropic", CLAUDE, random_seed=7)[1] == [("setting.seed.dropped", "random_seed")]
    assert sent("openai-chat", "mistral-large", random_seed=7)[0]["random_seed"] == 7


SAID = {"role": "user", "content": "hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MARKED: list[Any] = [
    {"role": "system", "content": "Be brief.", "cache_control": MARK},
    {
        **SAID,
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "cache_control": MARK,
    },
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "rain", "cache_control": MARK},
]


def test_a_mark_of_a_whole_message_is_one_of_its_last_part() -> None:
    asked, losses = sent("anthropic", CLAUDE, MARKED)
    assert asked["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert [block.get("cache_control") for block in asked["messages"][0]["content"]] == [None, MARK]
    assert "cache_control" in str(asked["messages"][2]["content"])
    assert losses == []


def test_a_mark_of_a_whole_message_is_reported_where_it_stands() -> None:
    _, losses = sent("gemini", GEMINI, MARKED)
    assert losses == [("cache.breakpoint.dropped", f"messages[{i}].cache_control") for i in (0, 1, 3)]


def test_a_marked_message_marks_its_last_call() -> None:
    messages = [SAID, {**MARKED[2], "cache_control": MARK}, MARKED[3]]
    body, losses = sent("anthropic", CLAUDE, messages)
    assert body["messages"][1]["content"][-1]["cache_control"] == MARK
    assert losses == []
    where = ("cache.breakpoint.dropped", "messages[1].cache_control")
    assert where in sent("gemini", GEMINI, messages)[1]


def test_a_marked_message_returns_to_chat_as_it_came() -> None:
    """With a dialect it is not forwarded but written again."""
    exchange = dragoman.Exchange("openai-chat", "openai-chat", dialect="hermes")
    asked = exchange.request({"model": "gpt-5", "messages": MARKED[:2]})
    assert asked["messages"] == MARKED[:2]


@pytest.mark.parametrize("upstream", [name for name in dragoman.protocols() if name != "openai-chat"])
def test_a_refusal_of_the_history_is_sent_as_text_and_reported(upstream: str) -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I can't."}
    asked = {"role": "user", "content": "hi"}
    body, losses = sent(upstream, CLAUDE, [asked, refused, asked])
    assert "I can't." in jsontext.dumps(body)
    assert [code for code, _ in losses] == ["message.refusal.changed"]
