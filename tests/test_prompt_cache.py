"""Cache breakpoints between protocols: carried where the upstream takes them, reported where it does not."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core.model import Wire
from dragoman.profiles import profile_of

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
EXPLICIT = {"mode": "explicit"}
LONG = {"mode": "explicit", "ttl": "12h"}
CODES = {"cache.breakpoint.dropped"}

MESSAGES: Wire = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": HOUR}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok", "cache_control": MARK}],
        },
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
}


def exchange(client: str, upstream: str, provider: str = "", model: str = "m") -> dragoman.Exchange:
    return dragoman.Exchange(client, upstream, profile=profile_of(model, provider, upstream))


def codes(made: dragoman.Exchange) -> set[str]:
    return {loss.code for loss in made.losses if loss.code.startswith("cache.")}


def test_anthropic_to_openai_chat() -> None:
    made = exchange("anthropic", "openai-chat", "openai-chat", "gpt-5.6")
    system, user, _, result = made.request(MESSAGES)["messages"]
    assert system["content"] == [{"type": "text", "text": "Be brief.", "prompt_cache_breakpoint": LONG}]
    assert user["content"] == [{"type": "text", "text": "hi", "prompt_cache_breakpoint": EXPLICIT}]
    assert result["content"] == [{"type": "text", "text": "ok", "prompt_cache_breakpoint": EXPLICIT}]
    assert codes(made) == set()


def test_anthropic_to_openai_responses() -> None:
    """`instructions` is one text, so only its mark is lost."""
    made = exchange("anthropic", "openai-responses", "openai", "gpt-5.6")
    user, _, result = made.request(MESSAGES)["input"]
    assert user["content"] == [{"type": "input_text", "text": "hi", "prompt_cache_breakpoint": EXPLICIT}]
    assert result["output"] == [{"type": "input_text", "text": "ok", "prompt_cache_breakpoint": EXPLICIT}]
    assert [loss.where for loss in made.losses if loss.code in CODES] == ["system[0].cache_control"]


def test_anthropic_to_openrouter() -> None:
    made = exchange("anthropic", "openai-chat", "openrouter", "anthropic/claude-sonnet-4.5")
    system, user, _, result = made.request(MESSAGES)["messages"]
    assert system["content"] == [{"type": "text", "text": "Be brief.", "cache_control": HOUR}]
    assert user["content"] == [{"type": "text", "text": "hi", "cache_control": MARK}]
    assert result["content"] == [{"type": "text", "text": "ok", "cache_control": MARK}]
    assert codes(made) == set()


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses", "gemini"])
def test_an_upstream_without_breakpoints(upstream: str) -> None:
    made = exchange("anthropic", upstream)
    body = made.request(MESSAGES)
    assert "cache" not in str(body)
    places = [loss.where for loss in made.losses if loss.code in CODES]
    assert places == [
        "messages[0].content[0].cache_control",
        "messages[2].content[0].cache_control",
        "system[0].cache_control",
    ]
    plain = {"role": "user", "content": "hi"}
    assert upstream != "openai-chat" or body["messages"][1] == plain


CHAT: Wire = {
    "model": "m",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": LONG}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c", "prompt_cache_breakpoint": EXPLICIT}]},
    ],
}
RESPONSES: Wire = {
    "model": "m",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": LONG}]},
        {"role": "assistant", "content": "b"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "c", "prompt_cache_breakpoint": EXPLICIT}],
        },
    ],
}


@pytest.mark.parametrize("client, body", [("openai-chat", CHAT), ("openai-responses", RESPONSES)])
def test_openai_to_anthropic(client: str, body: Wire) -> None:
    made = exchange(client, "anthropic", "anthropic", "claude-sonnet-4-5")
    out = made.request(body)
    assert out["messages"][0]["content"] == [{"type": "text", "text": "a", "cache_control": HOUR}]
    assert out["messages"][2]["content"] == [{"type": "text", "text": "c", "cache_control": MARK}]
    assert "cache_control" not in out  # the client chose its breakpoints
    assert codes(made) == set()


CALL: Wire = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = "https://a.test/b.png"
FILE: Wire = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}
ANSWERED = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "cache_control": MARK}]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
]
# client: (messages or input, place of the marked block)
MARKED: dict[str, tuple[str, list[Wire], int]] = {
    "an image of Chat": (
        "openai-chat",
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": IMAGE}, "cache_control": MARK}],
            }
        ],
        0,
    ),
    "a file of Chat": (
        "openai-chat",
        [{"role": "user", "content": [{"type": "file", "file": FILE, "prompt_cache_breakpoint": EXPLICIT}]}],
        0,
    ),
    "a document of Mistral": (
        "openai-chat",
        [
            {
                "role": "user",
                "content": [{"type": "document_url", "document_url": IMAGE, "cache_control": MARK}],
            }
        ],
        0,
    ),
    "a call of Chat": ("openai-chat", ANSWERED, 1),
    "an image of Responses": (
        "openai-responses",
        [
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": IMAGE, "prompt_cache_breakpoint": EXPLICIT}],
            }
        ],
        0,
    ),
}


@pytest.mark.parametrize("client, messages, at", MARKED.values(), ids=MARKED)
def test_marks_of_media_and_calls(client: str, messages: list[Wire], at: int) -> None:
    made = exchange(client, "anthropic", "anthropic", "claude-sonnet-4-5")
    body: Wire = {"model": "m", ("input" if client == "openai-responses" else "messages"): messages}
    (block,) = made.request(body)["messages"][at]["content"]
    assert block["cache_control"] == MARK
    assert codes(made) == set()
    assert exchange(client, client).request(body) == body
    unmarked = exchange(client, "gemini")
    assert "cache_control" not in str(unmarked.request(body))
    assert codes(unmarked) == CODES


def test_more_breakpoints_than_the_upstream_takes() -> None:
    """OpenAI's clients may repeat those of earlier turns; the last four are sent."""
    turns: list[Any] = []
    for i in range(6):
        mark = {"type": "text", "text": f"q{i}", "prompt_cache_breakpoint": EXPLICIT}
        turns += [{"role": "user", "content": [mark]}, {"role": "assistant", "content": f"a{i}"}]
    made = exchange("openai-chat", "anthropic", "anthropic")
    out = made.request({"model": "m", "messages": turns[:-1]})
    marked = [message["content"][0]["text"] for message in out["messages"] if "cache_control" in str(message)]
    assert marked == ["q2", "q3", "q4", "q5"]
    places = [loss.where for loss in made.losses if loss.code in CODES]
    assert sorted(places) == [f"messages[{i}].content[0].prompt_cache_breakpoint" for i in (0, 2)]


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
AUTOMATIC: dict[str, tuple[Wire, str, bool]] = {
    "an agent": ({"tools": TOOLS}, "anthropic", True),
    "a conversation": ({"messages": CHAT["messages"][1:2] * 3}, "anthropic", True),
    "one question": ({}, "anthropic", False),
    "a server that may not know it": ({"tools": TOOLS}, "", False),
}


