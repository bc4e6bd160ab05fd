"""What a request makes the gateway hold is counted before it is held, on every route: the values of its body,
and what it names in the store. A request of 100 bytes may name 50 MB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from gateway.plain import Got, model_of, send
from gateway.sockets import ask as ask_socket
from gateway.sockets import connected
from gateway.stands import CLIENT_KEY, PROTOCOLS, Stand, configuration, gateway
from spoken import SPOKEN, addressed
from waiting import wait_until

MB = 1024 * 1024
FULL = (503, 529)
FILES = {"anthropic-version": "2023-06-01", "anthropic-beta": "files-api-2025-04-14"}
SEARCH = '[hosted.web_search]\nbackend = "searxng"\nurl = "http://127.0.0.1:9"\n'


@pytest.fixture(scope="module")
def small(behind: tuple[Any, str]) -> Iterator[Stand]:
    """A gateway that may hold 32 MB."""
    text = configuration(behind[1], f'"{CLIENT_KEY}"').replace("[server]\n", "[server]\nmemory_mb = 32\n")
    with gateway(f"{text}\n{SEARCH}") as stand:
        yield stand


def values(count: int) -> bytes:
    return b"[" + b"[]," * count + b"1]"


def bodies() -> dict[str, tuple[str, bytes]]:
    """The path of each route that reads JSON, and a body with `%` for very many values."""
    found = {
        name: addressed(name, {spoken.field: "%", **spoken.fixed}, model_of("hermes"))
        for name, spoken in SPOKEN.items()
    }
    chat, claude = model_of("openai-chat"), model_of("anthropic")
    found |= {
        "compact": ("/v1/responses/compact", {"model": chat, "input": "%"}),
        "count, estimated": ("/v1/messages/count_tokens", {"model": chat, "messages": "%"}),
        "count, Gemini": (f"/v1beta/models/{claude}:countTokens", {"contents": "%"}),
        "search": ("/v1/alpha/search", {"model": "m", "commands": "%"}),
        "conversation": ("/v1/conversations", {"items": "%"}),
        "embeddings": ("/v1/embeddings", {"model": chat, "input": "%"}),
        "batch": ("/v1/batches", {"input_file_id": "%"}),
        "batch, Messages": ("/v1/messages/batches", {"requests": "%"}),
        "background": ("/v1/responses", {"model": claude, "background": True, "input": "%"}),
    }
    return {name: (path, jsontext.encode(body)) for name, (path, body) in found.items()}


BODIES = bodies()


@pytest.mark.parametrize("name", BODIES)
def test_values_are_counted_before_they_are_decoded(name: str, small: Stand) -> None:
    """3 MB of empty lists take 80 MB."""
    path, body = BODIES[name]
    got = send(small.url, "POST", path, body.replace(b'"%"', values(900_000)))
    assert got.status in FULL, got.body[:300]
    assert b"memory" in got.body
    wait_until(lambda: small.gateway.memory.used == 0)


@pytest.mark.parametrize("name", sorted(BODIES.keys() - {"batch", "batch, Messages"}))
def test_more_values_than_any_request_has_are_refused(name: str, small: Stand) -> None:
    path, body = BODIES[name]
    assert send(small.url, "POST", path, body.replace(b'"%"', values(1_100_000))).status == 413


def test_a_message_of_very_many_values(small: Stand) -> None:
    with connected(small) as socket:
        body = b'{"type": "response.create", "model": "hermes:m", "input": %b}'
        for count, status in ((1_100_000, 413), (900_000, 503)):
            socket.send((body % values(count)).decode())
            assert jsontext.decode(socket.recv())["status"] == status
        assert ask_socket(socket, model=model_of("hermes"), input="hello")["status"] == "completed"
    wait_until(lambda: small.gateway.memory.used == 0)


def test_a_line_of_a_batch_with_very_many_values(small: Stand) -> None:
    body = b'{"model": "m", "messages": %b}' % values(1_100_000)
    line = b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": %b}' % body
    file = uploaded(small, line, "batch")
    asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    small.gateway.memory.limit, before = 64 * MB, small.gateway.memory.limit
    try:
        got = post(small, "/v1/batches", asked)
    finally:
        small.gateway.memory.limit = before
    batch = send(small.url, "GET", f"/v1/batches/{got.json['id']}").json
    assert "JSON values" in batch["errors"]["data"][0]["message"]


def uploaded(stand: Stand, content: bytes, purpose: str, kind: str = "text/plain", **headers: str) -> str:
    parts = {b'name="purpose"': purpose.encode(), b'name="file"; filename="a"': content}
    form = b"".join(
        b"--BB\r\ncontent-disposition: form-data; %b\r\ncontent-type: %b\r\n\r\n%b\r\n"
        % (head, kind.encode(), data)
        for head, data in parts.items()
    )
    sent = {"content-type": "multipart/form-data; boundary=BB", **headers}
    got = send(stand.url, "POST", "/v1/files", form + b"--BB--\r\n", sent)
    assert got.status == 200, got.body
    return got.json["id"]


def post(stand: Stand, path: str, body: Any, **headers: str) -> Got:
    return send(stand.url, "POST", path, jsontext.encode(body), headers)


STORED = 3 * MB  # which takes 12 MB as a part of a request


@pytest.fixture(scope="module")
def names(small: Stand) -> dict[str, str]:
    """What stands in the store: a turn, a conversation, two files."""
    text = "x" * STORED
    item = {"type": "message", "id": "msg_large", "role": "user", "content": text}
    turn = post(small, "/v1/responses", {"model": model_of("openai-chat"), "input": [item]})
    talk = post(small, "/v1/conversations", {"items": [{"type": "message", "role": "user", "content": text}]})
    line = {"model": "m", "messages": [{"role": "user", "content": text}]}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": line}
    return {
        "turn": turn.json["id"],
        "talk": talk.json["id"],
        "item": "msg_large",
        "lines": uploaded(small, jsontext.encode(line), "batch"),
        "document": uploaded(small, text.encode(), "user_data", **FILES),
    }


READS: dict[str, tuple[str, str, Any]] = {
    "a turn that is continued": ("POST", "/v1/responses", {"input": "go", "previous_response_id": "%turn"}),
    "a conversation": ("POST", "/v1/responses", {"input": "go", "conversation": "%talk"}),
    "an item": ("POST", "/v1/responses", {"input": [{"type": "item_reference", "id": "%item"}]}),
    "a stored response": ("GET", "/v1/responses/%turn", None),
    "its items": ("GET", "/v1/responses/%turn/input_items", None),
    "items of a conversation": ("GET", "/v1/conversations/%talk/items", None),
    "the lines of a batch": (
        *("POST", "/v1/batches"),
        {"input_file_id": "%lines", "endpoint": "/v1/chat/completions", "completion_window": "24h"},
    ),
    "a file": ("GET", "/v1/files/%lines/content", None),
    "a document of a request": (
        *("POST", "/v1/messages"),
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "document", "source": {"type": "file", "file_id": "%document"}}],
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_a_request_names_is_counted(name: str, small: Stand, names: dict[str, str]) -> None:
    method, path, body = READS[name]
    if body and "completion_window" not in body:
        body = {"model": model_of("openai-chat"), **body}
    sent = jsontext.encode(body) if body else b""
    for kind, id in names.items():
        path, sent = path.replace(f"%{kind}", id), sent.replace(b"%" + kind.encode(), id.encode())
    headers = FILES if "document" in name else {}
    memory = small.gateway.memory
    memory.limit, before = 2 * MB, memory.limit
    try:
        got = send(small.url, method, path, sent, headers)
    finally:
        memory.limit = before
    assert got.status in FULL, got.body[:300]
    assert b"memory" in got.body
    wait_until(lambda: memory.used == 0)
    assert send(small.url, method, path, sent, headers).status == 200, "where there is room"


def test_every_protocol_is_here() -> None:
    assert set(PROTOCOLS) <= BODIES.keys()
