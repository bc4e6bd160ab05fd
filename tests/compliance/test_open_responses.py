"""The assertions of the Open Responses compliance suite, over an upstream of each protocol.

The names are those of the suite's seventeen tests (openresponses/openresponses, bin/compliance-test.ts).
`make test-compliance` runs the suite itself as well, where it is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compliance.schema import COMPACTION, RESPONSE, event_problems, problems
from dragoman.core import jsontext
from dragoman.demo import DemoApp
from dragoman.framing import sse
from gateway.plain import send
from gateway.sockets import ask, connected, create, events
from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand, configuration, demo, gateway

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MISSING = "previous_response_not_found"


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    running: tuple[DemoApp, str]
    with demo() as running, gateway(configuration(running[1], f'"{CLIENT_KEY}"')) as stand:
        yield stand


@pytest.fixture(params=UPSTREAMS)
def model(request: pytest.FixtureRequest) -> str:
    return f"{request.param}:{MODELS[request.param]}"


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


WHOLE: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [message("user", "Say hello in exactly three words.")]},
    "assistant-phase": {
        "input": [
            message("user", "Hello"),
            {**message("assistant", "I will look."), "phase": "commentary"},
            {**message("assistant", "Hello."), "phase": "final_answer"},
            message("user", "And now?"),
        ]
    },
    "system-prompt": {"input": [message("system", "Speak like a pirate."), message("user", "Hello.")]},
    "image-input": {
        "input": [
            message(
                "user",
                [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}],
            )
        ]
    },
    "multi-turn": {
        "input": [
            message("user", "I am Alice."),
            message("assistant", "Hello Alice."),
            message("user", "Who am I?"),
        ]
    },
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole(stand: Stand, model: str, name: str):
    got = send(stand.url, "POST", "/v1/responses", jsontext.encode({"model": model, **WHOLE[name]}))
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    assert problems(RESPONSE, got.json) == []
    assert (got.json["status"], bool(got.json["output"])) == ("completed", True)


def test_tool_calling(stand: Stand, model: str):
    schema = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
    tool = {"type": "function", "name": "get_weather", "description": "Weather", "parameters": schema}
    body = {"model": model, "input": [message("user", "What is the weather in Bern?")], "tools": [tool]}
    got = send(stand.url, "POST", "/v1/responses", jsontext.encode(body)).json
    assert problems(RESPONSE, got) == []
    assert "function_call" in [item["type"] for item in got["output"]]


def test_streaming_response(stand: Stand, model: str):
    body = {"model": model, "input": [message("user", "Count from 1 to 5.")], "stream": True}
    got = send(stand.url, "POST", "/v1/responses", jsontext.encode(body))
    decoder = sse.Decoder()
    shown = [jsontext.decode(frame.data) for frame in (*decoder.feed(got.body), *decoder.close())]
    assert [problem for event in shown for problem in event_problems(event)] == []
    assert shown[-1]["response"]["status"] == "completed"
    assert b"\r" not in got.body


def test_compaction(stand: Stand, model: str):
    """compact-response and compact-missing-model."""
    history = [message("user", "We launch on Tuesday."), message("assistant", "Understood.")]
    body = {"model": model, "prompt_cache_key": "test", "input": history}
    got = send(stand.url, "POST", "/v1/responses/compact", jsontext.encode(body))
    assert (got.status, problems(COMPACTION, got.json)) == (200, [])
    assert "compaction" in [item["type"] for item in got.json["output"]]
    refused = send(stand.url, "POST", "/v1/responses/compact", jsontext.encode({"input": history}))
    assert refused.status in (400, 422)


def turn(socket: Any, **body: Any) -> Any:
    """The last event, after all were checked."""
    create(socket, **body)
    shown = events(socket)
    assert [problem for event in shown for problem in event_problems(event)] == []
    return shown[-1]


def test_websocket_responses(stand: Stand, model: str):
    """websocket-response and websocket-sequential-responses."""
    with connected(stand) as socket:
        assert (
            turn(socket, model=model, input=[message("user", "Hello.")])["response"]["status"] == "completed"
        )
        for text in ("One", "Two"):
            assert turn(socket, model=model, input=text, store=False)["response"]["status"] == "completed"


def test_websocket_continuation(stand: Stand, model: str):
    with connected(stand) as socket:
        first = turn(socket, model=model, input="The word is cobalt.", store=False)["response"]
        follow = {"model": model, "previous_response_id": first["id"], "store": False}
        assert turn(socket, input="Which word?", **follow)["response"]["status"] == "completed"


def test_websocket_store_false_is_not_found_elsewhere(stand: Stand, model: str):
    """websocket-reconnect-store-false-recovery and websocket-previous-response-not-found."""
    with connected(stand) as socket:
        id = ask(socket, model=model, input="The word is copper.", store=False)["id"]
    with connected(stand) as socket:
        for unknown in (id, "resp_missing"):
            refused = turn(socket, model=model, input="x", previous_response_id=unknown, store=False)
            assert (refused["type"], refused["error"]["code"]) == ("error", MISSING)
        assert turn(socket, model=model, input="Again.", store=False)["response"]["status"] == "completed"


def test_websocket_failed_continuation_evicts_cache(stand: Stand, model: str):
    result = [{"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "x"}]
    with connected(stand) as socket:
        id = ask(socket, model=model, input="The word is ember.", store=False)["id"]
        follow = {"model": model, "previous_response_id": id, "store": False}
        assert turn(socket, input=result, **follow)["type"] in ("error", "response.failed")
        assert turn(socket, input="Which word?", **follow)["error"]["code"] == MISSING


def test_websocket_compact_new_chain(stand: Stand, model: str):
    content = [{"type": "output_text", "text": "Understood."}]
    history = [
        message("user", "We launch on Tuesday."),
        message("assistant", content),
        message("user", "Tell support."),
    ]
    body = jsontext.encode({"model": model, "input": history})
    window = send(stand.url, "POST", "/v1/responses/compact", body).json["output"]
    with connected(stand) as socket:
        request = {"model": model, "input": [*window, message("user", "When?")], "store": False, "tools": []}
        assert turn(socket, **request)["response"]["status"] == "completed"


def test_response_output_phase_schema():
    """The schema itself: it takes a message with a phase and refuses an unknown one."""
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": []}
    base = {"id": "resp_1", "object": "response.compaction", "created_at": 1}
    count = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {**count, **details}
    assert problems(COMPACTION, {**base, "usage": usage, "output": [{**item, "phase": "final_answer"}]}) == []
    assert problems(COMPACTION, {**base, "usage": usage, "output": [{**item, "phase": None}]})