@pytest.mark.parametrize("more, provider, expected", AUTOMATIC.values(), ids=AUTOMATIC)
def test_clients_that_cannot_ask(more: Wire, provider: str, expected: bool) -> None:
    """Anthropic caches nothing by itself; what pays off for agents costs a single question more."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}
    out = exchange("openai-chat", "anthropic", provider).request(body)
    assert (out.get("cache_control") == MARK) is expected


USAGE = {
    "input_tokens": 5,
    "cache_read_input_tokens": 70,
    "cache_creation_input_tokens": 25,
    "output_tokens": 3,
}
REPLY: Wire = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": USAGE,
}


def test_reads_and_writes_in_every_usage() -> None:
    chat = exchange("openai-chat", "anthropic").response(REPLY)
    assert chat["usage"]["prompt_tokens"] == 100
    details = chat["usage"]["prompt_tokens_details"]
    assert (details["cached_tokens"], details["cache_write_tokens"]) == (70, 25)
    responses = exchange("openai-responses", "anthropic").response(REPLY)["usage"]
    assert responses["input_tokens_details"] == {"cached_tokens": 70, "cache_write_tokens": 25}
    gemini = exchange("gemini", "anthropic").response(REPLY)["usageMetadata"]
    assert (gemini["promptTokenCount"], gemini["cachedContentTokenCount"]) == (100, 70)
    back = exchange("anthropic", "openai-chat").response(chat)["usage"]
    assert {key: back[key] for key in USAGE} == USAGE
    back = exchange("anthropic", "openai-responses").response(
        exchange("openai-responses", "anthropic").response(REPLY)
    )
    assert {key: back["usage"][key] for key in USAGE} == USAGE
