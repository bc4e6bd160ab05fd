"""The scripted model as a server of its own: what it forgets when a connection ends."""

from __future__ import annotations

import socket

import pytest

from dragoman.core import jsontext
from dragoman.demo import DemoApp, Fault
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from gateway.running import running
from waiting import wait_until


def posted(text: str) -> bytes:
    body = jsontext.encode({"model": "m", "messages": [{"role": "user", "content": text}]})
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def test_a_cut_behind_a_complete_answer_leaves_nothing_under_way() -> None:
    """The client has all it was promised and asks again on the connection that is just being closed."""
    app = DemoApp()
    with running(app) as url, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.sendall(posted("hello [[fault: cut 2]]") + posted("and again"))
        wait_until(lambda: not client.recv(65536))
        wait_until(lambda: app.under_way == 0)


def test_marks_are_not_remembered_for_ever() -> None:
    memory = Memory()
    marks = [Fault("429", times=1, mark=f"run {number}") for number in range(10_001)]
    assert all(memory.still_fails(mark) for mark in marks)
    assert not memory.still_fails(marks[-1])
    assert memory.still_fails(marks[0])  # forgotten, so it fails anew


def test_no_two_replies_share_an_id() -> None:
    """Ids of items are made of it, and a store finds items by them."""
    memory, body = Memory(), b'{"model":"demo","input":"hi"}'
    replies = [answer("POST", "/v1/responses", {}, {}, body, memory) for _ in range(3)]
    ids = [item["id"] for reply in replies for item in jsontext.decode(b"".join(reply.pieces))["output"]]
    assert len(set(ids)) == len(ids) >= 3


INVALID: dict[str, tuple[str, bytes]] = {
    "Chat without messages": ("/v1/chat/completions", b'{"model":"demo"}'),
    "Chat with none": ("/v1/chat/completions", b'{"model":"demo","messages":[]}'),
    "Responses without input": ("/v1/responses", b'{"model":"demo"}'),
    "Gemini with no contents": ("/v1beta/models/demo:generateContent", b'{"contents":[]}'),
}


@pytest.mark.parametrize("path, body", INVALID.values(), ids=INVALID)
def test_b15_an_invalid_request_is_refused(path: str, body: bytes) -> None:
    assert answer("POST", path, {}, {}, body, Memory()).status == 400
