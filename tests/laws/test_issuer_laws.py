"""State belongs to its issuer (provider and account), also within one protocol and behind two gateways."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Message,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
    Wire,
)
from dragoman.core.seal import MAGIC
from dragoman.framing import sse
from dragoman.protocols import codec
from laws.test_exchange_laws import SIGNATURES, echo, folded, response_wire, signed_response, stream_wire
from recordings.test_recordings import whole_anthropic, whole_gemini
from seeds.wires import gather_interactions

TOOL = ToolDeclaration("f", "d", {"type": "object", "properties": {}})
each_protocol = pytest.mark.parametrize("name", SIGNATURES)
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def first_request(client: str) -> Wire:
    return plain(
        codec(client).encode_request(Request("m", (Message("user", (Text("go"),)),), tools=(TOOL,)), Losses())
    )


def answered(exchange: dragoman.Exchange, upstream: str, response: Response, streamed: bool) -> Wire:
    """The reply as the client keeps it."""
    if not streamed:
        return plain(exchange.response_bytes(jsontext.encode(response_wire(upstream, response))), read=True)
    stream = exchange.stream()
    out = b"".join(map(stream.feed, stream_wire(upstream, response))) + stream.close()
    assert stream.failure is None
    return plain(folded(exchange.client.name, out))


def plain(value: Any, read: bool = False) -> Any:
    return jsontext.decode(value if read else jsontext.encode(value))


def next_request(client: str, reply: Wire) -> Wire:
    results = dragoman.build_tool_results(dragoman.parse_tool_calls(reply, client), ["ok"], client)
    return plain(echo(client, reply, results, first_request(client)["tools"]))


def turn(client: str, upstream: str, origin: str, streamed: bool, response: Response | None = None) -> Wire:
    exchange = dragoman.Exchange(client, upstream, origin=origin)
    exchange.request(first_request(client), model="m")
    reply = answered(exchange, upstream, response or signed_response(upstream), streamed)
    return next_request(client, reply)


def sent(client: str, upstream: str, origin: str, body: Wire) -> tuple[str, list[Any]]:
    """The request that the upstream gets, as text, and its losses. Both ways of making it agree."""
    one = dragoman.Exchange(client, upstream, origin=origin)
    text = jsontext.dumps(one.request(plain(body), model="m"))
    other = dragoman.Exchange(client, upstream, origin=origin)
    assert jsontext.decode(other.request_bytes(jsontext.encode(body), model="m")) == jsontext.decode(text)
    return text, one.losses


@each_protocol
@each_way
def test_A5_the_issuer_gets_its_state_back(name: str, streamed: bool) -> None:
    text, losses = sent(name, name, "a/1", turn(name, name, "a/1", streamed))
    assert SIGNATURES[name] in text
    assert MAGIC not in text
    assert losses == []


@each_protocol
@each_way
def test_A5_a_fallback_to_another_provider_of_the_protocol_does_not(name: str, streamed: bool) -> None:
    """What it refuses is withheld and reported; the readable part stays."""
    for other in ("b/1", "a/2"):
        text, losses = sent(name, name, other, turn(name, name, "a/1", streamed))
        assert SIGNATURES[name] not in text
        assert MAGIC not in text
        assert '"f"' in text
        assert losses


@each_protocol
def test_A5_state_without_a_tag_was_not_made_here_and_passes(name: str) -> None:
    body = turn(name, name, "", False)
    text, losses = sent(name, name, "b/1", body)
    assert SIGNATURES[name] in text
    assert losses == []


def test_A5_unsigned_thinking_that_we_did_not_make_passes() -> None:
    """Kimi wants its thinking back, and does not sign it."""
    block = {"type": "thinking", "thinking": "hm", "signature": ""}
    body = {**first_request("anthropic")}
    body["messages"] = [*body["messages"], {"role": "assistant", "content": [block]}]
    exchange = dragoman.Exchange("anthropic", "anthropic", origin="kimi/1")
    assert exchange.request(plain(body), model="m")["messages"][-1]["content"] == [block]


# What upstreams without signatures made


@each_protocol
@each_way
def test_A5_parts_that_nobody_signed_are_marked_and_found_again(name: str, streamed: bool) -> None:
    response = Response(
        "r", "m", (Reasoning("hm"), ToolCall("call_1", "f", "{}")), Stop("tool_calls"), Usage(1, 1)
    )
    body = turn(name, "openai-chat", "chat/1", streamed, response)
    assert MAGIC in jsontext.dumps(body)
    for upstream, origin in ((name, "a/1"), ("openai-chat", "chat/1"), ("openai-chat", "chat/2")):
        text, _ = sent(name, upstream, origin, body)
        assert MAGIC not in text
        assert '"signature":""' not in text


# Two gateways in a row

WHOLE: dict[str, Any] = {
    "anthropic": whole_anthropic,
    "gemini": whole_gemini,
    "openai-responses": lambda events: events[-1]["response"],
    "gemini-interactions": gather_interactions,
}


@each_protocol
@pytest.mark.parametrize("inner", ["gemini", "anthropic", "openai-responses"])
@each_way
def test_A6_seals_of_a_gateway_behind_this_one_pass_unchanged(name: str, inner: str, streamed: bool) -> None:
    if name == inner:
        return
    behind = dragoman.Exchange(name, inner, origin="vendor/1")
    behind.request(first_request(name), model="m")
    front = dragoman.Exchange(name, name, origin="behind/1")
    if streamed:
        translating, passing = behind.stream(), front.stream()
        pieces = [translating.feed(piece) for piece in stream_wire(inner, signed_response(inner))]
        out = b"".join(passing.feed(piece) for piece in [*pieces, translating.close()]) + passing.close()
        frames = [frame.data for frame in sse.Decoder().feed(out) if frame.data != b"[DONE]"]
        events = [jsontext.decode(data) for data in frames]
        reply = WHOLE[name](events)
    else:
        made = jsontext.encode(behind.response(response_wire(inner, signed_response(inner))))
        reply = jsontext.decode(front.response_bytes(made))
    text, losses = sent(name, name, "behind/1", next_request(name, reply))
    assert losses == []
    there, losses = sent(name, inner, "vendor/1", jsontext.decode(text))
    assert SIGNATURES[inner] in there
    assert [loss for loss in losses if "state" in loss.why] == []


# Clients that change ids


@pytest.mark.parametrize("client", ["anthropic", "openai-chat", "openai-responses"])
def test_B16_state_that_a_client_cut_off_is_reported(client: str) -> None:
    """Kimi Code cuts ids to 64 characters; the signature of a Gemini call travels in a longer one."""
    body = jsontext.dumps(turn(client, "gemini", "g/1", False))
    reply = dragoman.Exchange(client, "gemini", origin="g/1")
    reply.request(first_request(client), model="m")
    answer = answered(reply, "gemini", signed_response("gemini"), False)
    (call,) = dragoman.parse_tool_calls(answer, client)
    assert len(call.id) > 64
    _, losses = sent(client, "gemini", "g/1", jsontext.decode(body.replace(call.id, call.id[:64])))
    assert "call.id.dropped" in {loss.code for loss in losses}
