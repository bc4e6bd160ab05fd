"""Computer use over models that have none: a function with the vendor's schema, and native calls back."""

from __future__ import annotations

from typing import Any

import anthropic.types.beta as claude
import openai.types.responses as responses
import pytest
from pydantic import TypeAdapter

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Response, Stop, ToolCall
from dragoman.protocols import protocol
from gateway.hosted_stand import frames_of, replies

ANTHROPIC, RESPONSES, CHAT, GEMINI = "anthropic", "openai-responses", "openai-chat", "gemini"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SIZE = {"display_width_px": 1024, "display_height_px": 768}
CLICK = {"action": "left_click", "coordinate": [10, 20]}
ACTION = {"type": "click", "button": "left", "x": 10, "y": 20}
# client, declaration, what the model calls the function with, what the client gets of it
FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a tool of Anthropic": (
        ANTHROPIC,
        {"type": "computer_20250124", "name": "computer", **SIZE},
        CLICK,
        {"type": "tool_use", "name": "computer", "input": CLICK},
    ),
    "a toolset of Anthropic": (
        ANTHROPIC,
        {"type": "computer_toolset_20260801"},
        CLICK,
        {
            "type": "tool_use",
            "name": "left_click",
            "toolset_name": "computer",
            "input": {"coordinate": [10, 20]},
        },
    ),
    "the preview of OpenAI": (
        RESPONSES,
        {"type": "computer_use_preview", "display_width": 1024, "display_height": 768, "environment": "mac"},
        {"action": ACTION},
        {"type": "computer_call", "action": ACTION, "status": "completed"},
    ),
    "the tool of OpenAI": (
        RESPONSES,
        {"type": "computer"},
        {"actions": [ACTION, {"type": "wait"}]},
        {"type": "computer_call", "actions": [ACTION, {"type": "wait"}], "status": "completed"},
    ),
    "the outer object left out": (
        RESPONSES,
        {"type": "computer_use_preview"},
        ACTION,
        {"type": "computer_call", "action": ACTION},
    ),
}
PAIRS = [
    (form, upstream)
    for form, (client, *_) in FORMS.items()
    for upstream in (ANTHROPIC, RESPONSES, CHAT, GEMINI, "gemini-interactions", "bedrock-converse")
    if upstream != client
]


def begun(form: str, upstream: str, *turns: Any, stream: bool = False) -> tuple[dragoman.Exchange, Any]:
    client, tool, _, _ = FORMS[form]
    exchange = dragoman.Exchange(client, upstream)
    asked = {"role": "user", "content": "Click."}
    if client == ANTHROPIC:
        body = {"model": "m", "max_tokens": 9, "messages": [asked, *turns], "tools": [tool]}
    else:
        body = {"model": "m", "input": [asked, *turns], "tools": [tool]}
    return exchange, exchange.request(body, model="m", stream=stream)


def reply(form: str, upstream: str) -> Any:
    call = ToolCall("call_0", "computer", jsontext.dumps(FORMS[form][2]))
    response = Response("r", "m", (call,), Stop("tool_calls"))
    return protocol(upstream).codec.encode_response(response, Losses())


def call_in(form: str, got: Any) -> Any:
    (call,) = got["content"] if FORMS[form][0] == ANTHROPIC else got["output"]
    return call


@pytest.mark.parametrize(("form", "upstream"), PAIRS)
def test_the_tool_is_a_function(form: str, upstream: str) -> None:
    exchange, sent = begun(form, upstream)
    written = jsontext.dumps(sent["toolConfig" if upstream == "bedrock-converse" else "tools"])
    assert '"computer"' in written
    assert "screenshot" in written
    assert ("1024 x 768" in written) == ("1024" in jsontext.dumps(FORMS[form][1]))
    lost = [(loss.code, loss.where) for loss in exchange.losses if loss.kind != "invented"]
    assert lost == [("hosted.function.changed", "tools[0]")]


@pytest.mark.parametrize(("form", "upstream"), PAIRS)
def test_its_calls_come_back_whole(form: str, upstream: str) -> None:
    exchange, _ = begun(form, upstream)
    call = call_in(form, exchange.response(reply(form, upstream)))
    expected = FORMS[form][3]
    assert {key: call.get(key) for key in expected} == expected
    accepted(form, call)


STREAMED = [pair for pair in PAIRS if pair[1] in (ANTHROPIC, RESPONSES, CHAT, GEMINI)]


