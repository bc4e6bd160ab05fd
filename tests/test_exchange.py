"""Losses through the public contract: named as their source spells them, each side by its own words."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import dragoman
from seeds.wires import scribble


def test_losses_of_a_reply_keep_the_words_of_the_upstream() -> None:
    message = {"role": "assistant", "content": "Hi"}
    reply = {
        "id": "c",
        "model": "m",
        "user": "u",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    exchange.response(reply)
    assert [loss.where for loss in exchange.losses] == ["user"]


def test_state_that_is_withheld_is_reported_at_its_part() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turns = [{"role": "assistant", "content": [thinking, {"type": "text", "text": "Hi"}]}]
    exchange = dragoman.Exchange("anthropic", "gemini")
    exchange.request({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}, *turns]})
    (loss,) = [loss for loss in exchange.losses if "signed by" in loss.why]
    assert loss.where == "messages[1].content[0]"


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses"])
def test_G82_strict_is_left_off_where_it_would_forbid_what_the_schema_allows(upstream: str) -> None:
    env = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"env": env}, "required": ["env"]}
    exchange = dragoman.Exchange("anthropic", upstream)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    (tool,) = exchange.request({**body, "tools": [{"name": "f", "strict": True, "input_schema": schema}]})[
        "tools"
    ]
    tool = tool.get("function", tool)
    assert tool["parameters"] == schema
    assert not tool["strict"]
    assert [loss.where for loss in exchange.losses] == ["tools[0]"]


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize(
    "client, id",
    [
        ("anthropic", "msg_abc"),
        ("openai-responses", "resp_abc"),
        ("gemini", "abc"),
        ("openai-chat", "chatcmpl-abc"),
    ],
)
def test_a_reply_without_an_id_gets_the_one_that_is_given(client: str, id: str, streamed: bool) -> None:
    """Claude Code joins two replies with one id, so that calls made one after another look like one turn."""
    exchange = dragoman.Exchange(client, "openai-chat", dialect="hermes", reply_id="abc")
    message = {"role": "assistant", "content": "Hi"}
    if streamed:
        out = exchange.stream().feed(b'data: {"id":"","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
        assert f'"{id}"'.encode() in out
    else:
        reply = exchange.response({"id": "", "model": "m", "choices": [{"index": 0, "message": message}]})
        assert (reply.get("id") or reply["responseId"]) == id


def test_a_reply_with_an_id_keeps_it() -> None:
    exchange = dragoman.Exchange("anthropic", "openai-chat", reply_id="abc")
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
    assert exchange.response({"id": "own", "model": "m", "choices": [choice]})["id"] == "msg_own"


def test_a_reply_of_the_same_protocol_passes_and_is_counted() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body = {
        "id": "msg_1",
        "type": "message",
        "content": [call],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    raw = json.dumps(body).encode()
    exchange = dragoman.Exchange("anthropic", "anthropic")
    assert exchange.usage is None
    assert exchange.response_bytes(raw) == raw
    whole = dragoman.Exchange("anthropic", "anthropic")
    assert whole.response(raw) == body
    for each in (exchange, whole):
        assert each.usage is not None
        assert (each.usage.input, each.usage.output, each.calls) == (7, 3, 1)


def test_a_reply_in_bytes_is_translated_like_any_other() -> None:
    message = {"role": "assistant", "content": "Hi"}
    raw = json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, "message": message}]}).encode()
    whole, printed = (dragoman.Exchange("anthropic", "openai-chat") for _ in range(2))
    assert json.loads(printed.response_bytes(raw)) == whole.response(raw)


@pytest.mark.parametrize("upstream", ["openai-chat", "anthropic"])
def test_an_error_in_bytes_is_the_clients_error(upstream: str) -> None:
    error = {"type": "rate_limit_error", "message": "slow down", "code": "rate_limit_exceeded"}
    raw = json.dumps({"type": "error", "error": error}).encode()
    exchange = dragoman.Exchange("anthropic", upstream)
    reply = json.loads(exchange.response_bytes(raw))
    assert reply == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    assert exchange.status == 429
    assert exchange.usage is None


def test_what_a_caller_is_given_is_its_own() -> None:
    """Writing into one translation does not show in the next."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
    reported: list[str] = []
    for _ in range(2):
        tools = [{"type": "custom", "name": "patch"}, {"type": "local_shell"}]
        bare = {"type": "function", "name": "bare", "parameters": None, "strict": None}
        for upstream in ("anthropic", "openai-chat", "gemini"):
            exchange = dragoman.Exchange("openai-responses", upstream)
            request = exchange.request({"model": "m", "input": "?", "tools": [*tools, bare]})
            reported.append(str(request))
            scribble(request)
        exchange = dragoman.Exchange("openai-responses", "openai-chat", reply_created=1)
        reply = exchange.response({"id": "c", "model": "m", "choices": [choice]})
        reported.append(str(reply))
        scribble(reply)
    assert reported[:4] == reported[4:]


