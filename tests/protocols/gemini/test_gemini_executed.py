"""Calls that Gemini ran itself, as it runs tools of MCP servers: they are answered in the same content."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.protocols import codec
from seeds.wires import gathered

Wire = dict[str, Any]
CALL: Wire = {"functionCall": {"name": "srv_look", "args": {"q": "SF"}}}
ANSWER: Wire = {"functionResponse": {"name": "srv_look", "response": {"result": "18C"}}}
OTHER: Wire = {"functionCall": {"name": "srv_other", "args": {}}}
OTHERS_ANSWER: Wire = {"functionResponse": {"name": "srv_other", "response": {"error": "no"}}}
TEXT: Wire = {"text": "It is 18C."}
OWN: Wire = {"functionCall": {"name": "f", "args": {"a": 1}}}
REQUESTS: dict[str, Wire] = {
    "openai-responses": {
        "input": "q",
        "tools": [
            {"type": "mcp", "server_label": "srv", "server_url": "https://x.t", "require_approval": "never"}
        ],
    },
    "anthropic": {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "q"}],
        "mcp_servers": [{"type": "url", "name": "srv", "url": "https://x.test"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "srv"}],
    },
    "openai-chat": {"messages": [{"role": "user", "content": "q"}]},
}  # fmt: skip


def replies(client: str, parts: list[Wire]) -> list[tuple[Wire, list[str]]]:
    """The whole reply and the streamed one, each with its losses."""
    found: list[tuple[Wire, list[str]]] = []
    for streamed in (False, True):
        exchange = dragoman.Exchange(client, "gemini", reply_created=1)
        exchange.request({"model": "m", **REQUESTS[client]}, model="gemini-3-flash-preview")
        before = len(exchange.losses)
        if streamed:
            chunks: list[Wire] = [
                {"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts
            ]
            chunks.append({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})
            stream = exchange.stream()
            data = [stream.feed(b"data: %b\n\n" % jsontext.encode(chunk)) for chunk in chunks]
            reply = gathered(client, b"".join(data) + stream.close())
        else:
            content = {"role": "model", "parts": parts}
            reply = exchange.response({"candidates": [{"content": content, "finishReason": "STOP"}]})
        found.append((reply, sorted({loss.code for loss in exchange.losses[before:]})))
    return found


@pytest.mark.parametrize("client", REQUESTS)
@pytest.mark.parametrize("parts", [[CALL, ANSWER, TEXT], [CALL, OTHER, ANSWER, OTHERS_ANSWER, TEXT]])
def test_no_client_is_told_to_run_it(client: str, parts: list[Wire]) -> None:
    for reply, _ in replies(client, parts):
        assert dragoman.parse_tool_calls(reply, client) == []
        assert codec(client).decode_response(reply, Losses()).stop.reason == "end"
        assert "18C" in jsontext.dumps(reply).replace("It is 18C", "")


def test_responses_clients_see_an_mcp_call() -> None:
    for reply, losses in replies("openai-responses", [CALL, OTHER, ANSWER, OTHERS_ANSWER, TEXT]):
        first, second, message = reply["output"]
        told = (first["type"], first["server_label"], first["name"], first["arguments"], first["output"])
        assert told == ("mcp_call", "srv", "look", '{"q":"SF"}', "18C")
        assert (second["status"], second["error"]) == ("failed", '{"error":"no"}')
        assert message["type"] == "message"
        assert losses == ["call.id.invented"] or losses == []


def test_anthropic_clients_see_an_mcp_tool_use_and_its_result() -> None:
    for reply, _ in replies("anthropic", [CALL, ANSWER, TEXT]):
        use, result, text = reply["content"]
        assert (use["type"], use["server_name"], use["name"], use["input"]) == (
            "mcp_tool_use", "srv", "look", {"q": "SF"},
        )  # fmt: skip
        assert (result["type"], result["tool_use_id"]) == ("mcp_tool_result", use["id"])
        assert result["content"][0]["text"] == "18C"
        assert text["text"] == "It is 18C."


def test_chat_clients_read_it() -> None:
    for reply, losses in replies("openai-chat", [CALL, ANSWER, TEXT]):
        assert reply["choices"][0]["message"]["content"] == '[srv_look: {"q":"SF"}]\n18C\nIt is 18C.'
        assert "part.unknown.changed" in losses


@pytest.mark.parametrize("client", REQUESTS)
def test_a_call_without_an_answer_is_the_clients(client: str) -> None:
    for reply, _ in replies(client, [CALL, ANSWER, OWN]):
        (call,) = dragoman.parse_tool_calls(reply, client)
        assert (call.name, jsontext.decode(call.arguments)) == ("f", {"a": 1})


# The chats of Google's SDKs make a content of each chunk of a stream
HISTORIES: dict[str, list[Any]] = {
    "one content": [[CALL, ANSWER, TEXT]],
    "a content for each chunk": [[CALL], [ANSWER], [TEXT]],
    "calls side by side": [[CALL, OTHER], [ANSWER], [OTHERS_ANSWER, TEXT]],
    "a part that is no array": [CALL, [ANSWER], "It is"],
}


@pytest.mark.parametrize("known", [False, True], ids=["whole", "with a memory"])
@pytest.mark.parametrize("contents", HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("upstream", REQUESTS)
def test_in_a_history_it_is_text(upstream: str, contents: list[Any], known: bool) -> None:
    history = [
        {"role": "user", "parts": [{"text": "q" * 5000}]},
        *({"role": "model", "parts": parts} for parts in contents),
        {"role": "user", "parts": [{"text": "and tomorrow?"}]},
    ]
    memory = ConversationMemory() if known else None
    for length in (2, len(history)):
        exchange = dragoman.Exchange("gemini", upstream, memory=memory)
        body = jsontext.encode({"contents": history[:length]})
        sent = exchange.request_bytes(body, model="m").decode()
    assert "18C" in sent.replace("It is 18C", "")
    assert "tool_result" not in sent
    assert "No result" not in sent
    assert {loss.code for loss in exchange.losses} <= {"part.unknown.changed", "setting.max_tokens.invented"}


@pytest.mark.parametrize("contents", [[[CALL, ANSWER, TEXT]], [[CALL], [ANSWER, TEXT]]])
def test_it_goes_back_to_gemini_as_it_came(contents: list[Any]) -> None:
    body = {"contents": [{"role": "model", "parts": parts} for parts in contents]}
    request = codec("gemini").decode_request(body, Losses())
    assert codec("gemini").encode_request(request, Losses())["contents"] == body["contents"]
