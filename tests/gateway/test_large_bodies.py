"""Bodies that are large, or have very many values: they are translated, and others are answered meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Body
from dragoman.exchange import Exchange
from dragoman.gateway import large_bodies
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.large_bodies import LARGE, MOST_VALUES, TooManyValues, run_for
from dragoman.gateway.request import GatewayRequest, RoutedRequest
from dragoman.protocols import codec
from gateway.plain import model_of, send
from gateway.stands import PROTOCOLS, Stand
from spoken import SPOKEN, addressed

TEXT = "x" * LARGE
SAME = {
    "one string": jsontext.encode({"model": "m", "text": TEXT}),
    "many messages": jsontext.encode({"model": "m", "messages": [{"role": "user", "content": "é"}] * 20_000}),
    "numbers as they are spelled": b'{"a": [' + b"1.10, 1e3, 12345678901234567890, " * 20_000 + b"0]}",
    "a large entry in an array": jsontext.encode({"a": [{"b": [TEXT, [TEXT]]}, 1, None]}),
    "the last of two": b'{"a": 1, "a": 2, "b": "' + TEXT.encode() + b'"}',
    "spaces before it": b" " * 100 + jsontext.encode({"a": TEXT}),
    "a lone surrogate": b'{"a": "\\ud800", "b": "' + TEXT.encode() + b'"}',
}
BROKEN = {
    "cut": SAME["many messages"][:-1],
    "an array": b"[" + SAME["one string"] + b", 1]",
    "not UTF-8": b'{"a": "\xff' + TEXT.encode() + b'"}',
    "too deep": b'{"a":' * LARGE,
    "a word": b'{"a": nul, "b": "' + TEXT.encode() + b'"}',
}


def read(data: bytes) -> Body:
    return asyncio.run(large_bodies.read(data, codec("openai-chat"), None, None))


@pytest.mark.parametrize("name", SAME)
def test_a_large_body_says_what_it_says_when_it_is_read_at_once(name: str) -> None:
    assert jsontext.encode(read(SAME[name]).wire) == jsontext.encode(Body(SAME[name], "openai-chat").wire)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_body_is_the_same_error(name: str) -> None:
    with pytest.raises(WireError) as expected:
        Body(BROKEN[name], "openai-chat")
    with pytest.raises(WireError) as caught:
        read(BROKEN[name])
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("value", [b"1.10", b"[]", b"{}"])
def test_more_values_than_any_request_has_are_refused_before_one_is_read(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "jsontext", None)
    with pytest.raises(TooManyValues, match="1000000 JSON values"):
        read(b'{"model": "m", "x": [' + (value + b",") * (MOST_VALUES + 1) + b"1]}")


def test_the_loop_goes_on_while_a_large_body_is_read() -> None:
    data = jsontext.encode({"messages": [{"role": "user", "content": "hello"}] * 100_000})

    async def work() -> int:
        turns, reading = 0, asyncio.create_task(large_bodies.read(data, codec("openai-chat"), None, None))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(work()) > 3, "the loop stood still"


def test_small_work_is_done_at_once_and_large_work_in_a_thread() -> None:
    async def work() -> tuple[str, str]:
        name = lambda: threading.current_thread().name  # noqa: E731
        return await run_for(LARGE, name), await run_for(LARGE + 1, name)

    small, large = asyncio.run(work())
    assert small == threading.current_thread().name
    assert large.startswith("large-body")


def test_new_objects_are_not_collected_at_once_after_large_work() -> None:
    """The youngest generation would hold all of them, and its next collection would stop the loop."""

    async def work() -> tuple[int, int]:
        made = await run_for(LARGE + 1, lambda: [[number] for number in range(50_000)])
        return len(made), sum(isinstance(each, list) for each in gc.get_objects(generation=0))

    assert gc.isenabled()
    made, young = asyncio.run(work())
    assert gc.isenabled()
    assert young < made


def test_messages_are_freed_once_their_request_was_encoded() -> None:
    messages = [
        {"role": "user" if number % 2 else "assistant", "content": TEXT[:20]} for number in range(20_000)
    ]
    body = Body(jsontext.encode({"model": "m", "messages": messages}), "openai-chat")
    exchange = Exchange("openai-chat", "anthropic")
    plain = Exchange("openai-chat", "anthropic").request_bytes(body, "m", False)
    assert large_bodies.translate(exchange, body, "m", False) == plain
    assert exchange.take_messages() == [[], []]
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}],
    }  # fmt: skip
    assert exchange.response(reply)["choices"][0]["message"]["content"] == "hi"
    assert exchange.usage is None


COUNT_PATHS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai-responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/{model}:countTokens",
}


@pytest.mark.parametrize("upstream", ["openai-chat", "anthropic", "gemini", "hermes"])
@pytest.mark.parametrize(
    ("client", "counted"), [*((name, False) for name in PROTOCOLS), *((name, True) for name in COUNT_PATHS)]
)
def test_the_loop_reads_no_large_text(
    client: str, counted: bool, upstream: str, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither forwarded, translated, estimated nor counted by the upstream."""
    loops, readers = set[int](), set[int]()
    read = RequestReader.read

    async def noted(self: RequestReader, request: GatewayRequest) -> RoutedRequest:
        loops.add(threading.get_ident())
        return await read(self, request)

    def watched(name: str) -> Any:
        function = getattr(jsontext, name)

        def call(text: bytes | str) -> Any:
            if len(text) > LARGE:
                readers.add(threading.get_ident())
            return function(text)

        return call

    spoken, model = SPOKEN[client], model_of(upstream)
    body = {spoken.field: [spoken.says("hello")] * 9000, **spoken.fixed}
    path, body = addressed(client, body, model)
    if counted:
        path = COUNT_PATHS[client].format(model=model)
    monkeypatch.setattr(RequestReader, "read", noted)
    for name in ("decode", "split_object", "split_array"):
        monkeypatch.setattr(jsontext, name, watched(name))
    sent = jsontext.encode(body)
    assert len(sent) > LARGE
    assert send(stand.url, "POST", path, sent).status == 200
    assert loops
    assert not loops & readers
