"""Every fault, in the process and on a real socket: both carriers misbehave alike."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from demo.wires import WEATHER, asking
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text
from dragoman.demo import DemoApp, DemoTransport, fault_of
from dragoman.demo.faults import Fault, FaultName, Memory
from dragoman.http.client import Client, Reply, TimedOut, Timeouts, TransportError
from dragoman.protocols import codec
from gateway.running import running
from waiting import wait_until

SOON = Timeouts(30, 0.6, 0.6)
PATIENT = Timeouts(30, 30, 30)
WHOLE = "I will use get_weather."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(DemoApp()) as address:
        yield address


@pytest.fixture(params=["in the process", "on a socket"])
def ask(request: pytest.FixtureRequest, url: str) -> Any:
    """Asks for the weather with a fault; gives status, content type and body, or raises."""

    async def fetch(fault: str, stream: bool, transport: Any = None) -> tuple[int, str, bytes]:
        embedded = request.param == "in the process"
        transport = transport or (DemoTransport() if embedded else Client(environ={}))
        body = codec("openai-chat").encode_request(asking(f"weather in Oslo {fault}", WEATHER), Losses())
        target = "/v1/chat/completions" if embedded else f"{url}/v1/chat/completions"
        timeouts = SOON if fault in ("[[fault: hang]]", "[[fault: stall]]") else PATIENT
        reply: Reply = await transport.send(
            "POST", target, {}, jsontext.encode({**body, "stream": stream}), timeouts
        )
        try:
            return reply.status, reply.headers["content-type"], await reply.read(1 << 20)
        finally:
            reply.close()
            if not embedded:
                await transport.close()

    return lambda fault, stream=True: asyncio.run(fetch(fault, stream))


STATUSES = ["400", "401", "404", "429", "500", "529"]
GOOD = {"late": WHOLE, "pause": WHOLE, "slow": WHOLE, "leak": "<tool_call>"}


@pytest.mark.parametrize("status", STATUSES)
def test_a_status(ask: Any, status: str) -> None:
    got, kind, body = ask(f"[[fault: {status}]]")
    assert (got, kind) == (int(status), "application/json")
    assert jsontext.decode(body)["error"]["message"].startswith("demo: ")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", ["hang", "drop", "cut", "stall"])
def test_an_answer_that_does_not_come_or_does_not_end(ask: Any, name: str, stream: bool) -> None:
    with pytest.raises(TransportError) as caught:
        ask(f"[[fault: {name}]]", stream)
    assert isinstance(caught.value, TimedOut) == (name in ("hang", "stall"))


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_that_is_only_odd(ask: Any, name: str) -> None:
    status, kind, body = ask(f"[[fault: {name}]]")
    words = b"".join(body.split(b'"content":"')[1:])
    assert (status, kind, body.endswith(b"data: [DONE]\n\n")) == (200, "text/event-stream", True)
    assert GOOD[name].split()[0].encode() in words


def test_the_others(ask: Any) -> None:
    assert ask("[[fault: empty]]") == (200, "text/event-stream", b"")
    assert ask("[[fault: empty]]", False)[2] == b""
    assert b"data: {broken\n\n" in ask("[[fault: malformed]]")[2]
    assert ask("[[fault: garbage]]")[1] == "text/html"
    failed = ask("[[fault: fail]]")[2]
    assert b'"error"' in failed
    assert b"[DONE]" not in failed
    assert ask("[[fault: fail]]", False)[0] == 529


@pytest.mark.parametrize("at", [0, 1, 5, 11, 12, 99])
def test_a_stream_is_cut_where_it_was_asked_for(ask: Any, at: int) -> None:
    with pytest.raises(TransportError, match="before its answer ended"):
        ask(f"[[fault: cut {at}]]")


def test_every_fault_is_known() -> None:
    tested = {*STATUSES, *GOOD, "hang", "drop", "cut", "stall", "empty", "malformed", "garbage", "fail"}
    assert tested == set(get_args(FaultName))


def request_with(text: str) -> Request:
    return Request("m", (Message("user", (Text("before"),)), Message("user", (Text(text),))))


MARKS = {
    "[[fault: cut]]": Fault("cut", mark="[[fault: cut]]"),
    "x [[fault:cut 0]] y": Fault("cut", 0, mark="[[fault:cut 0]]"),
    "[[fault: 429 x2]]": Fault("429", -1, 2, "[[fault: 429 x2]]"),
    "[[fault: cut 3 x1 run 7]]": Fault("cut", 3, 1, "[[fault: cut 3 x1 run 7]]"),
    "[[fault: 429 run 7]]": Fault("429", mark="[[fault: 429 run 7]]"),
    "[[fault: nonsense]]": None,
    "no fault": None,
}


@pytest.mark.parametrize("text", MARKS)
def test_a_mark(text: str) -> None:
    assert fault_of(request_with(text)) == MARKS[text]


def test_only_the_last_user_text_counts() -> None:
    request = request_with("[[fault: 500]]")
    later = Request(
        "m", (*request.messages, Message("assistant", (Text("no"),)), Message("user", (Text("hi"),)))
    )
    assert fault_of(later) is None


def test_a_fault_may_pass() -> None:
    memory, twice, other = Memory(), Fault("429", -1, 2, "a"), Fault("429", -1, 2, "b")
    assert [memory.still_fails(twice) for _ in range(3)] == [True, True, False]
    assert memory.still_fails(other)
    assert all(memory.still_fails(Fault("429", mark="c")) for _ in range(5))


def test_a_key_is_demanded_where_one_is_set() -> None:
    with running(DemoApp(key="k-1")) as url:
        client = Client(environ={})
        body = jsontext.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

        async def status(headers: dict[str, str]) -> int:
            reply = await client.send("POST", f"{url}/v1/chat/completions", headers, body, PATIENT)
            await reply.read(10_000)
            await client.close()
            return reply.status

        for headers in ({"authorization": "Bearer k-1"}, {"x-api-key": "k-1"}, {"x-goog-api-key": "k-1"}):
            assert asyncio.run(status(headers)) == 200
        assert asyncio.run(status({})) == asyncio.run(status({"x-api-key": "k-2"})) == 401


def test_an_answer_ends_when_its_reader_leaves() -> None:
    app = DemoApp()
    with running(app) as url:
        host, port = url.removeprefix("http://").split(":")
        body = jsontext.encode({"model": "m", "messages": [{"role": "user", "content": "[[fault: hang]]"}]})
        with socket.create_connection((host, int(port))) as reader:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            reader.sendall(head.encode() + body)
            wait_until(lambda: app.under_way == 1)
        wait_until(lambda: app.under_way == 0)
