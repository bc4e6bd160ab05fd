"""Seed 003: calls read from a reply, and the messages that answer them, in each protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dragoman
from seeds.wires import PROTOCOLS, Call, Wire, rows, sse, whole_reply

PARIS, PRINTED = {"location": "Paris"}, '{"location":"Paris"}'
OUTPUT = '{"temperature":25}'

# The reply around the seed's call: (body, id)
REPLIES: dict[str, tuple[Wire, str]] = {
    "openai-chat": (
        {
            "choices": [
                {
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "call_xxx",
                                "type": "function",
                                "function": {"name": "get_weather", "arguments": PRINTED},
                            }
                        ],
                    },
                }
            ]
        },
        "call_xxx",
    ),
    "openai-responses": (
        {
            "output": [
                {"type": "function_call", "call_id": "call_123", "name": "get_weather", "arguments": PRINTED}
            ]
        },
        "call_123",
    ),
    "anthropic": (
        {
            "role": "assistant",
            "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "toolu_abc", "name": "get_weather", "input": PARIS}],
        },
        "toolu_abc",
    ),
    "gemini": (
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"functionCall": {"id": "fc1", "name": "get_weather", "args": PARIS}}],
                    }
                }
            ]
        },
        "fc1",
    ),
}
# What the seed appends to the conversation
CONTINUATIONS: dict[str, list[Wire]] = {
    "openai-chat": [{"role": "tool", "tool_call_id": "call_xxx", "content": OUTPUT}],
    "openai-responses": [{"type": "function_call_output", "call_id": "call_123", "output": OUTPUT}],
    "anthropic": [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_abc", "content": OUTPUT}],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "fc1",
                        "name": "get_weather",
                        "response": {"temperature": 25},
                    }
                }
            ],
        }
    ],
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
@pytest.mark.parametrize(
    "form", [dict, json.dumps, lambda body: json.dumps(body).encode()], ids=["object", "text", "bytes"]
)
def test_parse(protocol: str, form: Any) -> None:
    body, id = REPLIES[protocol]
    (call,) = dragoman.parse_tool_calls(form(body), protocol)
    assert (call.id, call.name, json.loads(call.arguments)) == (id, "get_weather", PARIS)


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
def test_arguments_that_are_text_stay_as_the_model_wrote_them(protocol: str) -> None:
    (call,) = dragoman.parse_tool_calls(REPLIES[protocol][0], protocol)
    assert call.arguments == PRINTED


@every_protocol
def test_build(protocol: str) -> None:
    calls = dragoman.parse_tool_calls(REPLIES[protocol][0], protocol)
    assert dragoman.build_tool_results(calls, [OUTPUT], protocol) == CONTINUATIONS[protocol]


@every_protocol
def test_structured_output_is_sent_as_its_json(protocol: str) -> None:
    calls = dragoman.parse_tool_calls(REPLIES[protocol][0], protocol)
    assert dragoman.build_tool_results(calls, [{"temperature": 25}], protocol) == CONTINUATIONS[protocol]


@every_protocol
def test_outputs_by_id(protocol: str) -> None:
    body, id = REPLIES[protocol]
    calls = dragoman.parse_tool_calls(body, protocol)
    assert dragoman.build_tool_results(calls, {id: OUTPUT}, protocol) == CONTINUATIONS[protocol]


@every_protocol
def test_no_calls_in_a_plain_answer(protocol: str) -> None:
    assert dragoman.parse_tool_calls(whole_reply(protocol, "Sunny."), protocol) == []
    assert dragoman.build_tool_results([], [], protocol) == []


TWO = [Call("call_1", "get_weather", PARIS), Call("call_2", "get_time", {})]
ANSWERED: dict[str, Any] = {
    "openai-chat": [
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    ],
    "openai-responses": [
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "call_2", "content": "noon"},
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "call_1",
                        "name": "get_weather",
                        "response": {"output": "sunny"},
                    }
                },
                {"functionResponse": {"id": "call_2", "name": "get_time", "response": {"output": "noon"}}},
            ],
        }
    ],
}


@every_protocol
def test_several_calls_are_answered_in_their_order(protocol: str) -> None:
    calls = dragoman.parse_tool_calls(whole_reply(protocol, "", TWO), protocol)
    assert [call.name for call in calls] == ["get_weather", "get_time"]
    assert dragoman.build_tool_results(calls, ["sunny", "noon"], protocol) == ANSWERED[protocol]
    by_id = {"call_2": "noon", "call_1": "sunny"}
    assert dragoman.build_tool_results(calls, by_id, protocol) == ANSWERED[protocol]


FAILED: dict[str, Any] = {
    "openai-chat": [
        {"role": "tool", "tool_call_id": "call_xxx", "content": "Error: ValueError: no such city"}
    ],
    "openai-responses": [
        {
            "type": "function_call_output",
            "call_id": "call_123",
            "output": "Error: ValueError: no such city",
        }
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_abc",
                    "content": "ValueError: no such city",
                    "is_error": True,
                }
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "fc1",
                        "name": "get_weather",
                        "response": {"error": "ValueError: no such city"},
                    }
                }
            ],
        }
    ],
}


@every_protocol
def test_a_failed_tool(protocol: str) -> None:
    calls = dragoman.parse_tool_calls(REPLIES[protocol][0], protocol)
    results = dragoman.build_tool_results(calls, [ValueError("no such city")], protocol)
    assert results == FAILED[protocol]


@rows("source, target", [(a, b) for a in PROTOCOLS for b in PROTOCOLS])
def test_calls_of_one_protocol_answered_in_another(source: str, target: str) -> None:
    calls = dragoman.parse_tool_calls(whole_reply(source, "", TWO), source)
    assert dragoman.build_tool_results(calls, ["sunny", "noon"], target) == ANSWERED[target]


# Strictness, as the seed asks for it


@every_protocol
def test_an_error_is_not_a_reply_without_calls(protocol: str) -> None:
    with pytest.raises(dragoman.UpstreamError, match="too much"):
        dragoman.parse_tool_calls({"error": {"message": "too much", "code": 429}}, protocol)


@every_protocol
@pytest.mark.parametrize("body", ["[]", "{", "7", b"\xff", sse({"choices": []})], ids=repr)
def test_what_is_no_reply_at_all(protocol: str, body: Any) -> None:
    with pytest.raises(dragoman.WireError):
        dragoman.parse_tool_calls(body, protocol)


@every_protocol
def test_an_output_for_each_call(protocol: str) -> None:
    calls = dragoman.parse_tool_calls(whole_reply(protocol, "", TWO), protocol)
    with pytest.raises(dragoman.ConfigError, match="2 calls need as many outputs, got 1"):
        dragoman.build_tool_results(calls, ["sunny"], protocol)


CUT: dict[str, Wire] = {
    "openai-chat": {
        "choices": [
            {
                "finish_reason": "length",
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "b'}}
                    ],
                },
            }
        ]
    },
    "openai-responses": {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {
                "type": "function_call",
                "status": "incomplete",
                "call_id": "c",
                "name": "f",
                "arguments": '{"a": "b',
            }
        ],
    },
    "anthropic": {
        "role": "assistant",
        "stop_reason": "max_tokens",
        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": "b"}}],
    },
}


@pytest.mark.parametrize("protocol", CUT)
def test_a_call_in_which_the_reply_was_cut_is_not_offered(protocol: str) -> None:
    assert dragoman.parse_tool_calls(CUT[protocol], protocol) == []


# Conversation continuity: what must stand beside the results comes back with them


def test_responses_keeps_the_reasoning_beside_the_call() -> None:
    """The running input holds the prior output, reasoning included; another client's history holds it too."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA-opaque"}
    item = {**REPLIES["openai-responses"][0]["output"][0], "id": "fc_1", "status": "completed"}
    reply = {"id": "resp_1", "model": "m", "status": "completed", "output": [reasoning, item]}
    exchange = dragoman.Exchange("anthropic", "openai-responses")
    translated = exchange.response(reply)
    (call,) = dragoman.parse_tool_calls(translated, "anthropic")
    messages = [
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": translated["content"]},
        *dragoman.build_tool_results([call], [OUTPUT], "anthropic"),
    ]
    body = {"model": "m", "max_tokens": 1024, "messages": messages}
    out = dragoman.Exchange("anthropic", "openai-responses").request(body)
    sent = {key: value for key, value in out["input"][1].items() if key in reasoning}
    assert sent == reasoning
    assert [entry["type"] for entry in out["input"][1:]] == [
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert {entry["call_id"] for entry in out["input"][2:]} == {"call_123"}
