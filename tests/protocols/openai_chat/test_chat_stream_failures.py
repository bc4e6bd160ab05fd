"""Usage, failures and losses of Chat streams."""

from typing import Any

import pytest

from dragoman.core.codec import Frame
from dragoman.core.errors import UpstreamError
from dragoman.core.events import PartEnd, PartStart, ResponseEnd, ResponseFailed, fold
from dragoman.core.model import Text, ToolCall, Usage
from protocols.openai_chat.streams import DONE, END, ROLE, USAGE, bare, calls, chunk, decode, piece

USAGES: dict[str, list[Any]] = {
    "G13 a chunk of its own": [chunk({"content": "a"}), END, chunk(usage=USAGE), DONE],
    "G13 a chunk of its own, no [DONE]": [chunk({"content": "a"}), END, chunk(usage=USAGE)],
    "with the finish": [chunk({"content": "a"}), chunk({}, "stop", usage=USAGE), DONE],
    "growing with every chunk": [
        chunk({"content": "a"}, usage={"prompt_tokens": 9}),
        chunk({}, "stop", usage=USAGE),
        DONE,
    ],
    "null before": [
        chunk({"content": "a"}, usage=None),
        chunk({}, "stop", usage=None),
        chunk(usage=USAGE),
        DONE,
    ],
    "hidden by Groq": [
        chunk({"content": "a"}, x_groq={"id": "r"}),
        chunk({}, "stop", x_groq={"usage": USAGE}),
        DONE,
    ],
}


@pytest.mark.parametrize("items", USAGES.values(), ids=USAGES)
def test_where_usage_stands(items: list[Any]) -> None:
    events, losses = decode(*items)
    assert fold(events).usage == Usage(9, 5, 4)
    assert losses == []


FAILURES: dict[str, tuple[list[Any], str, str]] = {
    "D11 only the thinking is finished": (
        [ROLE, chunk({"content": "a", "phase": "think", "status": "finished"})],
        "truncated",
        "the upstream's stream ended without a finish reason or [DONE]",
    ),
    "G15 an error chunk": (
        [ROLE, chunk({"content": "a"}), {"error": {"message": "boom", "type": "server_error", "code": None}}],
        "server",
        "boom",
    ),
    "G15 an error ahead": (
        [{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}],
        "rate_limit",
        "slow down",
    ),
    "an error with a status as its code": (
        [{"error": {"message": "busy", "code": 503}}],
        "overloaded",
        "busy",
    ),
    "an error as a word": ([ROLE, {"error": "boom"}], "server", "boom"),
    "an event named error, without a word": ([Frame("error", b"{}")], "server", "the upstream failed"),
    "a named error": ([Frame("error", b'{"message":"boom"}')], "server", "boom"),
    "an error beside choices (OpenRouter)": (
        [chunk({"content": "a"}), chunk({"content": ""}, "error", error={"code": 502, "message": "gone"})],
        "server",
        "gone",
    ),
    "G14 cut inside text": (
        [ROLE, chunk({"content": "a"})],
        "truncated",
        "the upstream's stream ended without a finish reason or [DONE]",
    ),
    "G14 cut inside a call": (
        [calls(piece(0, "c1", "f", '{"a'))],
        "truncated",
        "the upstream's stream ended without a finish reason or [DONE]",
    ),
    "G14 nothing at all": ([], "truncated", "the upstream's stream ended without a finish reason or [DONE]"),
    "[DONE] and nothing else": ([ROLE, DONE], "truncated", "the upstream's stream ended without any content"),
}


@pytest.mark.parametrize("row", FAILURES.values(), ids=FAILURES)
def test_how_a_stream_fails(row: tuple[list[Any], str, str]) -> None:
    items, kind, message = row
    events, _ = decode(*items)
    with pytest.raises(UpstreamError) as raised:
        fold(events)
    assert (raised.value.failure.kind, raised.value.failure.message) == (kind, message)
    assert isinstance(events[-1], ResponseFailed)
    assert len([e for e in events if isinstance(e, PartStart)]) == len(
        [e for e in events if isinstance(e, PartEnd)]
    )


def test_g14_a_call_that_the_network_cut_is_incomplete() -> None:
    events, _ = decode(chunk({"content": "a"}), calls(piece(0, "c1", "f", '{"a')))
    assert [event.complete for event in events if isinstance(event, PartEnd)] == [True, False]


LOSSES: dict[str, tuple[list[Any], list[str]]] = {
    "G07 a name that never comes": (
        [chunk({"content": "a"}), calls(piece(0, "c9", None, "{}")), END, DONE],
        ["dropped c9: The name of this call never came, so it cannot run."],
    ),
    "another choice": (
        [
            {**chunk({"content": "a"}), "choices": [{"index": 1, "delta": {"content": "b"}}]},
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        ["dropped choices[1]: Only the first choice is passed on."],
    ),
    "probabilities": (
        [
            {**chunk(), "choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [1]}}]},
            END,
            DONE,
        ],
        ["dropped choices[0].logprobs: Only openai-chat has this field."],
    ),
    "unknown fields": (
        [chunk({"content": "a", "magic": 1}, x_new=1), {**END, "citations": ["https://a"]}, DONE],
        [
            "dropped x_new: Only openai-chat has this field.",
            "dropped choices[0].delta.magic: Only openai-chat has this field.",
            "dropped citations: Only openai-chat has this field.",
        ],
    ),
    "sources without a text": (
        [
            chunk(
                {
                    "role": "assistant",
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a"}}],
                }
            ),
            END,
            DONE,
        ],
        ["dropped choices[0].delta.annotations: The reply has no text that they could belong to."],
    ),
    "an error after the finish, which stands (OpenRouter)": (
        [
            chunk({"content": "a"}),
            chunk({}, "length"),
            chunk({}, error={"code": 400, "message": "limit"}),
            DONE,
        ],
        ["dropped error: Only openai-chat has this field."],
    ),
    "bookkeeping": (
        [chunk({"content": "a"}, obfuscation="xx", service_tier="d", system_fingerprint="f"), END, DONE],
        [],
    ),
}


@pytest.mark.parametrize("row", LOSSES.values(), ids=LOSSES)
def test_what_a_stream_loses(row: tuple[list[Any], list[str]]) -> None:
    items, lost = row
    events, losses = decode(*items)
    assert losses == lost
    assert isinstance(events[-1], ResponseEnd)
    assert not any(isinstance(event, PartStart) and isinstance(event.part, ToolCall) for event in events)


def test_unknown_fields_of_a_call_are_reported() -> None:
    _, losses = decode(calls(piece(0, "c9", "f", "{}", x_new=1)), chunk({}, "tool_calls"), DONE)
    assert losses == ["dropped choices[0].delta.tool_calls.x_new: Only openai-chat has this field."]


def test_a_second_choice_leaves_the_first_alone() -> None:
    other = {**chunk(), "choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    response = fold(decode(chunk({"content": "a"}), other, chunk({"content": "b"}), END, other, DONE)[0])
    assert [bare(part) for part in response.parts] == [Text("ab")]
