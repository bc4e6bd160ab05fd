"""Malformed Responses bodies: a WireError that names the path, and never anything else."""

from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses import CODEC


def item(**fields: Any) -> Wire:
    return {"input": [fields]}


def content(*parts: Any) -> Wire:
    return item(role="user", content=list(parts))


REQUESTS: dict[str, tuple[Any, str]] = {
    "no object": ([], ""),
    "model": ({"model": 5}, "model"),
    "input": ({"input": 5}, "input"),
    "input as an object": ({"input": {}}, "input"),
    "an item": ({"input": [5]}, "input[0]"),
    "an item without type and role": (item(x=1), "input[0]"),
    "a type": (item(type=5), "input[0]"),
    "a role": (item(role="robot", content=""), "input[0].role"),
    "no role": (item(type="message", content=""), "input[0].role"),
    "no content": (item(role="user"), "input[0].content"),
    "content": (item(role="user", content=5), "input[0].content"),
    "an answer without content": (item(role="assistant"), "input[0].content"),
    "a part": (content(5), "input[0].content[0]"),
    "a part without a type": (content({"text": "x"}), "input[0].content[0].type"),
    "a text": (content({"type": "input_text", "text": 5}), "input[0].content[0].text"),
    "no text": (content({"type": "input_text"}), "input[0].content[0].text"),
    "an image": (
        content({"type": "input_image", "image_url": {"url": "x"}}),
        "input[0].content[0].image_url",
    ),
    "an image without a source": (content({"type": "input_image"}), "input[0].content[0]"),
    "a file without a source": (content({"type": "input_file"}), "input[0].content[0]"),
    "a file": (content({"type": "input_file", "file_data": 1}), "input[0].content[0].file_data"),
    "audio": (content({"type": "input_audio", "input_audio": "x"}), "input[0].content[0].input_audio"),
    "annotations": (
        item(role="assistant", content=[{"type": "output_text", "text": "x", "annotations": 1}]),
        "input[0].content[0].annotations",
    ),
    "an annotation": (
        item(role="assistant", content=[{"type": "output_text", "text": "x", "annotations": [1]}]),
        "input[0].content[0].annotations[0]",
    ),
    "a call without an id": (item(type="function_call", name="f", arguments=""), "input[0].call_id"),
    "a call without a name": (item(type="function_call", call_id="c", arguments=""), "input[0].name"),
    "arguments": (item(type="function_call", call_id="c", name="f", arguments=5), "input[0].arguments"),
    "custom input": (item(type="custom_tool_call", call_id="c", name="f"), "input[0].input"),
    "an action": (item(type="local_shell_call", call_id="c", action="ls"), "input[0].action"),
    "an output": (item(type="function_call_output", call_id="c", output=5), "input[0].output"),
    "no output": (item(type="function_call_output", call_id="c"), "input[0].output"),
    "a part of an output": (item(type="function_call_output", call_id="c", output=[5]), "input[0].output[0]"),
    "a summary": (item(type="reasoning", summary="x"), "input[0].summary"),
    "a part of a summary": (item(type="reasoning", summary=[1]), "input[0].summary[0]"),
    "reasoning content": (item(type="reasoning", content=[{"text": 1}]), "input[0].content[0].text"),
    "encrypted content": (item(type="reasoning", encrypted_content=1), "input[0].encrypted_content"),
    "added tools": (item(type="additional_tools", tools=[1]), "input[0].tools[0]"),
    "added tools that are none": (item(type="additional_tools", tools=1), "input[0].tools"),
    "instructions": ({"instructions": ["x"]}, "instructions"),
    "stream": ({"stream": "yes"}, "stream"),
    "tools": ({"tools": {}}, "tools"),
    "a tool": ({"tools": [1]}, "tools[0]"),
    "a tool without a type": ({"tools": [{"name": "f"}]}, "tools[0].type"),
    "a tool without a name": ({"tools": [{"type": "function"}]}, "tools[0].name"),
    "parameters": ({"tools": [{"type": "function", "name": "f", "parameters": 1}]}, "tools[0].parameters"),
    "strict": ({"tools": [{"type": "function", "name": "f", "strict": 1}]}, "tools[0].strict"),
    "a grammar": (
        {"tools": [{"type": "custom", "name": "f", "format": {"type": "grammar"}}]},
        "tools[0].format",
    ),
    "a namespace": ({"tools": [{"type": "namespace", "name": "n", "tools": [1]}]}, "tools[0].tools[0]"),
    "a namespace of hosted tools": (
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
        "tools[0].tools",
    ),
    "a choice": ({"tool_choice": "sometimes"}, "tool_choice"),
    "a choice without a name": ({"tool_choice": {"type": "function"}}, "tool_choice"),
    "a number": ({"max_output_tokens": "5"}, "max_output_tokens"),
    "a whole number": ({"max_output_tokens": 1.5}, "max_output_tokens"),
    "temperature": ({"temperature": True}, "temperature"),
    "reasoning": ({"reasoning": "high"}, "reasoning"),
    "effort": ({"reasoning": {"effort": 1}}, "reasoning.effort"),
    "text": ({"text": "json"}, "text"),
    "a format": ({"text": {"format": "json"}}, "text.format"),
    "a format without a type": ({"text": {"format": {}}}, "text.format.type"),
    "a schema": ({"text": {"format": {"type": "json_schema", "schema": 1}}}, "text.format.schema"),
    "metadata": ({"metadata": "x"}, "metadata"),
    "include": ({"include": "x"}, "include"),
    "parallel calls": ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    "store": ({"store": 1}, "store"),
    "what JSON cannot say": (
        item(type="function_call", call_id="c", name="f", arguments={"a": {1, 2}.__iter__}),
        "input[0].arguments",
    ),
}


