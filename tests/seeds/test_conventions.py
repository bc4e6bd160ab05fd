"""Seed 001: what it says beside its examples: binary results, web tools, MCP names, streams."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core.codec import Frame
from dragoman.framing.sse import Decoder
from dragoman.protocols import codec
from seeds.wires import (
    ALL_PAIRS,
    PAIRS,
    PROTOCOLS,
    Call,
    Wire,
    dumps,
    frames,
    gathered,
    named_sse,
    read_calls,
    rows,
    sse,
    unstrict,
    whole_reply,
)

PNG = "iVBORw0KGgo="
SUMMARY = "Binary content of type image/png was processed."
DATA_URL = f"data:image/png;base64,{PNG}"
ARGUMENTS = {"absolute_path": "/abs/path/cat.png"}

# Binary returns: `read_file` on an image


def conversation(protocol: str, *results: Wire) -> Wire:
    """The user asks, the model calls, and the turns in `results` answer."""
    match protocol:
        case "openai-chat":
            function = {"name": "read_file", "arguments": dumps(ARGUMENTS)}
            call: Wire = {"role": "assistant", "content": None}
            call["tool_calls"] = [{"id": "rf_img_1", "type": "function", "function": function}]
            return {"model": "m", "messages": [{"role": "user", "content": "Look"}, call, *results]}
        case "openai-responses":
            call = {"type": "function_call", "call_id": "rf_img_1", "name": "read_file"}
            call["arguments"] = dumps(ARGUMENTS)
            return {"model": "m", "input": [{"role": "user", "content": "Look"}, call, *results]}
        case "anthropic":
            block = {"type": "tool_use", "id": "rf_img_1", "name": "read_file", "input": ARGUMENTS}
            call = {"role": "assistant", "content": [block]}
            messages = [{"role": "user", "content": "Look"}, call, *results]
            return {"model": "m", "max_tokens": 1024, "messages": messages}
        case _:
            part = {"functionCall": {"id": "rf_img_1", "name": "read_file", "args": ARGUMENTS}}
            call = {"role": "model", "parts": [part]}
            return {"contents": [{"role": "user", "parts": [{"text": "Look"}]}, call, *results]}


def answered(response: Wire, **more: Any) -> Wire:
    """A Gemini result."""
    return {"functionResponse": {"id": "rf_img_1", "name": "read_file", "response": response, **more}}


INLINE = {"inlineData": {"mimeType": "image/png", "data": PNG}}
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
INPUT_IMAGE = {"type": "input_image", "image_url": DATA_URL, "detail": "auto"}
IMAGE_URL = {"type": "image_url", "image_url": {"url": DATA_URL}}
TOLD_BLOCK = {"type": "tool_result", "tool_use_id": "rf_img_1", "content": SUMMARY}
OUTPUT = {"type": "function_call_output", "call_id": "rf_img_1"}

# The image as each client sends it, and the seed's example for Gemini
WITH_IMAGE: dict[str, Wire] = {
    "openai-responses": conversation(
        "openai-responses", {**OUTPUT, "output": [{"type": "input_image", "image_url": DATA_URL}]}
    ),
    "anthropic": conversation(
        "anthropic", {"role": "user", "content": [{**TOLD_BLOCK, "content": [IMAGE_BLOCK]}]}
    ),
    "gemini": conversation("gemini", {"role": "user", "parts": [answered({"output": SUMMARY}), INLINE]}),
}
# The turn that the seed shows: the result says in words that there was a binary
TOLD: dict[str, list[Wire]] = {
    "openai-chat": [{"role": "tool", "tool_call_id": "rf_img_1", "content": SUMMARY}],
    "openai-responses": [{**OUTPUT, "output": SUMMARY}],
    "anthropic": [{"role": "user", "content": [TOLD_BLOCK]}],
    "gemini": [{"role": "user", "parts": [answered({"output": SUMMARY})]}],
}
TURNS = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}


@rows("source, target", WITH_IMAGE, PROTOCOLS)
def test_summaries_where_they_are_asked_for(source: str, target: str) -> None:
    exchange = dragoman.Exchange(source, target, images="summary")
    out = exchange.request(WITH_IMAGE[source], model="gemini-1.5-pro" if target == "gemini" else "m")
    assert out[TURNS[target]][2:] == TOLD[target]
    assert any("sent instead of the binary result" in loss.why for loss in exchange.losses)


def test_a_picture_without_a_result_belongs_to_the_user() -> None:
    parts = [answered({"output": "done"}), INLINE]
    body = conversation("gemini", {"role": "user", "parts": parts})
    out = dragoman.Exchange("gemini", "anthropic", images="summary").request(body, model="m")
    assert out["messages"][-1]["content"] == [{**TOLD_BLOCK, "content": "done"}, IMAGE_BLOCK]


NATIVE: dict[tuple[str, str], list[Wire]] = {
    ("anthropic", "openai-responses"): [{**OUTPUT, "output": [INPUT_IMAGE]}],
    ("openai-responses", "anthropic"): [
        {"role": "user", "content": [{**TOLD_BLOCK, "content": [IMAGE_BLOCK]}]}
    ],
    ("gemini", "anthropic"): [{"role": "user", "content": [TOLD_BLOCK, IMAGE_BLOCK]}],
    ("gemini", "openai-responses"): [
        {**OUTPUT, "output": SUMMARY},
        {"type": "message", "role": "user", "content": [INPUT_IMAGE]},
    ],
    ("gemini", "openai-chat"): [*TOLD["openai-chat"], {"role": "user", "content": [IMAGE_URL]}],
    **{
        (source, "openai-chat"): [
            {"role": "tool", "tool_call_id": "rf_img_1", "content": "[image: see the next message]"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "From the result of read_file (call rf_img_1):"},
                    IMAGE_URL,
                ],
            },
        ]
        for source in ("anthropic", "openai-responses")
    },
}


@pytest.mark.parametrize("pair", NATIVE, ids="-".join)
def test_the_richest_form_that_the_target_takes(pair: tuple[str, str]) -> None:
    source, target = pair
    out = dragoman.Exchange(source, target).request(WITH_IMAGE[source], model="m")
    assert out[TURNS[target]][2:] == NATIVE[pair]


@pytest.mark.parametrize("source", ["anthropic", "openai-responses"])
def test_bytes_beside_a_gemini_result_as_the_seed_shows(source: str) -> None:
    out = dragoman.Exchange(source, "gemini").request(WITH_IMAGE[source], model="gemini-1.5-pro")
    assert out["contents"] == WITH_IMAGE["gemini"]["contents"]


@pytest.mark.parametrize("source", ["anthropic", "openai-responses"])
def test_bytes_inside_the_result_of_a_newer_gemini(source: str) -> None:
    out = dragoman.Exchange(source, "gemini").request(WITH_IMAGE[source], model="gemini-3-pro")
    assert out["contents"][-1] == {"role": "user", "parts": [answered({"output": ""}, parts=[INLINE])]}


# Web search and web fetch

WEB_SEARCH: dict[str, Wire] = {
    "openai-responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "gemini": {"googleSearch": {}},
}


@rows("source, target", [("openai-responses", "gemini"), ("gemini", "anthropic"), ("anthropic", "gemini")])
def test_a_hosted_search_is_the_hosted_search_of_the_target(source: str, target: str) -> None:
    assert dragoman.translate_tools([WEB_SEARCH[source]], source, target) == [WEB_SEARCH[target]]


@pytest.mark.parametrize("source", WEB_SEARCH)
def test_chat_takes_no_tool_but_functions(source: str) -> None:
    assert dragoman.translate_tools([WEB_SEARCH[source]], source, "openai-chat") == []


def declared(protocol: str, name: str, schema: Wire) -> list[Wire]:
    match protocol:
        case "anthropic":
            return [{"name": name, "input_schema": schema}]
        case "openai-responses":
            return [{"type": "function", "name": name, "parameters": schema}]
        case "openai-chat":
            return [{"type": "function", "function": {"name": name, "parameters": schema}}]
        case _:
            return [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]


PROMPT = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


@rows("source, target", ALL_PAIRS)
def test_wrappers_of_web_tools_are_functions_everywhere(source: str, target: str) -> None:
    for name, schema in (("google_web_search", QUERY), ("web_fetch", PROMPT)):
        tools = dragoman.translate_tools(declared(source, name, schema), source, target)
        assert unstrict(tools) == declared(target, name, schema)


# MCP names

EMPTY: Wire = {"type": "object", "properties": {}}
LONGEST = "a_server_with_a_long_name__a_tool_with_a_name_of_its_own_1a2b3c4"  # 63, and a hash at its end
MCP_NAMES = ["github__create_issue", "my_server__list_2", LONGEST[:63]]


@rows("name, source, target", MCP_NAMES, ALL_PAIRS)
def test_sanitised_mcp_names_pass_everywhere(name: str, source: str, target: str) -> None:
    assert len(name) <= 63
    tools = dragoman.translate_tools(declared(source, name, EMPTY), source, target)
    assert unstrict(tools) == declared(target, name, EMPTY)


ILLEGAL = {
    "too long": "server__" + "x" * 130,
    "dots and slashes": "my.server/tool one",
    "not ASCII": "wörk__münze",
    "a digit first": "2fa__code",
}


@rows("client, upstream, what", PAIRS, ILLEGAL)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_other_names_are_made_legal_and_restored(
    client: str, upstream: str, what: str, streamed: bool
) -> None:
    name = ILLEGAL[what]
    exchange = dragoman.Exchange(client, upstream)
    body_in = {**conversation(client), "tools": declared(client, name, EMPTY)}
    out = exchange.request(body_in, model="m")
    (sent,) = _names(upstream, out["tools"])
    assert len(sent) <= (128 if upstream == "anthropic" else 64)
    assert sent.replace("_", "").replace("-", "").isalnum() or upstream == "gemini"
    assert sent.isascii()
    reply = whole_reply(upstream, "", [Call("call_1", sent, {})])
    if streamed:
        stream = exchange.stream()
        data = stream.feed(dumps(reply).encode()) + stream.close()
        (call,) = read_calls(client, gathered(client, data))
    else:
        (call,) = read_calls(client, exchange.response(reply))
    assert call.name == name


def _names(protocol: str, tools: list[Wire]) -> list[str]:
    match protocol:
        case "openai-chat":
            return [tool["function"]["name"] for tool in tools]
        case "gemini":
            return [tool["name"] for entry in tools for tool in entry["functionDeclarations"]]
        case _:
            return [tool["name"] for tool in tools]


def test_names_that_would_look_alike_stay_apart() -> None:
    body = conversation("anthropic")
    body["tools"] = [{"name": name, "input_schema": EMPTY} for name in ("a b", "a.b", "a_b")]
    out = dragoman.Exchange("anthropic", "openai-chat").request(body, model="m")
    names = _names("openai-chat", out["tools"])
    assert len(set(names)) == 3
    assert "a_b" in names


# Streams of the seed: abbreviated, with neither a beginning nor an end, and events that share a blank line

ITEM = {"id": "fc_1", "type": "function_call", "call_id": "call_123", "name": "run_shell_command"}
PLACE = {"item_id": "fc_1", "output_index": 0}
PRINTED = '{"command":"ls -la"}'
SNIPPETS: dict[str, bytes] = {
    "anthropic": (
        b"event: content_block_start\n"
        b'data: {"type":"content_block_start","content_block":'
        b'{"type":"tool_use","id":"call_123","name":"run_shell_command"}}\n\n'
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","delta":'
        b'{"type":"input_json_delta","partial_json":"{\\"command\\":\\"ls -la\\"}"}}\n\n'
        b"event: content_block_stop\n"
        b'data: {"type":"content_block_stop"}\n\n'
    ),
    "openai-responses": (
        b'data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":'
        b'{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"",'
        b'"call_id":"call_123","name":"run_shell_command"}}\n\n'
        b"event: response.function_call_arguments.delta\n"
        b'data: {"type":"response.function_call_arguments.delta","sequence_number":2,'
        b'"item_id":"fc_1","output_index":0,"delta":"{\\"command\\":"}\n'
        b'data: {"type":"response.function_call_arguments.delta","sequence_number":3,'
        b'"item_id":"fc_1","output_index":0,"delta":"\\"ls -la\\"}"}\n\n'
        b'data: {"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":'
        b'{"id":"fc_1","type":"function_call","status":"completed",'
        b'"arguments":"{\\"command\\":\\"ls -la\\"}","call_id":"call_123","name":"run_shell_command"}}\n\n'
    ),
    "openai-chat": sse(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "run_shell_command"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": PRINTED}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ),
    "gemini": sse(
        {"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"id": "fc1", "name": "run_shell_command", "args": {"command": "ls -la"}}}
        ]}}]}
    ),
}  # fmt: skip
ENDS: dict[str, bytes] = {
    "anthropic": named_sse({"type": "message_stop"}),
    "openai-responses": named_sse({"type": "response.completed", "response": {"status": "completed"}}),
    "openai-chat": sse("[DONE]"),
    "gemini": sse({"candidates": [{"finishReason": "STOP"}]}),
}
IDS = {"openai-chat": "call_dgm_1", "gemini": "fc1"}  # Chat's snippet has none; the others say call_123


@rows("client, upstream", PAIRS)
def test_a_snippet_of_a_stream_is_a_call(client: str, upstream: str) -> None:
    stream = dragoman.Exchange(client, upstream).stream()
    data = stream.feed(SNIPPETS[upstream] + ENDS[upstream]) + stream.close()
    check_grammar(client, data)
    (call,) = read_calls(client, gathered(client, data))
    id = IDS.get(upstream, "call_123")
    assert call == (
        f"toolu__{id}" if client == "anthropic" else id,
        "run_shell_command",
        {"command": "ls -la"},
    )


@rows("client, upstream", PAIRS)
def test_a_snippet_without_an_end_gives_its_call_and_then_fails(client: str, upstream: str) -> None:
    """What the seed abbreviates is on the wire a stream that was cut; only Chat's has an end of its own."""
    stream = dragoman.Exchange(client, upstream).stream()
    data = stream.feed(SNIPPETS[upstream]) + stream.close()
    check_grammar(client, data)
    assert "run_shell_command" in data.decode()
    assert "ls -la" in data.decode()
    assert (stream.failure is None) == (upstream == "openai-chat")


def check_grammar(protocol: str, data: bytes) -> None:
    grammar, decoder = codec(protocol).grammar(), Decoder()
    seen: list[Frame] = [*decoder.feed(data), *decoder.close()]
    for frame in seen:
        list(grammar.feed(frame))
    list(grammar.close())


def test_events_without_a_blank_line_between_them() -> None:
    seen = Decoder().feed(SNIPPETS["openai-responses"])
    assert [frames(b"data: " + frame.data + b"\n\n")[0]["sequence_number"] for frame in seen] == [1, 2, 3, 4]
