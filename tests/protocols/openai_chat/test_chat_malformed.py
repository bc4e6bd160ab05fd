"""Malformed Chat wire: always a WireError that names the place, never anything else."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.openai_chat import CODEC


def request_with(**more: Any) -> Wire:
    return {"model": "m", "messages": [], **more}


def reply_with(message: Any) -> Wire:
    return request_with(messages=[message])


def shown(part: Any) -> Wire:
    return reply_with({"role": "user", "content": [part]})


def called(call: Any) -> Wire:
    return reply_with({"role": "assistant", "content": None, "tool_calls": [call]})


def declared(tool: Any) -> Wire:
    return request_with(tools=[tool])


REQUESTS: dict[str, tuple[Wire, str]] = {
    "no messages": ({"model": "m"}, "messages"),
    "messages": (request_with(messages="hi"), "messages"),
    "model": (request_with(model=5), "model"),
    "message": (reply_with("hi"), "messages[0]"),
    "no role": (reply_with({"content": "a"}), "messages[0].role"),
    "role": (reply_with({"role": 1}), "messages[0].role"),
    "unknown role": (reply_with({"role": "critic", "content": "a"}), "messages[0].role"),
    "content": (reply_with({"role": "user", "content": 5}), "messages[0].content"),
    "content of an object": (
        reply_with({"role": "user", "content": {"type": "text"}}),
        "messages[0].content",
    ),
    "part": (shown("a"), "messages[0].content[0]"),
    "part without a type": (shown({"text": "a"}), "messages[0].content[0].type"),
    "text": (shown({"type": "text", "text": 1}), "messages[0].content[0].text"),
    "no text": (shown({"type": "text"}), "messages[0].content[0].text"),
    "image": (shown({"type": "image_url", "image_url": 1}), "messages[0].content[0].image_url"),
    "no image": (shown({"type": "image_url"}), "messages[0].content[0].image_url"),
    "image without address": (
        shown({"type": "image_url", "image_url": {}}),
        "messages[0].content[0].image_url.url",
    ),
    "image detail": (
        shown({"type": "image_url", "image_url": {"url": "x", "detail": 1}}),
        "messages[0].content[0].image_url.detail",
    ),
    "audio": (
        shown({"type": "input_audio", "input_audio": {"data": "x"}}),
        "messages[0].content[0].input_audio.format",
    ),
    "file": (shown({"type": "file", "file": []}), "messages[0].content[0].file"),
    "empty file": (shown({"type": "file", "file": {}}), "messages[0].content[0].file.file_data"),
    "video": (shown({"type": "video_url", "video_url": {"url": 1}}), "messages[0].content[0].video_url"),
    "refusal": (reply_with({"role": "assistant", "refusal": 1}), "messages[0].refusal"),
    "tool_calls": (reply_with({"role": "assistant", "tool_calls": {}}), "messages[0].tool_calls"),
    "call": (called("f"), "messages[0].tool_calls[0]"),
    "call without a function": (called({"id": "c"}), "messages[0].tool_calls[0].function"),
    "call id": (called({"id": 1, "function": {"name": "f"}}), "messages[0].tool_calls[0].id"),
    "call name": (called({"function": {"name": 1}}), "messages[0].tool_calls[0].function.name"),
    "arguments": (
        called({"function": {"name": "f", "arguments": 5}}),
        "messages[0].tool_calls[0].function.arguments",
    ),
    "custom call": (called({"type": "custom", "function": {}}), "messages[0].tool_calls[0].custom"),
    "custom input": (
        called({"type": "custom", "custom": {"input": {}}}),
        "messages[0].tool_calls[0].custom.input",
    ),
    "legacy name": (
        reply_with({"role": "assistant", "function_call": {"name": 1}}),
        "messages[0].function_call.name",
    ),
    "tool_call_id": (
        reply_with({"role": "tool", "tool_call_id": 1, "content": "a"}),
        "messages[0].tool_call_id",
    ),
    "result content": (
        reply_with({"role": "tool", "tool_call_id": "c", "content": 1}),
        "messages[0].content",
    ),
    "result name": (reply_with({"role": "function", "name": 1, "content": "a"}), "messages[0].name"),
    "picture": (reply_with({"role": "assistant", "images": ["x"]}), "messages[0].images[0]"),
    "annotation": (
        reply_with({"role": "assistant", "content": "a", "annotations": ["x"]}),
        "messages[0].annotations[0]",
    ),
    "source without address": (
        reply_with({"role": "assistant", "content": "a", "annotations": [{"url_citation": {}}]}),
        "messages[0].annotations[0].url_citation.url",
    ),
    "tools": (request_with(tools={}), "tools"),
    "tool": (declared(1), "tools[0]"),
    "tool type": (declared({"type": 1}), "tools[0].type"),
    "tool without a function": (declared({"type": "function"}), "tools[0].function"),
    "tool without a name": (declared({"type": "function", "function": {}}), "tools[0].function.name"),
    "parameters": (declared({"function": {"name": "f", "parameters": "x"}}), "tools[0].function.parameters"),
    "strict": (declared({"function": {"name": "f", "strict": "yes"}}), "tools[0].function.strict"),
    "custom tool": (declared({"type": "custom"}), "tools[0].custom"),
    "functions": (request_with(functions=[{}]), "functions[0].name"),
    "web search": (request_with(web_search_options=True), "web_search_options"),
    "choice": (request_with(tool_choice=1), "tool_choice"),
    "choice of a word": (request_with(tool_choice="maybe"), "tool_choice"),
    "choice of nothing": (request_with(tool_choice={"type": "function"}), "tool_choice"),
    "allowed tools": (
        request_with(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": {}}}),
        "tool_choice.allowed_tools.tools",
    ),
    "allowed tool": (
        request_with(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [1]}}),
        "tool_choice",
    ),
    "parallel": (request_with(parallel_tool_calls="no"), "parallel_tool_calls"),
    "stream": (request_with(stream="yes"), "stream"),
    "max_tokens": (request_with(max_tokens="5"), "max_tokens"),
    "a part of a token": (request_with(max_completion_tokens=5.5), "max_completion_tokens"),
    "temperature": (request_with(temperature="hot"), "temperature"),
    "seed": (request_with(seed=True), "seed"),
    "stop": (request_with(stop=5), "stop"),
    "stops": (request_with(stop=["a", 5]), "stop"),
    "effort": (request_with(reasoning_effort=5), "reasoning_effort"),
    "reasoning": (request_with(reasoning={"max_tokens": "x"}), "reasoning.max_tokens"),
    "user": (request_with(user={}), "user"),
    "metadata": (request_with(metadata="x"), "metadata"),
    "format": (request_with(response_format="json"), "response_format"),
    "format without a type": (request_with(response_format={}), "response_format.type"),
    "schema": (request_with(response_format={"type": "json_schema"}), "response_format.json_schema"),
    "schema of a word": (
        request_with(response_format={"type": "json_schema", "json_schema": {"schema": "x"}}),
        "response_format.json_schema.schema",
    ),
}


@pytest.mark.parametrize("row", REQUESTS.values(), ids=REQUESTS)
def test_malformed_requests(row: tuple[Wire, str]) -> None:
    body, path = row
    with pytest.raises(WireError) as raised:
        CODEC.decode_request(body, Losses())
    assert (raised.value.protocol, raised.value.path) == ("openai-chat", path)
    assert "expected" in raised.value.problem


def replied(**message: Any) -> Wire:
    return {"id": "r", "choices": [{"message": {"role": "assistant", **message}}]}


RESPONSES: dict[str, tuple[Wire, str]] = {
    "nothing": ({}, "choices"),
    "no choice": ({"choices": []}, "choices"),
    "choices": ({"choices": {}}, "choices"),
    "choice": ({"choices": ["x"]}, "choices[0]"),
    "no message": ({"choices": [{}]}, "choices[0].message"),
    "message": ({"choices": [{"message": "hi"}]}, "choices[0].message"),
    "finish": ({"choices": [{"message": {}, "finish_reason": 5}]}, "choices[0].finish_reason"),
    "content": (replied(content=5), "choices[0].message.content"),
    "calls": (replied(tool_calls="x"), "choices[0].message.tool_calls"),
    "call": (replied(tool_calls=[{"id": "c"}]), "choices[0].message.tool_calls[0].function"),
    "id": ({**replied(content="a"), "id": 5}, "id"),
    "model": ({**replied(content="a"), "model": []}, "model"),
}


@pytest.mark.parametrize("row", RESPONSES.values(), ids=RESPONSES)
def test_malformed_responses(row: tuple[Wire, str]) -> None:
    body, path = row
    with pytest.raises(WireError) as raised:
        CODEC.decode_response(body, Losses())
    assert (raised.value.protocol, raised.value.path) == ("openai-chat", path)


def delta(**delta: Any) -> bytes:
    return jsontext.encode({"id": "r", "choices": [{"index": 0, "delta": delta}]})


CHUNKS: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "chunk"),
    "text": (b"hello", "chunk"),
    "an array": (b"[]", "chunk"),
    "invalid UTF-8": (b'{"id":"\xff"}', "chunk"),
    "nested too deeply": (b'{"a":' + b"[" * 100_000, "chunk"),
    "choices": (b'{"id":"r","choices":{"a":1}}', "choices"),
    "choice": (b'{"id":"r","choices":["a"]}', "choices"),
    "delta": (b'{"id":"r","choices":[{"delta":"a"}]}', "choices[0].delta"),
    "finish": (b'{"id":"r","choices":[{"delta":{},"finish_reason":5}]}', "choices[0].finish_reason"),
    "content": (delta(content=5), "choices[0].delta.content"),
    "refusal": (delta(refusal=5), "choices[0].delta.refusal"),
    "reasoning": (delta(reasoning={"a": 1}), "choices[0].delta.reasoning_content"),
    "details": (delta(reasoning_details={"a": 1}), "choices[0].delta.reasoning_details"),
    "calls": (delta(tool_calls={"a": 1}), "choices[0].delta.tool_calls"),
    "call": (delta(tool_calls=["a"]), "choices[0].delta.tool_calls"),
    "function": (delta(tool_calls=[{"index": 0, "function": "f"}]), "choices[0].delta.tool_calls.function"),
    "name": (delta(tool_calls=[{"index": 0, "function": {"name": 5}}]), "choices[0].delta.tool_calls.name"),
    "arguments": (
        delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": 5}}]),
        "choices[0].delta.tool_calls.function.arguments",
    ),
    "annotations": (delta(annotations={"a": 1}), "choices[0].delta.annotations"),
}


@pytest.mark.parametrize("row", CHUNKS.values(), ids=CHUNKS)
def test_malformed_chunks(row: tuple[bytes, str]) -> None:
    data, path = row
    decoder = CODEC.stream_decoder(Losses())
    list(decoder.feed(Frame("", delta(content="a"))))
    with pytest.raises(WireError) as raised:
        list(decoder.feed(Frame("", data)))
    assert (raised.value.protocol, raised.value.path) == ("openai-chat", path)
