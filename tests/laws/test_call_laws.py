"""What a client executes: no call that breaks off, none twice under one id, whole equals streamed."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Response, Stop, Text, ToolCall, ToolDeclaration, Usage, Wire
from dragoman.protocols import codec, names
from dragoman.transforms.arguments import unwrap_raw
from laws.test_exchange_laws import echo, every_pair, folded, plain, response_wire, stream_wire

STRING_ARGUMENTS = (
    "openai-chat",
    "openai-responses",
)  # upstreams whose arguments are text
BROKEN = ['{"path":"/tmp/x","recursive":tr', '{"path":"/ho', "{", "[1,", '"{\\"a\\":']
# arguments: what every client reads
ODD = {
    "": {},
    "{}": {},
    ' {"a":1}': {"a": 1},
    "null": {},
    '"null"': {},
    '"{\\"a\\":1}"': {"a": 1},
    "[1,2]": "[1,2]",
    "7": "7",
    "hello": "hello",
}

TOOL = ToolDeclaration("f", "d", {"type": "object", "properties": {"n": {"type": "integer"}}})


def reply(*calls: ToolCall) -> Response:
    return Response("r", "m", (Text("Hi."), *calls), Stop("tool_calls"), Usage(1, 2))


def both(client: str, upstream: str, response: Response) -> list[Wire]:
    """The reply that a client gets whole, and the one that it puts together from a stream."""
    whole = plain(dragoman.Exchange(client, upstream).response(response_wire(upstream, response)))
    stream = dragoman.Exchange(client, upstream).stream()
    out = b"".join(map(stream.feed, stream_wire(upstream, response))) + stream.close()
    assert stream.failure is None
    return [whole, plain(folded(client, out))]


def executed(client: str, body: Wire) -> list[Any]:
    texts = [unwrap_raw(call.arguments).strip() or "{}" for call in dragoman.parse_tool_calls(body, client)]
    return [jsontext.decode(text) if text[0] == "{" else text for text in texts]


@pytest.mark.parametrize("client", names())
@pytest.mark.parametrize("upstream", STRING_ARGUMENTS)
@pytest.mark.parametrize("arguments", BROKEN)
def test_A2_a_call_that_breaks_off_is_never_executed(client: str, upstream: str, arguments: str) -> None:
    if client == upstream:
        return
    for body in both(client, upstream, reply(ToolCall("call_1", "f", arguments))):
        assert executed(client, body) == []
        stop = codec(client).decode_response(body, Losses()).stop
        assert stop.reason == "length"


@pytest.mark.parametrize("client", names())
@pytest.mark.parametrize("upstream", STRING_ARGUMENTS)
@pytest.mark.parametrize("arguments", ODD)
def test_A13_arguments_mean_the_same_whole_and_streamed(client: str, upstream: str, arguments: str) -> None:
    if client == upstream:
        return
    for body in both(client, upstream, reply(ToolCall("call_1", "f", arguments))):
        assert executed(client, body) == [ODD[arguments]]


# Ids


def called_ids(client: str, body: Wire) -> list[str]:
    return [call.id for call in dragoman.parse_tool_calls(body, client)]


@every_pair
def test_A8_ids_that_a_reply_repeats_are_made_unique(client: str, upstream: str) -> None:
    response = reply(ToolCall("x", "f", "{}"), ToolCall("x", "g", "{}"), ToolCall("x", "f", "{}"))
    whole, streamed = [called_ids(client, body) for body in both(client, upstream, response)]
    assert whole == streamed
    assert len(set(whole)) == 3


@every_pair
def test_A8_so_are_ids_that_come_again_in_each_turn(client: str, upstream: str) -> None:
    """`functions.f:0` in each turn: the client has two ids, the upstream gets back its own form."""
    tools = plain(codec(client).encode_request(Request("m", (), tools=(TOOL,)), Losses()))["tools"]
    response = reply(ToolCall("functions.f:0", "f", '{"n":1}'))
    first = dragoman.Exchange(client, upstream)
    answer = plain(first.response(response_wire(upstream, response)))
    results = dragoman.build_tool_results(dragoman.parse_tool_calls(answer, client), ["one"], client)
    body = plain(echo(client, answer, results, tools))
    second = dragoman.Exchange(client, upstream)
    second.request(body, model="m")
    again = plain(second.response(response_wire(upstream, response)))
    ids = called_ids(client, answer) + called_ids(client, again)
    assert len(set(ids)) == 2
    last = dragoman.build_tool_results(dragoman.parse_tool_calls(again, client), ["two"], client)
    turn = echo(client, again, last, tools)[codec(client).turns][1:]
    sent = dragoman.Exchange(client, upstream).request(
        plain({**body, codec(client).turns: [*body[codec(client).turns], *turn]}), model="m"
    )
    request = codec(upstream).decode_request(plain(sent), Losses())
    pairs = [part.text for message in request.messages for part in _texts_of_results(message)]
    assert pairs == ["one", "two"]
    made = [p.id for message in request.messages for p in message.parts if isinstance(p, ToolCall)]
    assert len(set(made)) == 2
    assert "__dgm" not in jsontext.dumps(sent)


def _texts_of_results(message: Any) -> list[Text]:
    return [item for part in message.parts for item in getattr(part, "content", ()) if isinstance(item, Text)]