@pytest.mark.parametrize("body, path", REQUESTS.values(), ids=REQUESTS)
def test_malformed_requests(body: Any, path: str):
    with pytest.raises(WireError) as raised:
        CODEC.decode_request(body, Losses())
    assert (raised.value.protocol, raised.value.path) == ("openai-responses", path)


RESPONSES: dict[str, tuple[Any, str]] = {
    "no object": ("x", ""),
    "id": ({"id": 5}, "id"),
    "output": ({"output": "x"}, "output"),
    "an item": ({"output": [1]}, "output[0]"),
    "a message": ({"output": [{"type": "message", "content": 1}]}, "output[0].content"),
    "a call": ({"output": [{"type": "function_call", "call_id": "c"}]}, "output[0].name"),
    "usage": ({"usage": "x"}, "usage"),
    "tokens": ({"usage": {"input_tokens": "x"}}, "usage.input_tokens"),
    "details": ({"usage": {"input_tokens_details": 1}}, "usage.input_tokens_details"),
}


@pytest.mark.parametrize("body, path", RESPONSES.values(), ids=RESPONSES)
def test_malformed_responses(body: Any, path: str):
    with pytest.raises(WireError) as raised:
        CODEC.decode_response(body, Losses())
    assert (raised.value.protocol, raised.value.path) == ("openai-responses", path)


def test_long_rows_take_linear_time():
    calls = [
        {"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"} for i in range(20_000)
    ]
    request = CODEC.decode_request({"input": calls}, Losses())
    assert len(request.messages) == 1
    assert len(CODEC.encode_request(request, Losses())["input"]) == 20_000


@pytest.mark.parametrize(
    "id, number, then",
    [
        (b"resp_1", b"7", ("resp_1", 8)),
        (b"\xed\xa0\x80", b"7", ("\ufffd\ufffd\ufffd", 8)),
        (b"resp_1", b"9" * 5000, ("resp_1", 2)),
    ],
    ids=["good", "an id that is not UTF-8", "a number beyond counting"],
)
def test_a_forwarded_stream_that_is_cut_ends_well(id: bytes, number: bytes, then: tuple[str, int]) -> None:
    created = b'{"type":"response.created","response":{"id":"%b"},"sequence_number":%b}' % (id, number)
    stream = Exchange("openai-responses", "openai-responses").stream()
    stream.feed(b"event: response.created\ndata: %b\n\n" % created)
    failed = jsontext.decode(stream.close().partition(b"data: ")[2])
    assert (failed["response"]["id"], failed["sequence_number"]) == then


def test_a_whole_reply_in_place_of_a_stream_whose_call_says_no_arguments() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "id": "fc_1"}
    reply = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [call]}
    stream = Exchange("openai-responses", "openai-responses").stream()
    out = stream.feed(jsontext.encode(reply)) + stream.close()
    assert b"response.function_call_arguments.done" in out
    assert stream.failure is None
