"""Replies of the usual shape: the typed decoder and `decode_response` give the client the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Message,
    Reasoning,
    Refusal,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.exchange import Exchange
from dragoman.protocols import protocol
from laws.strategies import responses

UPSTREAMS = CLIENTS = ("openai-chat", "anthropic", "gemini", "openai-responses")
PAIRS = [(client, upstream) for client in CLIENTS for upstream in UPSTREAMS if client != upstream]
TOOL = ToolDeclaration("f", "", {"type": "object", "properties": {"n": {"type": "integer"}}})
REQUEST = Request("m", (Message("user", (Text("hi"),)),), tools=(TOOL,))


def outcome(client: str, upstream: str, body: bytes, typed: bool) -> tuple[object, ...]:
    exchange = Exchange(client, upstream, reply_created=1)
    exchange.request(protocol(client).codec.encode_request(REQUEST, Losses()))
    if not typed:
        exchange.upstream = replace(exchange.upstream, read_usual_reply=lambda body: None)
    try:
        out: object = exchange.response_bytes(body)
    except DragomanError as error:
        out = str(error)
    return out, exchange.losses, exchange.usage, exchange.calls, exchange.failure, exchange.status


def wire(upstream: str, response: Response) -> dict[str, Any]:
    return protocol(upstream).codec.encode_response(response, Losses())


USUAL = Response(
    "r1",
    "m",
    (Text("Hello"), ToolCall("c1", "f", '{"n": "1.50"}'), ToolCall("c2", "f", '{"n":1.0}')),
    Stop("tool_calls"),
    Usage(10, 5, 2),
)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_our_own_replies_have_the_usual_shape(upstream: str) -> None:
    assert protocol(upstream).codec.read_usual_reply(json.dumps(wire(upstream, USUAL)).encode())


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_usual_reply_is_the_same(client: str, upstream: str) -> None:
    body = json.dumps(wire(upstream, USUAL)).encode()
    assert outcome(client, upstream, body, True) == outcome(client, upstream, body, False)


VALUES = [
    None,
    "",
    "x",
    0,
    1,
    -1,
    1_753_879_075_170,
    1.0,
    1.5,
    1e400,
    True,
    [],
    ["x"],
    {},
    {"a": 1},
    "length",
    "MAX_TOKENS",
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every object or array inside with one of its keys."""
    inside: list[tuple[Any, Any]] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        inside.append((value, key))
        if isinstance(item, dict | list):
            inside += places(item)
    return inside


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """A reply that we would send, with a few fields changed, left out or added."""
    client, upstream = draw(st.sampled_from(PAIRS))
    body = wire(upstream, draw(st.one_of(st.just(USUAL), responses())))
    for _ in range(draw(st.integers(0, 2))):
        body = json.loads(json.dumps(body))  # it shares nothing
        if not body:
            break
        holder, key = draw(st.sampled_from(places(body)))
        match draw(st.integers(0, 2)):
            case 0:
                holder[key] = draw(st.sampled_from(VALUES))
            case 1:
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(["error", "x", "logprobs", "thought", "index"]))] = draw(
                    st.sampled_from(VALUES)
                )
            case _:
                holder.append(holder[key])
    return client, upstream, json.dumps(body).encode()


@given(replies())
def test_any_reply_is_the_same(case: tuple[str, str, bytes]) -> None:
    client, upstream, body = case
    assert outcome(client, upstream, body, True) == outcome(client, upstream, body, False)


PARTS = st.one_of(
    st.builds(Text, st.sampled_from(["", "x", " é\n"])),
    st.builds(Reasoning, st.sampled_from(["", "hm"]), st.booleans()),
    st.builds(
        ToolCall,
        st.sampled_from(["", "c1"]),
        st.just("f"),
        st.sampled_from(["", " ", "{}", '{"n": 1.50}', "[1]", '{"n"', '"x"']),
        complete=st.booleans(),
    ),
    st.just(Refusal("no")),
)
REPLIES = st.builds(
    Response,
    st.sampled_from(["", "r1"]),
    st.sampled_from(["", "m"]),
    st.lists(PARTS, max_size=4).map(tuple),
    st.builds(Stop, st.sampled_from(["end", "tool_calls", "length", "context_full", "stop_sequence"])),
    st.sampled_from([None, USUAL.usage, Usage(3, 5, 2, 2, 5)]),
    st.sampled_from([0, 1]),
)
FUNCTIONS = replace(TOOL, extras={"openai-chat": {"functions": True}})
ASKED = [
    None,
    REQUEST,
    replace(REQUEST, tools=(FUNCTIONS,)),
    replace(REQUEST, edits=()),
]


@given(st.sampled_from(CLIENTS), st.one_of(REPLIES, responses()), st.sampled_from(ASKED))
def test_what_is_written_at_once_is_what_encode_response_gives(
    client: str, response: Response, request: Request | None
) -> None:
    codec, losses = protocol(client).codec, Losses()
    if response.extras or any(part.extras for part in response.parts):
        return
    written = codec.write_usual_reply(response, request, codec.echo(request) if codec.echo else b"")
    if written is not None:
        assert jsontext.encode(written) == jsontext.encode(codec.encode_response(response, losses, request))
        assert not losses.items


@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "openai-responses"])
def test_a_usual_reply_is_written_at_once(client: str) -> None:
    assert protocol(client).codec.write_usual_reply(USUAL, REQUEST, b"")


def test_a_text_without_its_type_is_refused() -> None:
    body = wire("openai-responses", USUAL)
    del body["output"][0]["content"][0]["type"]
    assert protocol("openai-responses").codec.read_usual_reply(json.dumps(body).encode()) is None


MALFORMED = {
    "no JSON": b"{",
    "no UTF-8": b'{"choices":[{"message":{"content":"\xff"},"finish_reason":"stop"}]}',
    "half a surrogate pair": b'{"choices":[{"message":{"content":"\\ud83d"},"finish_reason":"stop"}]}',
    "nested deeply": b'{"choices":' + b"[" * 100_000,
    "no UTF-8 where nobody looks": b'{"choices":[{"message":{},"finish_reason":"stop"}],"provider":"\xff"}',
    "a number that is too long there": b'{"choices":[{"message":{},"finish_reason":"stop"}],"timings":%b}'
    % (b"1" * 5000),
    "twice": b'{"choices":[{"message":{"content":"a","content":"b"},"finish_reason":"stop"}]}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_reply_is_the_same(name: str) -> None:
    assert outcome("anthropic", "openai-chat", MALFORMED[name], True) == outcome(
        "anthropic", "openai-chat", MALFORMED[name], False
    )