def test_b11_a_reply_without_a_time_has_that_of_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.exchange.time", SimpleNamespace(time=lambda: 1_700_000_000.9))
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    for client, field in (("openai-chat", "created"), ("openai-responses", "created_at")):
        assert dragoman.Exchange(client, "anthropic").response(reply)[field] == 1_700_000_000
        assert dragoman.Exchange(client, "anthropic", reply_created=7).response(reply)[field] == 7


# What servers answer in place of a reply: (status, body, the client's status, its kind)
ERROR_BODIES = {
    "FastAPI": (404, {"detail": "Not Found"}, 404, "not_found"),
    "a flat message": (404, {"message": "no such model", "code": 404}, 404, "not_found"),
    "an error as text": (401, {"error": "bad key"}, 401, "unauthenticated"),
    "an array of one error": (429, b'[{"error": {"message": "slow", "code": 429}}]', 429, "rate_limit"),
    "a page of a proxy": (502, b"<html>502</html>", 500, "server"),
    "a page without a status": (200, b"<html>502</html>", 500, "server"),
    "nothing": (503, b"", 503, "overloaded"),
    "nothing, without a status": (200, b"", 500, "server"),
    "a JSON string": (400, b'"no"', 400, "bad_request"),
    "an object without meaning": (403, {}, 403, "forbidden"),
    "bytes that are no text": (500, b"\xff\xfe", 500, "server"),
}


@pytest.mark.parametrize("case", ERROR_BODIES)
@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_an_error_body_never_raises(case: str, upstream: str):
    status, body, expected, kind = ERROR_BODIES[case]
    for client in ("openai-chat", upstream):
        for as_bytes in (False, True):
            exchange = dragoman.Exchange(client=client, upstream=upstream)
            if as_bytes:
                exchange.response_bytes(
                    body if isinstance(body, bytes) else json.dumps(body).encode(), status
                )
            else:
                exchange.response(body, status=status)
            assert exchange.failure is not None
            assert exchange.failure.kind == kind
            if client == "openai-chat":
                assert exchange.status == expected


# A reply without `model`, as some servers send it: whole, and as a stream
NAMELESS = {
    "openai-chat": (
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
        {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]},
    ),
    "gemini": ({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]},) * 2,
}
PROMPT: Any = {
    "anthropic": {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    "openai-chat": {"messages": [{"role": "user", "content": "x"}]},
    "openai-responses": {"input": "x"},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
}


@pytest.mark.parametrize("client", PROMPT)
@pytest.mark.parametrize("upstream", NAMELESS)
def test_a_reply_that_names_no_model_has_that_of_the_request(client: str, upstream: str):
    if client == upstream:
        return
    whole, frame = NAMELESS[upstream]
    field = "modelVersion" if client == "gemini" else "model"
    for send in ("response", "response_bytes", "stream"):
        exchange = dragoman.Exchange(client, upstream)
        exchange.request({"model": "mine", **PROMPT[client]})
        if send == "response":
            reply = exchange.response(whole)
        elif send == "response_bytes":
            reply = json.loads(exchange.response_bytes(json.dumps(whole).encode()))
        else:
            stream = exchange.stream()
            first = stream.feed(f"data: {json.dumps(frame)}\n\n".encode()) + stream.close()
            reply = json.loads(first.partition(b"data: ")[2].partition(b"\n")[0])
            reply = reply.get("message") or reply.get("response") or reply
        assert reply[field] == "mine"


def test_json_that_is_no_reply_raises():
    exchange = dragoman.Exchange(client="anthropic", upstream="openai-chat")
    with pytest.raises(dragoman.WireError):
        exchange.response({"choices": "none"})
    with pytest.raises(dragoman.WireError):
        exchange.response_bytes(b'{"choices": "none"}')


def test_the_headers_of_a_request_hold_its_key():
    exchange = dragoman.Exchange(client="anthropic", upstream="openai-chat")
    body = exchange.request_bytes(b'{"model": "m", "max_tokens": 9, "messages": []}')
    headers = exchange.authorized_headers("sk-1", "http://127.0.0.1" + exchange.path, body)
    assert headers["authorization"] == "Bearer sk-1"
    assert headers["content-type"] == "application/json"
