"""Clients of Claude on Bedrock and Vertex, such as Claude Code in these modes, over any upstream."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from dragoman.core import jsontext
from dragoman.framing.aws_events import ChunkDecoder
from gateway.canned import Answer, Canned, provider
from gateway.plain import model_of, send
from gateway.running import running
from gateway.stands import CLIENT_KEY, UPSTREAMS, Stand, gateway

BODY = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "hi"}],
}
VERTEX = "/v1/projects/p/locations/europe-west1/publishers/anthropic/models"
each_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


def invoke(stand: Stand, model: str, method: str, body: Any = BODY) -> Any:
    return send(stand.url, "POST", f"/model/{model.replace(':', '%3A')}/{method}", jsontext.encode(body))


def events_of(data: bytes) -> list[Any]:
    return [jsontext.decode(frame.data) for frame in ChunkDecoder().feed(data)]


def text_of(events: list[Any]) -> str:
    return "".join(event["delta"].get("text", "") for event in events if "delta" in event)


@each_upstream
def test_bedrock(stand: Stand, upstream: str) -> None:
    got = invoke(stand, model_of(upstream), "invoke")
    assert (got.status, got.text("anthropic")) == (200, "You said: hi")
    got = invoke(stand, model_of(upstream), "invoke-with-response-stream")
    assert got.headers["content-type"] == "application/vnd.amazon.eventstream"
    events = events_of(got.body)
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    assert text_of(events) == "You said: hi"


@each_upstream
def test_vertex(stand: Stand, upstream: str) -> None:
    client = anthropic.AnthropicVertex(  # pyright: ignore[reportPrivateImportUsage] - documented, not in __all__
        region="europe-west1",
        project_id="p",
        access_token=CLIENT_KEY,
        base_url=f"{stand.url}/v1",
        max_retries=0,
    )
    request: Any = {
        "model": model_of(upstream),
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "hi"}],
    }
    block = client.messages.create(**request).content[-1]
    assert block.type == "text"
    assert block.text == "You said: hi"
    with client.messages.stream(**request) as stream:
        assert stream.get_final_text() == "You said: hi"
    del request["max_tokens"]
    assert client.messages.count_tokens(**request).input_tokens > 0


def test_the_sdk_of_bedrock(stand: Stand) -> None:
    pytest.importorskip("botocore")
    client = anthropic.AnthropicBedrock(  # pyright: ignore[reportPrivateImportUsage] - documented, not in __all__
        api_key=CLIENT_KEY, aws_region="us-east-1", base_url=stand.url, max_retries=0
    )
    request: Any = {
        "model": model_of("openai-chat"),
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "hi"}],
    }
    block = client.messages.create(**request).content[-1]
    assert block.type == "text"
    assert block.text == "You said: hi"
    events = list(client.messages.create(**request, stream=True))
    assert events[-1].type == "message_stop"
    request["messages"][0]["content"] = "hi [[fault: fail]]"
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**request, stream=True))


def test_failures(stand: Stand) -> None:
    model = model_of("openai-chat")
    got = invoke(
        stand, model, "invoke", {**BODY, "messages": [{"role": "user", "content": "[[fault: 429]]"}]}
    )
    assert (got.status, got.json["error"]["type"]) == (429, "rate_limit_error")
    cut = {**BODY, "messages": [{"role": "user", "content": "say it [[fault: cut]]"}]}
    events = events_of(invoke(stand, model, "invoke-with-response-stream", cut).body)
    assert events[-1]["type"] == "error"
    got = invoke(stand, model, "invoke", {**BODY, "thread": {"type": "create"}})
    assert (got.status, got.json["error"]["message"][:17]) == (400, "anthropic: thread")
    got = send(stand.url, "GET", f"/model/{model}/invoke")
    assert (got.status, got.headers["allow"]) == (405, "POST")


REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def test_what_an_upstream_of_the_same_protocol_gets() -> None:
    """Plain Messages: the model in the body, betas in the header, nothing that only the clouds know."""
    upstream = Canned(Answer(200, jsontext.encode(REPLY)))
    with running(upstream) as url, gateway(provider("one", url, "anthropic")) as stand:
        body = {**BODY, "anthropic_beta": ["a-1", "b-2"]}
        assert invoke(stand, "one:m", "invoke", body).status == 200
        assert (
            send(stand.url, "POST", f"{VERTEX}/one:m:streamRawPredict", jsontext.encode(BODY)).status == 200
        )
    first, second = upstream.requests
    assert first.json == {**body_without(BODY), "model": "m", "stream": False}
    assert (first.path, first.headers["anthropic-beta"]) == ("/v1/messages", "a-1,b-2")
    assert second.json == {**body_without(BODY), "model": "m", "stream": True}


def body_without(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if not key.startswith("anthropic_")}


def test_an_event_stream_of_the_same_protocol() -> None:
    events = [
        {"type": "message_start", "message": {**REPLY, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    printed = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), jsontext.encode(event)) for event in events
    )
    upstream = Canned(Answer(200, printed, content_type="text/event-stream"))
    with running(upstream) as url, gateway(provider("one", url, "anthropic")) as stand:
        got = events_of(invoke(stand, "one:m", "invoke-with-response-stream").body)
    assert [event["type"] for event in got] == [event["type"] for event in events]
    assert text_of(got) == "hi"
