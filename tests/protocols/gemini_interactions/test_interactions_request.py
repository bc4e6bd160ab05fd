"""Requests of Interactions: the forms of `input`, what others get of it, and what goes back unchanged."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import dragoman
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, ToolResult
from dragoman.protocols import codec

CODEC = codec("gemini-interactions")
HI = {"type": "text", "text": "Hi"}
IMAGE = {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}
CALL = {"type": "function_call", "id": "c1", "name": "f", "arguments": {"a": 1}, "signature": ""}
RESULT = {"type": "function_result", "call_id": "c1", "name": "f", "result": "ok"}

# input -> the messages of a Chat upstream
INPUTS: dict[str, tuple[Any, Any]] = {
    "a text": ("Hi", [{"role": "user", "content": "Hi"}]),
    "one block": (HI, [{"role": "user", "content": "Hi"}]),
    "blocks are one message": (
        [HI, {"type": "text", "text": "you"}],
        [{"role": "user", "content": [HI, {"type": "text", "text": "you"}]}],
    ),
    "one step": ({"type": "user_input", "content": [HI]}, [{"role": "user", "content": "Hi"}]),
    "a step whose content is a text": (
        [{"type": "user_input", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}],
    ),
    "turns of the older API": (
        [
            {"role": "user", "content": "Hi"},
            {"role": "model", "content": [HI]},
            {"role": "user", "content": HI},
        ],
        [{"role": role, "content": "Hi"} for role in ("user", "assistant", "user")],
    ),
    "steps": (
        [{"type": "user_input", "content": [HI]}, {"type": "model_output", "content": [HI]}, CALL, RESULT],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "Hi",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ],
    ),
    "a result inside of user_input": (
        [{"type": "user_input", "content": [HI]}, CALL, {"type": "user_input", "content": [RESULT]}],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ],
    ),
}


@pytest.mark.parametrize("given, expected", INPUTS.values(), ids=INPUTS)
def test_the_forms_of_input(given: Any, expected: Any) -> None:
    exchange = dragoman.Exchange("gemini-interactions", "openai-chat")
    assert exchange.request({"model": "m", "input": given})["messages"] == expected


OTHERS: dict[str, Any] = {
    "an empty thought": [{"type": "user_input", "content": [HI]}, {"type": "thought"}],
    "a thought with an image": [
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm"}, IMAGE]}
    ],
    "an output without content": [{"type": "model_output", "content": []}, {"type": "model_output"}],
    "several blocks": [{"type": "model_output", "content": [HI, IMAGE, HI], "x": 1}],
    "URL-safe base64": [{"type": "user_input", "content": [{**IMAGE, "data": "-_8"}]}],
    "a file of Google": [
        {
            "type": "user_input",
            "content": [{"type": "document", "uri": "files/a", "mime_type": "application/pdf"}],
        }
    ],
    "a text as document": [
        {"type": "user_input", "content": [{"type": "document", "data": "SGk=", "mime_type": "text/plain"}]}
    ],
    "a result of any JSON": [CALL, {**RESULT, "result": {"a": [1, 2.0]}, "is_error": True}],
    "a result of blocks": [CALL, {**RESULT, "result": [HI, IMAGE]}],
    "steps of hosted tools": [
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}, "signature": "c2ln"},
        {"type": "google_search_result", "call_id": "s", "result": [{"search_suggestions": "x"}]},
        {"type": "mcp_server_tool_call", "id": "m", "name": "f", "server_name": "s", "arguments": {}},
        {"type": "mcp_server_tool_result", "call_id": "m", "result": "done"},
        {"type": "nobody_knows", "x": 1},
    ],
}


@pytest.mark.parametrize("given", [*OTHERS.values(), *(given for given, _ in INPUTS.values())])
def test_what_goes_back_to_google_is_unchanged(given: Any) -> None:
    """Also where the request is decoded and encoded again, as it is for a provider that needs a change."""
    body: Any = {
        "model": "m",
        "input": given,
        "tools": [{"type": "google_search", "search_types": ["web_search"]}],
        "generation_config": {"thinking_level": "low", "tool_choice": "validated", "speech_config": []},
        "response_format": [{"type": "text", "mime_type": "text/plain"}, {"type": "image"}],
        "previous_interaction_id": "v1_1",
        "safety_settings": [],
        "x": None,
    }
    request = CODEC.decode_request(copy.deepcopy(body), Losses())
    assert CODEC.encode_request(request, Losses()) == body


RESTRICTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "nothing is said": (None, {}),
    "an empty list": ([], {"allowed": []}),
    "all but one of two": (
        [{"mode": "auto", "tools": ["a", "b"]}, {"mode": "none", "tools": ["b"]}],
        {"allowed": ["a"]},
    ),
    "names alone": (["a"], {"allowed": ["a"]}),
    "some tools": ([{"mode": "auto", "tools": ["a"]}], {"allowed": ["a"]}),
    "none": ([{"mode": "none"}], {"allowed": []}),
    "all but one": ([{"mode": "none", "tools": ["a"]}], {"denied": ["a"]}),
}


@pytest.mark.parametrize("given, settings", RESTRICTED.values(), ids=RESTRICTED)
def test_the_tools_of_an_mcp_server_that_may_be_called(given: Any, settings: dict[str, Any]) -> None:
    server = {"type": "mcp_server", "name": "far", "url": "https://e.org/mcp", "allowed_tools": given}
    losses = Losses()
    (tool,) = CODEC.decode_request({"model": "m", "input": "x", "tools": [server]}, losses).tools
    assert isinstance(tool, HostedTool)
    assert tool.settings == {"label": "far", "url": "https://e.org/mcp", **settings}
    assert [*losses] == []


WRONG: dict[str, tuple[Any, str]] = {
    "tools by their number": (
        {"input": "x", "tools": [{"type": "mcp_server", "allowed_tools": [7]}]},
        "tools[0].allowed_tools[0]: expected an object",
    ),
    "no input": ({"model": "m"}, "input: expected a text, a block or an array, got nothing"),
    "a number": ({"input": 7}, "input: expected a text, a block or an array, got the number 7"),
    "an entry without a type": ({"input": [{"a": 1}]}, "expected a step or a block, with a type"),
    "an unknown role": ({"input": [{"role": "tool", "content": "x"}]}, "expected a step or a block"),
    "a call without an id": (
        {"input": [{"type": "function_call", "name": "f"}]},
        "input[0].id: expected a string, got nothing",
    ),
    "media without data": ({"input": [{"type": "image"}]}, "expected data or uri, got neither"),
    "a choice of nothing": (
        {"input": "x", "generation_config": {"tool_choice": "sometimes"}},
        "generation_config.tool_choice: expected auto, any, none, validated or allowed_tools",
    ),
}


@pytest.mark.parametrize("body, problem", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(body: Any, problem: str) -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_request(body, Losses())
    assert problem in str(caught.value)


def test_a_reply_that_goes_on_needs_no_input() -> None:
    body = {"model": "m", "previous_interaction_id": "v1_1", "continuation_token": "t"}
    assert CODEC.encode_request(CODEC.decode_request({**body}, Losses()), Losses()) == body


def test_results_with_media_are_native() -> None:
    given = [CALL, {**RESULT, "result": [HI, {"type": "document", "uri": "https://a.test/a.pdf"}]}]
    request = CODEC.decode_request({"model": "m", "input": given}, Losses())
    (result,) = request.messages[-1].parts
    assert isinstance(result, ToolResult)
    assert [type(part).__name__ for part in result.content] == ["Text", "Media"]


def losses_to(upstream: str, body: Any) -> set[str]:
    exchange = dragoman.Exchange("gemini-interactions", upstream)
    exchange.request({"model": "m", "input": "x", **body})
    return {loss.code for loss in exchange.losses if loss.kind != "invented"}


# fields -> codes of what a Responses upstream loses of them
LOST: dict[str, tuple[Any, set[str]]] = {
    "deferred": ({"service_tier": "deferred"}, {"setting.service_tier.dropped"}),
    "an unknown level": ({"generation_config": {"thinking_level": "huge"}}, {"setting.effort.dropped"}),
    "speech": ({"generation_config": {"speech_config": []}}, {"field.unknown.dropped"}),
    "an image as answer": ({"response_format": {"type": "image"}}, {"setting.output.dropped"}),
    "validated": (
        {
            "tools": [{"type": "function", "name": "f"}],
            "generation_config": {"tool_choice": "validated"},
        },
        {"tool.choice.changed"},
    ),
    "an id of elsewhere": ({"previous_interaction_id": "v1_1"}, {"store.dropped"}),
    "an agent": ({"agent": "deep-research-preview-04-2026"}, {"field.unknown.dropped"}),
}


@pytest.mark.parametrize("body, codes", LOST.values(), ids=LOST)
def test_what_others_lack_is_reported(body: Any, codes: set[str]) -> None:
    assert losses_to("openai-responses", body) == codes


def test_system_text_inside_the_conversation_waits_for_results() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "system", "content": "Now."},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "user", "content": "So?"},
    ]
    sent = dragoman.Exchange("openai-chat", "gemini-interactions").request(
        {"model": "m", "messages": messages}
    )
    assert sent["system_instruction"] == "Be brief."
    kinds = [step["type"] for step in sent["input"]]
    assert kinds == ["user_input", "thought", "function_call", "function_result", "user_input", "user_input"]
    assert sent["input"][4]["content"][0]["text"] == "Now."


@pytest.mark.parametrize(
    "allowed",
    [["list_tickets"], [{"tools": ["list_tickets"]}], [{"mode": "auto", "tools": ["list_tickets"]}]],
    ids=["names", "objects", "with a mode"],
)
def test_the_tools_that_a_server_may_offer_reach_other_protocols(allowed: list[Any]) -> None:
    server = {"type": "mcp_server", "name": "t", "url": "https://a.test/mcp", "allowed_tools": allowed}
    exchange = dragoman.Exchange("gemini-interactions", "openai-responses")
    sent = exchange.request({"model": "m", "input": "x", "tools": [server], "store": False})
    assert sent["tools"][0]["allowed_tools"] == ["list_tickets"]
