"""Arguments that are not quite JSON: a call that broke off never runs, any other stays what the model wrote.

Whole and streamed agree, for each flaw and each client: the same call, the same stop, the same losses.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import Response, ToolCall
from dragoman.framing.sse import Decoder
from dragoman.protocols import codec
from dragoman.transforms.arguments import unwrap_raw
from seeds.wires import named_sse, sse_of_events

CLIENTS = ("openai-chat", "openai-responses", "anthropic", "gemini")
STRING = {"type": "object", "properties": {"city": {"type": "string"}}}
TYPED = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
CLOSED = {
    "nothing": '{"city": "Oslo"}',
    "white space behind": '{"city": "Oslo"}\n',
    "trailing comma": '{"city": "Oslo",}',
    "raw newline": '{"city": "Os\nlo"}',
    "single quotes": "{'city': 'Oslo'}",
    "one bracket too many": '{"city": "Oslo"}}',
    "unescaped backslash": '{"city": "C:\\dir"}',
    "not a number": '{"city": NaN}',
    "a token behind": '{"city": "Oslo"}<|im_end|>',
    "no JSON": "Oslo",
    "bare key": '{city: "Oslo"}',
    "an array": '["Oslo"]',
}
OPEN = {
    "inside a string": '{"city": "Os',
    "inside an object": '{"city": "Oslo"',
    "inside an array": '{"city": ["Oslo"',
    "inside a text": '"{\\"city\\"',
}
MENDED = {"trailing comma", "one bracket too many", "a token behind"}


def body_of(arguments: str, upstream: str) -> dict[str, Any]:
    if upstream == "openai-responses":
        item = {"type": "function_call", "id": "fc_a", "call_id": "a", "name": "f", "arguments": arguments}
        return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [item]}
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def frames_of(arguments: str, upstream: str) -> bytes:
    if upstream == "openai-responses":
        body = body_of(arguments, upstream)
        item = body["output"][0]
        bare = {**item, "arguments": ""}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**body, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": bare},
            *(
                {
                    "type": "response.function_call_arguments.delta",
                    "output_index": 0,
                    "item_id": "fc_a",
                    "delta": each,
                }
                for each in arguments
            ),
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": body},
        ]
        return b"".join(b"data: %b\n\n" % jsontext.encode(event) for event in events)
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    calls = [first, *({"index": 0, "function": {"arguments": each}} for each in arguments)]
    deltas: list[tuple[dict[str, Any], str | None]] = [({"tool_calls": [call]}, None) for call in calls]
    chunks = [
        {
            "id": "r",
            "model": "m",
            "created": 1,
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        }
        for delta, end in (*deltas, ({}, "tool_calls"))
    ]
    return b"".join(b"data: %b\n\n" % jsontext.encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def exchange_of(client: str, upstream: str, schema: dict[str, Any]) -> dragoman.Exchange:
    tools = dragoman.translate_tools([{"name": "f", "input_schema": schema}], "anthropic", client)
    question: dict[str, Any] = {
        "openai-chat": {"messages": [{"role": "user", "content": "q"}]},
        "openai-responses": {"input": "q"},
        "anthropic": {"messages": [{"role": "user", "content": "q"}], "max_tokens": 9},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
    }[client]
    exchange = dragoman.Exchange(client, upstream, reply_created=1)
    exchange.request({"model": "m", **question, "tools": tools}, model="m")
    return exchange


def read(exchange: dragoman.Exchange, response: Response) -> tuple[Any, ...]:
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    reply = [loss for loss in exchange.losses if loss.code.startswith(("call.", "stop."))]
    return (
        [(call.name, said(unwrap_raw(call.arguments)), call.complete) for call in calls],
        response.stop.reason,
        [(loss.kind, loss.code, loss.why) for loss in reply],
    )


def said(arguments: str) -> Any:
    """The object that they spell, or the text."""
    found = jsontext.decode_object(arguments)
    return arguments if found is None else found


def whole(client: str, upstream: str, schema: dict[str, Any], arguments: str) -> tuple[Any, ...]:
    exchange = exchange_of(client, upstream, schema)
    return read(
        exchange, codec(client).decode_response(exchange.response(body_of(arguments, upstream)), Losses())
    )


def streamed(client: str, upstream: str, schema: dict[str, Any], arguments: str) -> tuple[Any, ...]:
    return play(exchange_of(client, upstream, schema), client, frames_of(arguments, upstream))


def play(exchange: dragoman.Exchange, client: str, frames: bytes) -> tuple[Any, ...]:
    stream = exchange.stream()
    data = stream.feed(frames) + stream.close()
    decoder = codec(client).stream_decoder(Losses())
    events = [event for frame in Decoder().feed(data) for event in decoder.feed(frame)]
    return read(exchange, fold([*events, *decoder.close()]))


def pieces_of(arguments: str, upstream: str) -> bytes:
    """As upstreams stream them whose whole replies hold objects."""
    if upstream == "anthropic":
        head = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": []}
        block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": each} for each in arguments]
        return named_sse(
            {"type": "message_start", "message": head},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        )
    frame = {"id": "i", "object": "interaction", "model": "m"}
    step = {"type": "function_call", "id": "a", "name": "f", "arguments": {}}
    deltas = [{"type": "arguments_delta", "arguments": each} for each in arguments]
    return sse_of_events(
        {"event_type": "interaction.created", "interaction": {**frame, "status": "in_progress"}},
        {"event_type": "step.start", "index": 0, "step": step},
        *({"event_type": "step.delta", "index": 0, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": {**frame, "status": "requires_action"}},
    )


@pytest.mark.parametrize("upstream", ["anthropic", "gemini-interactions"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("schema", [STRING, TYPED], ids=["flows", "held"])
def test_every_upstream_streams_a_flaw_alike(client: str, upstream: str, schema: dict[str, Any]) -> None:
    if client == upstream:
        return
    other = "openai-responses" if client == "openai-chat" else "openai-chat"
    for arguments in (*CLOSED.values(), *OPEN.values()):
        found = play(exchange_of(client, upstream, schema), client, pieces_of(arguments, upstream))
        expected = play(exchange_of(client, other, schema), client, frames_of(arguments, other))
        assert codes(found) == codes(expected), arguments


def codes(found: tuple[Any, ...]) -> tuple[Any, ...]:
    calls, stop, losses = found
    return calls, stop, [code for _, code, _ in losses]


UPSTREAMS = ("openai-chat", "openai-responses")
PAIRS = [(client, upstream) for client in CLIENTS for upstream in UPSTREAMS if client != upstream]


@pytest.mark.parametrize("schema", [STRING, TYPED], ids=["flows", "held"])
@pytest.mark.parametrize("flaw", CLOSED)
@pytest.mark.parametrize("client, upstream", PAIRS)
def test_a_call_that_is_closed_stays(client: str, upstream: str, flaw: str, schema: dict[str, Any]) -> None:
    arguments = CLOSED[flaw]
    calls, stop, losses = whole(client, upstream, schema, arguments)
    assert (calls, stop, losses) == streamed(client, upstream, schema, arguments)
    ((name, text, complete),) = calls
    assert (name, complete, stop) == ("f", True, "tool_calls")
    if jsontext.decode_object(arguments) is not None:
        assert (text, losses) == ({"city": "Oslo"}, [])
    elif flaw in MENDED and schema is TYPED:
        assert text == {"city": "Oslo"}
        assert [code for _, code, _ in losses] == ["call.repaired.changed"]
    else:
        assert text == arguments
        assert [code for _, code, _ in losses] == ["call.arguments.changed"]


@pytest.mark.parametrize("schema", [STRING, TYPED], ids=["flows", "held"])
@pytest.mark.parametrize("flaw", OPEN)
@pytest.mark.parametrize("client, upstream", PAIRS)
def test_a_call_that_broke_off_never_runs(
    client: str, upstream: str, flaw: str, schema: dict[str, Any]
) -> None:
    for read in (whole, streamed):
        calls, stop, _ = read(client, upstream, schema, OPEN[flaw])
        assert stop == "length"
        assert not any(complete for _, _, complete in calls)


_EMPTY_CALL = {"name": "f", "arguments": "[]"}
EMPTY = {
    "openai-chat": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": _EMPTY_CALL}]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ],
    "openai-responses": [
        {"role": "user", "content": "q"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "[ ]"},
        {"type": "function_call_output", "call_id": "a", "output": "r"},
    ],
    "anthropic": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": []}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": []}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": []}}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("upstream", CLIENTS)
@pytest.mark.parametrize("client", EMPTY)
def test_an_empty_array_of_a_history_is_an_empty_object(client: str, upstream: str) -> None:
    if client == upstream:
        return
    exchange = dragoman.Exchange(client, upstream)
    sent = exchange.request({"model": "m", "max_tokens": 9, codec(client).turns: EMPTY[client]}, model="m")
    request = codec(upstream).decode_request(sent, Losses())
    (call,) = [part for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    assert call.arguments.strip() in ("{}", "")
    assert "call.empty.changed" in [loss.code for loss in exchange.losses]


@pytest.mark.parametrize("client, upstream", PAIRS)
def test_an_empty_array_of_a_reply_is_an_empty_object(client: str, upstream: str) -> None:
    for read in (whole, streamed):
        calls, stop, losses = read(client, upstream, STRING, "[]")
        assert (calls, stop) == ([("f", {}, True)], "tool_calls")
        assert [code for _, code, _ in losses] == ["call.empty.changed"]
