"""Anthropic's context editing over upstreams that have none, and what a reply says of it."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.model import Wire

NOTE = "[Old tool result content cleared]"


def turns(count: int) -> list[Wire]:
    """So many calls, each with thinking before it and a long result behind it."""
    found: list[Wire] = [{"role": "user", "content": "go"}]
    for i in range(count):
        thought = {"type": "thinking", "thinking": f"thought {i}", "signature": ""}
        call = {"type": "tool_use", "id": f"c{i}", "name": "f" if i else "keep_me", "input": {"i": i}}
        result = {"type": "tool_result", "tool_use_id": f"c{i}", "content": f"result {i} " + "x" * 400}
        found += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    return found


def body(*edits: Wire, count: int = 5) -> Wire:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("f", "keep_me")]
    managed = {"context_management": {"edits": list(edits)}} if edits else {}
    return {"model": "m", "max_tokens": 9, "messages": turns(count), "tools": tools, **managed}


def uses(value: int, **more: Any) -> Wire:
    return {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": value},
        "keep": {"type": "tool_uses", "value": 2},
        **more,
    }


TOKENS = {"type": "input_tokens", "value": 300}
# edits -> the calls whose results are left, whether inputs are cleared, how many uses the reply reports
CASES: dict[str, tuple[Wire, list[int], bool, int]] = {
    "more uses than the trigger": (uses(3), [3, 4], False, 3),
    "as many as the trigger": (uses(5), [0, 1, 2, 3, 4], False, 0),
    "inputs too": (uses(3, clear_tool_inputs=True), [3, 4], True, 3),
    "a tool that stays": (uses(3, exclude_tools=["keep_me"]), [0, 3, 4], False, 2),
    "by tokens": (uses(0, trigger=TOKENS), [3, 4], False, 3),
    "fewer tokens": (uses(0, trigger={**TOKENS, "value": 90_000}), [0, 1, 2, 3, 4], False, 0),
    "too little to clear": (
        uses(3, clear_at_least={"type": "input_tokens", "value": 5000}),
        [0, 1, 2, 3, 4],
        False,
        0,
    ),
    "defaults": ({"type": "clear_tool_uses_20250919"}, [0, 1, 2, 3, 4], False, 0),
}


@pytest.mark.parametrize("edit, left, inputs, count", CASES.values(), ids=CASES)
def test_old_tool_uses(edit: Wire, left: list[int], inputs: bool, count: int) -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    messages = exchange.request(body(edit))["messages"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert [i for i, text in enumerate(results) if text != NOTE] == left
    calls = [m["tool_calls"][0]["function"]["arguments"] for m in messages if m.get("tool_calls")]
    assert [text == "{}" for text in calls] == [inputs and i not in left for i in range(5)]
    codes = [loss.code for loss in exchange.losses if loss.code == "context.edit.emulated"]
    assert bool(codes) is bool(count)
    applied = replied(exchange)
    assert [row["cleared_tool_uses"] for row in applied] == [count][: bool(count)]
    assert all(row["cleared_input_tokens"] > 100 for row in applied)


def replied(exchange: dragoman.Exchange) -> list[Wire]:
    """`applied_edits` of a whole reply, after the same in a streamed one."""
    stream = exchange.stream()
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    piece = b"data: %b\n\ndata: [DONE]\n\n" % jsontext.encode(chunk)
    events = (stream.feed(piece) + stream.close()).decode()
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    whole = exchange.response({"id": "r", "model": "m", "choices": [choice]})
    applied = whole["context_management"]["applied_edits"]
    assert jsontext.dumps({"applied_edits": applied}) in events
    return applied


THINKING = {"type": "clear_thinking_20251015"}
KEPT: dict[str, tuple[Any, list[int]]] = {
    "all": ("all", [0, 1, 2]),
    "all, as an object": ({"type": "all"}, [0, 1, 2]),
    "two turns": ({"type": "thinking_turns", "value": 2}, [1, 2]),
    "the default": (None, [2]),
}


@pytest.mark.parametrize("keep, left", KEPT.values(), ids=KEPT)
def test_old_thinking(keep: Any, left: list[int]) -> None:
    """Claude Code sends `keep: all` with every request, which clears nothing."""
    exchange = dragoman.Exchange("anthropic", "gemini")
    edit = THINKING | ({"keep": keep} if keep else {})
    sent = exchange.request(body(edit, count=3))
    assert [i for i in range(3) if f"thought {i}" in str(sent)] == left
    assert [loss.where for loss in exchange.losses if loss.code == "context.edit.emulated"] == (
        ["context_management.edits[0]"] if len(left) < 3 else []
    )
    reply = {
        "candidates": [{"content": {"parts": [{"text": "hi"}], "role": "model"}, "finishReason": "STOP"}]
    }
    applied = exchange.response(reply)["context_management"]["applied_edits"]
    assert [row["cleared_thinking_turns"] for row in applied] == ([3 - len(left)] if len(left) < 3 else [])


def test_without_edits_nothing_is_said() -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    exchange.request(body())
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    assert "context_management" not in exchange.response({"id": "r", "model": "m", "choices": [choice]})


def test_an_upstream_of_the_same_protocol_edits_itself() -> None:
    given = body(uses(3))
    assert dragoman.Exchange("anthropic", "anthropic").request(given) == given
    assert (
        dragoman.Exchange("anthropic", "anthropic", recover=True).request(given)["messages"]
        == given["messages"]
    )


BROKEN = {
    "no value": uses(3, keep={"type": "tool_uses"}),
    "a negative value": uses(3, keep={"type": "tool_uses", "value": -1}),
    "no object": uses(3, trigger=7),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=BROKEN)
def test_a_broken_edit(edit: Wire) -> None:
    with pytest.raises(WireError, match=r"context_management.edits\[0\]"):
        dragoman.Exchange("anthropic", "openai-chat").request(body(edit))


def test_edits_that_nobody_else_knows() -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    exchange.request(body({"type": "clear_everything"}, {"type": "compact_20260112"}))
    codes = {loss.where: loss.code for loss in exchange.losses if "context_management" in loss.where}
    assert codes == {
        "context_management.edits[0]": "field.unknown.dropped",
        "context_management.edits[1]": "compaction.dropped",
    }


COMPACTED: Wire = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": "forgotten"},
        {
            "role": "assistant",
            "content": [
                {"type": "compaction", "content": "It was about cats."},
                {"type": "text", "text": "Yes."},
            ],
        },
        {"role": "user", "content": "And dogs?"},
    ],
    "context_management": {"edits": []},
}


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses", "gemini"])
def test_a_summary_replaces_what_stands_before_it(upstream: str) -> None:
    sent = str(dragoman.Exchange("anthropic", upstream).request(COMPACTED))
    assert "forgotten" not in sent
    assert sent.index("It was about cats.") < sent.index("Yes.") < sent.index("And dogs?")


def test_a_summary_at_the_beginning() -> None:
    """What a client sends after an explicit compaction, without any other field."""
    block = {"type": "compaction", "content": "Cats."}
    messages = [{"role": "user", "content": [block]}, {"role": "user", "content": "And dogs?"}]
    sent = dragoman.Exchange("anthropic", "openai-chat").request(
        {"model": "m", "max_tokens": 9, "messages": messages}
    )
    assert [message["role"] for message in sent["messages"]] == ["user", "user"]
    assert sent["messages"][0]["content"].endswith("Cats.")


def test_a_summary_on_request() -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    wire = {**body(count=1), "compaction": {"type": "summarize", "instructions": "Say it shortly."}}
    sent = exchange.request(wire)
    assert sent["messages"][-1] == {"role": "user", "content": "Say it shortly."}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Short."}, "finish_reason": "stop"}
    reply = exchange.response({"id": "r", "model": "m", "choices": [choice]})
    assert reply["content"] == [{"type": "compaction", "content": "Short."}]
    assert reply["stop_reason"] == "compaction"
    assert "compaction.emulated" in {loss.code for loss in exchange.losses}
    with pytest.raises(WireError, match=r"compaction\.type"):
        exchange.request({**body(), "compaction": {"type": "forget"}})
