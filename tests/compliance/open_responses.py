"""The seventeen tests of the Open Responses suite, against any address.

The names and what they assert are those of openresponses/openresponses (bin/compliance-test.ts). The suite
itself needs bun and its own repository (`make test-compliance`); this one needs neither, so that `make score`
can ask every gateway. The schemas are those that our own tests hold it to.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from websockets.sync.client import ClientConnection, connect

from compliance.schema import COMPACTION, RESPONSE, event_problems, problems

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NOT_FOUND = "previous_response_not_found"
LAST = ("response.completed", "response.failed", "response.incomplete", "error")
SECONDS = 20


@dataclass(frozen=True)
class Suite:
    """Where to ask: `url` without /v1, with a key and further headers, for a model."""

    url: str
    key: str
    model: str
    headers: dict[str, str]

    def run(self) -> dict[str, bool]:
        """Whether each test passes; one that fails in any way fails."""
        return {name: self._passes(test) for name, test in TESTS.items()}

    def _passes(self, test: Callable[[Suite], None]) -> bool:
        try:
            test(self)
        except Exception:  # whatever a gateway does wrong
            return False
        return True

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        sent = {"content-type": "application/json", "authorization": f"Bearer {self.key}", **self.headers}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), sent)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def create(self, **body: Any) -> dict[str, Any]:
        """A whole response that the schema takes."""
        status, data = self.post("/v1/responses", {"model": self.model, **body})
        response = json.loads(data)
        assert status == 200
        assert problems(RESPONSE, response) == []
        return response

    def compacted(self, **body: Any) -> tuple[int, Any]:
        status, data = self.post("/v1/responses/compact", body)
        return status, json.loads(data)

    @contextmanager
    def socket(self) -> Iterator[ClientConnection]:
        address = self.url.replace("http", "ws", 1) + "/v1/responses"
        headers = {"authorization": f"Bearer {self.key}", **self.headers}
        with connect(address, additional_headers=headers, open_timeout=SECONDS) as socket:
            yield socket

    def turn(self, socket: ClientConnection, **body: Any) -> dict[str, Any]:
        """The last event of a response, after all were checked."""
        socket.send(json.dumps({"type": "response.create", "model": self.model, **body}))
        shown: list[Any] = []
        while not shown or shown[-1]["type"] not in LAST:
            shown.append(json.loads(socket.recv(SECONDS)))
        assert [problem for event in shown for problem in event_problems(event)] == []
        return shown[-1]

    def completes(self, socket: ClientConnection, **body: Any) -> str:
        """The id of a response that ends well."""
        last = self.turn(socket, **body)
        assert last["response"]["status"] == "completed"
        return last["response"]["id"]


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


PICTURE = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}]
WHOLE = {
    "basic-response": [message("user", "Say hello in exactly three words.")],
    "assistant-phase": [
        message("user", "Hello"),
        message("assistant", "I will look.", phase="commentary"),
        message("assistant", "Hello.", phase="final_answer"),
        message("user", "And now?"),
    ],
    "system-prompt": [message("system", "Speak like a pirate."), message("user", "Hello.")],
    "image-input": [message("user", PICTURE)],
    "multi-turn": [
        message("user", "I am Alice."),
        message("assistant", "Hello Alice."),
        message("user", "Who am I?"),
    ],
}
HISTORY = [message("user", "We launch on Tuesday."), message("assistant", "Understood.")]


def whole(name: str) -> Callable[[Suite], None]:
    def test(suite: Suite) -> None:
        response = suite.create(input=WHOLE[name])
        assert response["status"] == "completed"
        assert response["output"]

    return test


def tool_calling(suite: Suite) -> None:
    schema = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
    tool = {"type": "function", "name": "get_weather", "description": "Weather", "parameters": schema}
    response = suite.create(input=[message("user", "What is the weather in Bern?")], tools=[tool])
    assert "function_call" in [item["type"] for item in response["output"]]


def streaming(suite: Suite) -> None:
    asked = {"model": suite.model, "input": [message("user", "Count from 1 to 5.")], "stream": True}
    _, data = suite.post("/v1/responses", asked)
    lines = [line[5:].strip() for line in data.decode().splitlines() if line.startswith("data:")]
    shown = [json.loads(line) for line in lines if line != "[DONE]"]
    assert [problem for event in shown for problem in event_problems(event)] == []
    assert shown[-1]["response"]["status"] == "completed"


def compact_response(suite: Suite) -> None:
    status, body = suite.compacted(model=suite.model, prompt_cache_key="test", input=HISTORY)
    assert status == 200
    assert problems(COMPACTION, body) == []
    assert "compaction" in [item["type"] for item in body["output"]]


def compact_missing_model(suite: Suite) -> None:
    assert suite.compacted(input=HISTORY)[0] in (400, 422)


def output_phase_schema(suite: Suite) -> None:
    """The suite checks its own schema here and asks the gateway nothing: everybody passes."""
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [],
    }
    counts = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    body = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "usage": {**counts, **details}}
    assert problems(COMPACTION, {**body, "output": [{**item, "phase": "final_answer"}]}) == []
    assert problems(COMPACTION, {**body, "output": [{**item, "phase": None}]})


def websocket_response(suite: Suite) -> None:
    with suite.socket() as socket:
        suite.completes(socket, input=[message("user", "Hello.")])


def websocket_sequential(suite: Suite) -> None:
    with suite.socket() as socket:
        for text in ("One", "Two"):
            suite.completes(socket, input=text, store=False)


def websocket_continuation(suite: Suite) -> None:
    with suite.socket() as socket:
        first = suite.completes(socket, input="The word is cobalt.", store=False)
        suite.completes(socket, input="Which word?", previous_response_id=first, store=False)


def websocket_reconnect(suite: Suite) -> None:
    with suite.socket() as socket:
        id = suite.completes(socket, input="The word is copper.", store=False)
    with suite.socket() as socket:
        refused = suite.turn(socket, input="x", previous_response_id=id, store=False)
        assert refused["error"]["code"] == NOT_FOUND
        suite.completes(socket, input="Again.", store=False)


def websocket_not_found(suite: Suite) -> None:
    with suite.socket() as socket:
        refused = suite.turn(socket, input="x", previous_response_id="resp_missing", store=False)
        assert refused["error"]["code"] == NOT_FOUND


def websocket_evicts(suite: Suite) -> None:
    result = [{"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "x"}]
    with suite.socket() as socket:
        id = suite.completes(socket, input="The word is ember.", store=False)
        follow: dict[str, Any] = {"previous_response_id": id, "store": False}
        assert suite.turn(socket, input=result, **follow)["type"] in ("error", "response.failed")
        assert suite.turn(socket, input="Which word?", **follow)["error"]["code"] == NOT_FOUND


def websocket_compact(suite: Suite) -> None:
    said = [{"type": "output_text", "text": "Understood."}]
    history = [HISTORY[0], message("assistant", said), message("user", "Tell support.")]
    window = suite.compacted(model=suite.model, input=history)[1]["output"]
    with suite.socket() as socket:
        suite.completes(socket, input=[*window, message("user", "When?")], store=False, tools=[])


TESTS: dict[str, Callable[[Suite], None]] = {
    **{name: whole(name) for name in WHOLE},
    "tool-calling": tool_calling,
    "streaming-response": streaming,
    "compact-response": compact_response,
    "compact-missing-model": compact_missing_model,
    "response-output-phase-schema": output_phase_schema,
    "websocket-response": websocket_response,
    "websocket-sequential-responses": websocket_sequential,
    "websocket-continuation": websocket_continuation,
    "websocket-reconnect-store-false-recovery": websocket_reconnect,
    "websocket-previous-response-not-found": websocket_not_found,
    "websocket-failed-continuation-evicts-cache": websocket_evicts,
    "websocket-compact-new-chain": websocket_compact,
}
