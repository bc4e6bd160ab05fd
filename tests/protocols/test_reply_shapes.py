"""Every reply, item and event that we write has every field that the vendor's schema requires.

Whole and streamed replies are validated against the SDK's models, where a missing field is an error, and
against the required fields of two published schemas: OpenAI's for Chat and Open Responses (2026-04-24).
"""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import ResponseFailed, ResponseStart, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Failure,
    Media,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols import codec

PARTS: dict[str, tuple[tuple[AnyPart, ...], Stop]] = {
    "nothing": ((), Stop("end")),
    "text": ((Text("hi"),), Stop("end")),
    "cited text": ((Text("hi", (Citation("https://x.org", "X"),)),), Stop("end")),
    "refusal": ((Refusal("no"),), Stop("refusal")),
    "reasoning": ((Reasoning("why", state=State("anthropic", "sig")), Text("hi")), Stop("end")),
    "call": ((Text("a"), ToolCall("c", "f", '{"a":1}'), ToolCall("d", "g")), Stop("tool_calls")),
    "custom call": ((ToolCall("c", "f", "raw", "custom"),), Stop("tool_calls")),
    "local shell": ((ToolCall("c", "local_shell", "{}", "local_shell"),), Stop("tool_calls")),
    "shell": ((ToolCall("c", "shell", '{"commands":["ls"]}', "shell"),), Stop("tool_calls")),
    "patch": (
        (ToolCall("c", "apply_patch", '{"type":"delete_file","path":"a"}', "apply_patch"),),
        Stop("tool_calls"),
    ),
    "image": ((Media("image", "image/png", Base64("aGk=")),), Stop("end")),
    "cut": ((Text("hi"), ToolCall("c", "f", '{"a', complete=False)), Stop("length")),
    "filtered": ((), Stop("content_filter")),
}
TOOLS = [
    {"type": "function", "name": "f"},
    {"type": "custom", "name": "p"},
    {"type": "mcp", "server_label": "s", "server_url": "https://s", "authorization": "secret"},
]
REQUESTS: dict[str, Wire] = {
    "openai-responses": {"model": "m", "input": "hi", "tools": TOOLS},
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}
# What the published schemas require beside the SDK's models
RESPONSE = (
    *(
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "incomplete_details",
        "model",
        "output",
        "error",
    ),
    *("previous_response_id", "instructions", "tools", "tool_choice", "truncation", "parallel_tool_calls"),
    *("text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning"),
    *("usage", "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
)
ITEMS = {
    "message": ("type", "id", "status", "role", "content"),
    "function_call": ("type", "id", "call_id", "name", "arguments", "status"),
    "reasoning": ("type", "id", "summary"),
}
OUTPUT_TEXT = ("type", "text", "annotations")
USAGE = (*("input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details"),)
CHAT_MESSAGE = ("role", "content", "refusal", "annotations")
CHAT_CHOICE = ("finish_reason", "index", "message", "logprobs")


def requires(value: Any, fields: tuple[str, ...]) -> None:
    assert [field for field in fields if field not in value] == []


def check_item(item: Wire) -> None:
    requires(item, ITEMS.get(item["type"], ("type", "id")))
    for part in item["content"] if item["type"] == "message" else ():
        if part["type"] == "output_text":
            requires(part, OUTPUT_TEXT)


def check_response(response: Wire) -> None:
    requires(response, RESPONSE)
    SdkResponse.model_validate(response)
    assert isinstance(response["created_at"], int)
    assert (response["completed_at"] is None) == (response["status"] != "completed")
    for tool in response["tools"]:
        assert "authorization" not in tool
        if tool["type"] == "function":
            requires(tool, ("type", "name", "description", "parameters", "strict"))
    for item in response["output"]:
        check_item(item)
    if response["usage"] is not None:
        requires(response["usage"], USAGE)


def made(name: str) -> Response:
    parts, stop = PARTS[name]
    return Response("r", "m", parts, stop, Usage(1, 2), 17)


def frames(protocol: str, response: Response) -> list[Any]:
    chosen = codec(protocol)
    request = chosen.decode_request(REQUESTS[protocol], Losses())
    encoder = chosen.stream_encoder(Losses(), request)
    return [frame.data for event in unfold(response) for frame in encoder.feed(event)]


@pytest.mark.parametrize("name", PARTS)
def test_a_whole_response(name: str) -> None:
    responses = codec("openai-responses")
    request = responses.decode_request(REQUESTS["openai-responses"], Losses())
    check_response(responses.encode_response(made(name), Losses(), request))
    check_response(responses.encode_response(made(name), Losses()))


@pytest.mark.parametrize("name", PARTS)
def test_a_streamed_response(name: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in frames("openai-responses", made(name)):
        event = {**event, "response": materialised(event)} if "response" in event else event
        adapter.validate_python(event)
        assert isinstance(event["sequence_number"], int)
        if "response" in event:
            check_response(event["response"])
        if "item" in event:
            check_item(event["item"])


def materialised(event: Wire) -> Wire:
    """The response of an event; tools that were printed before stand in it as text."""
    return jsontext.decode(jsontext.encode(event["response"]))


def test_a_response_that_failed() -> None:
    responses = codec("openai-responses")
    encoder = responses.stream_encoder(Losses())
    events = [ResponseStart("r", "m", created=17), ResponseFailed(Failure("server", "why"))]
    *_, last = [frame.data for event in events for frame in encoder.feed(event)]
    check_response(last["response"])
    requires(last["response"]["error"], ("code", "message"))


@pytest.mark.parametrize("name", PARTS)
def test_a_whole_completion(name: str) -> None:
    chat = codec("openai-chat")
    request = chat.decode_request(REQUESTS["openai-chat"], Losses())
    body = chat.encode_response(made(name), Losses(), request)
    ChatCompletion.model_validate(body)
    assert body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    requires(choice, CHAT_CHOICE)
    requires(choice["message"], CHAT_MESSAGE)
    assert choice["finish_reason"]


@pytest.mark.parametrize("name", [name for name in PARTS if name != "custom call"])
def test_a_streamed_completion(name: str) -> None:
    """The SDK's chunks know no custom calls."""
    *chunks, done = frames("openai-chat", made(name))
    assert done == b"[DONE]"
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
        requires(chunk, ("id", "object", "created", "model", "choices"))
        assert chunk["id"].startswith("chatcmpl-")
        for choice in chunk["choices"]:
            requires(choice, ("delta", "finish_reason", "index"))


def test_a_reply_without_a_model_names_the_requested_one() -> None:
    for protocol, field in (("openai-chat", "choices"), ("openai-responses", "output")):
        chosen = codec(protocol)
        request = chosen.decode_request(REQUESTS[protocol], Losses())
        body = chosen.encode_response(Response("r", "", (Text("hi"),), Stop("end")), Losses(), request)
        assert body["model"] == "m"
        assert body[field]


def test_replies_of_servers_that_leave_fields_out_are_completed() -> None:
    """Where a dialect is spoken over the same protocol, the reply passes through the codec."""
    chat = codec("openai-chat")
    request = chat.decode_request(REQUESTS["openai-chat"], Losses())
    reply = {"id": "x", "model": "m", "choices": [{"message": {"content": "hi"}}]}
    body = chat.encode_response(chat.decode_response(reply, Losses()), Losses(), request)
    ChatCompletion.model_validate(body)
    requires(body["choices"][0], CHAT_CHOICE)
    requires(body["choices"][0]["message"], ("role", "content", "refusal"))
    responses = codec("openai-responses")
    request = responses.decode_request(REQUESTS["openai-responses"], Losses())
    reply = {"id": "resp_x", "created_at": 1, "status": "completed", "output": []}
    body = responses.encode_response(responses.decode_response(reply, Losses()), Losses(), request)
    requires(body, RESPONSE)


@pytest.mark.parametrize("created", [1.75, 1, "now", None, float("nan"), True])
@pytest.mark.parametrize("upstream, field", [("openai-responses", "created_at"), ("openai-chat", "created")])
def test_any_time_of_a_reply_is_read(upstream: str, field: str, created: object) -> None:
    bodies = {
        "openai-responses": {
            "id": "r",
            "object": "response",
            "model": "m",
            "status": "completed",
            "output": [],
        },
        "openai-chat": {"id": "r", "model": "m", "choices": [{"index": 0, "message": {"content": "x"}}]},
    }
    client = "openai-chat" if upstream == "openai-responses" else "openai-responses"
    told = "created" if client == "openai-chat" else "created_at"
    exchange = dragoman.Exchange(client, upstream, reply_created=9)
    reply = exchange.response({**bodies[upstream], field: created})
    assert exchange.status == 200
    assert reply[told] == (1 if created in (1, 1.75) and created is not True else 9)


SPOKEN = {"id": "a", "expires_at": 1, "data": "UklGRg==", "transcript": "Hello there"}


@pytest.mark.parametrize("finish", ["stop", None])
@pytest.mark.parametrize("client", ["openai-responses", "anthropic", "gemini"])
def test_the_transcript_of_a_spoken_reply_is_its_text(client: str, finish: str | None) -> None:
    message = {"role": "assistant", "content": None, "audio": SPOKEN}
    exchange = dragoman.Exchange(client, "openai-chat")
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    reply = exchange.response({"id": "r", "object": "chat.completion", "model": "m", "choices": [choice]})
    assert "Hello there" in jsontext.dumps(reply)
    assert [loss.code for loss in exchange.losses] == ["media.audio.dropped"]
    exchange = dragoman.Exchange(client, "openai-chat")
    stream, out = exchange.stream(), b""
    deltas = [{"id": "a"}, {"transcript": "Hello "}, {"transcript": "there"}, {"data": "UklGRg=="}]
    for delta in deltas:
        chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"audio": delta}}]}
        out += stream.feed(b"data: %b\n\n" % jsontext.encode(chunk))
    end = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    out += stream.feed(b"data: %b\n\ndata: [DONE]\n\n" % jsontext.encode(end)) + stream.close()
    assert stream.failure is None
    assert b"Hello there" in out
    assert [loss.code for loss in exchange.losses] == ["media.audio.dropped"]


def test_a_prompt_template_is_a_material_loss() -> None:
    exchange = dragoman.Exchange("openai-responses", "anthropic")
    exchange.request({"model": "m", "prompt": {"id": "pmpt_1", "version": "1"}})
    assert {loss.where: loss.severity for loss in exchange.losses}["prompt"] == "material"