@pytest.mark.parametrize(("form", "upstream"), STREAMED)
def test_its_calls_come_back_streamed(form: str, upstream: str) -> None:
    exchange, _ = begun(form, upstream, stream=True)
    stream = exchange.stream()
    call = ToolCall("call_0", "computer", jsontext.dumps(FORMS[form][2]))
    data = (
        b"".join(
            stream.feed(piece)
            for piece in replies(upstream, (call,), stream=True).pieces
            if isinstance(piece, bytes)
        )
        + stream.close()
    )
    frames, expected = frames_of(data), FORMS[form][3]
    if FORMS[form][0] == RESPONSES:
        (item,) = frames[-1]["response"]["output"]
        assert {key: item.get(key) for key in expected} == expected
        (done,) = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
        assert done == item
        return
    (block,) = [frame["content_block"] for frame in frames if frame["type"] == "content_block_start"]
    deltas = [frame["delta"] for frame in frames if frame["type"] == "content_block_delta"]
    given = jsontext.decode("".join(delta["partial_json"] for delta in deltas))
    assert {**{key: block.get(key) for key in expected}, "input": given} == expected


@pytest.mark.parametrize(("form", "upstream"), PAIRS)
def test_a_screenshot_goes_back(form: str, upstream: str) -> None:
    """The call of the history, and its picture."""
    exchange, _ = begun(form, upstream)
    call = call_in(form, exchange.response(reply(form, upstream)))
    if FORMS[form][0] == ANTHROPIC:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        result = {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [{"type": "image", "source": source}],
        }
        if "toolset_name" in call:
            result["toolset_name"] = "computer"
        turns: list[Any] = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    else:
        shot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PICTURE}"}
        turns = [call, {"type": "computer_call_output", "call_id": call["call_id"], "output": shot}]
    exchange, sent = begun(form, upstream, *turns)
    written = jsontext.dumps(sent)
    assert PICTURE in written
    assert "click" in written.split("Click.")[1]
    assert "call_0" in written or upstream == GEMINI
    lost = [(loss.code, loss.where) for loss in exchange.losses if loss.kind != "invented"]
    assert all(code.startswith(("hosted.function", "image", "media", "result")) for code, _ in lost), lost


def accepted(form: str, call: Any) -> None:
    """By the types of the vendor's own SDK."""
    if FORMS[form][0] == RESPONSES:
        responses.ResponseComputerToolCall.model_validate(call, strict=True)
    elif "toolset_name" in call:
        TypeAdapter[Any](claude.BetaContentBlock).validate_python(call)


SAME: dict[str, tuple[str, list[Any]]] = {
    "Anthropic": (
        ANTHROPIC,
        [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "left_click",
                        "toolset_name": "computer",
                        "input": {"coordinate": [1, 2]},
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "toolset_name": "computer",
                        "content": "ok",
                    }
                ],
            },
        ],
    ),
    "Responses": (
        RESPONSES,
        [
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c1",
                "status": "completed",
                "action": ACTION,
                "pending_safety_checks": [{"id": "s", "code": "malicious", "message": "m"}],
            },
            {
                "type": "computer_call_output",
                "call_id": "c1",
                "acknowledged_safety_checks": [{"id": "s"}],
                "output": {"type": "computer_screenshot", "file_id": "file_1"},
            },
        ],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_its_own_vendor_gets_calls_and_results_unchanged(name: str) -> None:
    client, turns = SAME[name]
    form = "a toolset of Anthropic" if client == ANTHROPIC else "the preview of OpenAI"
    exchange = dragoman.Exchange(client, client)
    field = "messages" if client == ANTHROPIC else "input"
    body = {
        "model": "m",
        "max_tokens": 9,
        field: [{"role": "user", "content": "x"}, *turns],
        "tools": [FORMS[form][1]],
    }
    if client == RESPONSES:
        del body["max_tokens"]
    sent = exchange.request(jsontext.decode(jsontext.encode(body)), model="m2")
    assert sent[field] == body[field]
    assert sent["tools"] == body["tools"]


def test_safety_checks_and_switched_off_actions_are_not_lost_silently() -> None:
    _, turns = SAME["Responses"]
    exchange = dragoman.Exchange(RESPONSES, ANTHROPIC)
    exchange.request({"model": "m", "input": turns, "tools": [{"type": "computer_use_preview"}]})
    lost = {loss.where for loss in exchange.losses}
    assert {"input[0].pending_safety_checks", "input[1].acknowledged_safety_checks"} <= lost
    tool = {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}}
    exchange = dragoman.Exchange(ANTHROPIC, CHAT)
    asked = [{"role": "user", "content": "x"}]
    sent = exchange.request({"model": "m", "max_tokens": 9, "messages": asked, "tools": [tool]})
    actions = sent["tools"][0]["function"]["parameters"]["properties"]["action"]["enum"]
    assert "zoom" not in actions
    assert "left_click" in actions
