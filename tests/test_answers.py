"""Several answers between Chat and Gemini: `n` and `candidateCount`, whole and streamed."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.framing import sse
from dragoman.protocols import codec

TOOL = {"type": "object", "properties": {"q": {"type": "string"}}}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "m",
        "n": 2,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "look.up", "parameters": TOOL}}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "generationConfig": {"candidateCount": 2},
        "tools": [{"functionDeclarations": [{"name": "look.up", "parameters": TOOL}]}],
    },
}
CHOICES = [
    {"index": 0, "message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"},
    {
        "index": 1,
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"a"}'}}
            ],
        },
        "finish_reason": "tool_calls",
    },
]
CANDIDATES = [
    {"index": 0, "content": {"role": "model", "parts": [{"text": "one"}]}, "finishReason": "STOP"},
    {
        "index": 1,
        "content": {"role": "model", "parts": [{"functionCall": {"name": "look.up", "args": {"q": "a"}}}]},
        "finishReason": "STOP",
    },
]
WHOLE: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": CHOICES,
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    },
    "gemini": {
        "candidates": CANDIDATES,
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8},
        "responseId": "r1",
        "modelVersion": "m",
    },
}


def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + jsontext.encode(body) + b"\n\n"


def candidate(index: int, text: str, finish: str | None = None) -> bytes:
    end = {"finishReason": finish} if finish else {}
    content = {"role": "model", "parts": [{"text": text}]}
    body = {
        "candidates": [{"index": index, "content": content, **end}],
        "responseId": "r",
        "modelVersion": "m",
    }
    return b"data: " + jsontext.encode(body) + b"\n\n"


STREAMS = {
    "openai-chat": [
        chunk(0, {"role": "assistant", "content": "o"}),
        chunk(1, {"role": "assistant", "content": "tw"}),
        chunk(0, {"content": "ne"}),
        chunk(0, {}, "stop"),
        chunk(1, {"content": "o"}),
        chunk(1, {}, "length"),
        b"data: [DONE]\n\n",
    ],
    "gemini": [
        candidate(0, "o"),
        candidate(1, "tw"),
        candidate(0, "ne", "STOP"),
        candidate(1, "o", "MAX_TOKENS"),
    ],
}
EACH_WAY = pytest.mark.parametrize(
    ("client", "upstream"), [("openai-chat", "gemini"), ("gemini", "openai-chat")]
)


def exchange_for(client: str, upstream: str, **more: Any) -> dragoman.Exchange:
    exchange = dragoman.Exchange(client, upstream, **more)
    exchange.request(REQUESTS[client], stream=True)
    return exchange


def read(client: str, data: bytes) -> dict[int, tuple[str, str]]:
    """The text and the finish reason of each answer, of a stream that its grammar accepts."""
    grammar, answers = codec(client).grammar(), dict[int, tuple[str, str]]()
    for frame in sse.Decoder().feed(data):
        grammar.feed(frame)
        if frame.data == b"[DONE]":
            continue
        body = jsontext.decode(frame.data)
        for answer in body.get("choices") or body.get("candidates") or ():
            text, end = answers.get(answer["index"], ("", ""))
            if client == "gemini":
                text += "".join(part.get("text", "") for part in answer["content"]["parts"])
            else:
                text += answer["delta"].get("content") or ""
            end = answer.get("finish_reason") or answer.get("finishReason") or end
            answers[answer["index"]] = (text, end)
    grammar.close()
    return answers


@EACH_WAY
def test_a_whole_reply(client: str, upstream: str) -> None:
    exchange = dragoman.Exchange(client, upstream)
    sent = exchange.request(REQUESTS[client])
    assert sent.get("n") == 2 or sent["generationConfig"]["candidateCount"] == 2
    reply = exchange.response(WHOLE[upstream])
    if client == "openai-chat":
        first, second = reply["choices"]
        assert (first["index"], first["message"]["content"], first["finish_reason"]) == (0, "one", "stop")
        assert (second["index"], second["finish_reason"]) == (1, "tool_calls")
        assert second["message"]["tool_calls"][0]["function"] == {"name": "look.up", "arguments": '{"q":"a"}'}
        assert reply["usage"]["total_tokens"] == 8
    else:
        first, second = reply["candidates"]
        assert (first["index"], first["content"]["parts"]) == (0, [{"text": "one"}])
        assert second["index"] == 1
        assert second["content"]["parts"][0]["functionCall"]["args"] == {"q": "a"}
        assert reply["usageMetadata"]["totalTokenCount"] == 8
    assert not [loss for loss in exchange.losses if loss.code == "response.choices.dropped"]


@EACH_WAY
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream(client: str, upstream: str, size: int) -> None:
    exchange, data = exchange_for(client, upstream), b"".join(STREAMS[upstream])
    stream = exchange.stream()
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.close()
    ends = ("stop", "length") if client == "openai-chat" else ("STOP", "MAX_TOKENS")
    assert read(client, out) == {0: ("one", ends[0]), 1: ("two", ends[1])}
    assert (stream.ended, stream.failure, exchange.losses) == (True, None, [])


def test_text_and_calls_that_a_server_took_apart_are_one_answer() -> None:
    """GitHub Copilot does so with what Claude says."""
    said, called = ({key: value for key, value in choice.items() if key != "index"} for choice in CHOICES[:2])
    exchange = dragoman.Exchange("gemini", "openai-chat")
    choices = [{**said, "finish_reason": "tool_calls"}, called]
    reply = exchange.response({"id": "r", "model": "m", "choices": choices})
    (candidate,) = reply["candidates"]
    text, call = candidate["content"]["parts"]
    assert (text["text"], call["functionCall"]["args"]) == ("one", {"q": "a"})


@EACH_WAY
def test_a_whole_reply_to_a_streamed_request(client: str, upstream: str) -> None:
    stream = exchange_for(client, upstream).stream()
    out = stream.feed(jsontext.encode(WHOLE[upstream])) + stream.close()
    assert read(client, out)[0][0] == "one"
    assert set(read(client, out)) == {0, 1}


@EACH_WAY
def test_one_answer_that_is_cut_is_a_failure_of_the_stream(client: str, upstream: str) -> None:
    cut = [piece for piece in STREAMS[upstream] if not re.search(rb"length|MAX_TOKENS|DONE", piece)]
    stream = exchange_for(client, upstream).stream()
    out = b"".join(map(stream.feed, cut)) + stream.close()
    assert stream.failure
    assert b'"error"' in out.splitlines()[-2]
    assert b"data: [DONE]" not in out


def test_a_failure_of_the_upstream_ends_all_answers() -> None:
    stream = exchange_for("openai-chat", "gemini").stream()
    error = b'data: {"error": {"code": 503, "status": "UNAVAILABLE", "message": "later"}}\n\n'
    out = b"".join(map(stream.feed, [*STREAMS["gemini"][:2], error])) + stream.close()
    assert stream.failure
    assert stream.failure.status == 503
    assert out.count(b'"error"') == 1


def test_a_strict_exchange_takes_several_answers() -> None:
    stream = exchange_for("openai-chat", "gemini", strict=True).stream()
    assert read("openai-chat", b"".join(map(stream.feed, STREAMS["gemini"])) + stream.close())


@pytest.mark.parametrize("client", ["anthropic", "openai-responses"])
def test_others_report_the_answers_that_they_cannot_take(client: str) -> None:
    exchange = dragoman.Exchange(client, "openai-chat")
    exchange.response(WHOLE["openai-chat"])
    assert [loss.where for loss in exchange.losses if loss.code == "response.choices.dropped"] == [
        "choices[1]"
    ]


@pytest.mark.parametrize("upstream", ["anthropic", "openai-responses"])
@pytest.mark.parametrize("client", REQUESTS)
def test_others_report_that_they_give_one_answer(client: str, upstream: str) -> None:
    exchange = dragoman.Exchange(client, upstream)
    exchange.request(REQUESTS[client])
    assert "setting.n.dropped" in {loss.code for loss in exchange.losses}
