"""What is read of a body that passes as it is says the same as the whole body."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.jsontext import Glance
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, FailureKind, Request, Response, Wire
from dragoman.memory.forwarded_bodies import KnownBodies
from dragoman.protocols import codec, names, server
from laws.strategies import requests, responses, values

every_protocol = pytest.mark.parametrize("protocol", names())
KINDS: list[FailureKind] = ["server", "rate_limit", "overloaded", "context_too_long", "bad_request"]
REPLIES = ("error", "type", "object", "status", "content", "choices", "candidates", "output")
REQUESTS = ("thread", "mcp_servers", "tools", "functions", "stream")
ODD = st.sampled_from(
    ["error", "failed", "tool_use", "message", "create", [{}], [{}, 7], {"message": "m"}, 7]
)


def spoiled(data: st.DataObject, wire: Any) -> Any:
    """Some values, most of them near the top, replaced by any others; some fields that may mean something."""
    wire = copy.deepcopy(wire)
    for _ in range(data.draw(st.integers(0, 2))):
        place = wire
        while True:
            spots = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not spots:
                break
            spot = data.draw(st.sampled_from(spots))
            if not isinstance(place[spot], dict | list) or data.draw(st.booleans()):
                place[spot] = copy.deepcopy(data.draw(values | ODD))
                break
            place = place[spot]
    return wire | data.draw(st.dictionaries(st.sampled_from(REPLIES + REQUESTS), values | ODD, max_size=2))


def request_facts(protocol: str, wire: Wire) -> object:
    """What the gateway reads from a request that it forwards."""
    http, protocol_server = codec(protocol).http, server(protocol)
    turn_codec, accounting = protocol_server.turn_codec, protocol_server.accounting
    try:
        storage: object = turn_codec.decode_storage(wire) if turn_codec and accounting.request else None
    except WireError as error:
        storage = str(error)
    holds_key = accounting.may_hold_key(wire)
    return (
        *(wire.get("model"), wire.get("stream"), accounting.tools(wire)),
        *(http.headers_for(wire), storage, holds_key),
    )


@every_protocol
@given(request=requests(), data=st.data())
def test_a_request_at_a_glance(protocol: str, request: Request, data: st.DataObject) -> None:
    glance = server(protocol).accounting.request
    wire = spoiled(data, codec(protocol).encode_request(request, Losses()))
    body = jsontext.encode(wire)
    seen = glance.read(body) if glance else None
    if seen is not None:
        assert request_facts(protocol, seen) == request_facts(protocol, jsontext.decode(body))


@every_protocol
@given(response=responses(), data=st.data())
def test_a_reply_at_a_glance(protocol: str, response: Response, data: st.DataObject) -> None:
    wire = spoiled(data, codec(protocol).encode_response(response, Losses()))
    body = jsontext.encode(wire)
    accounting, read = server(protocol).accounting, jsontext.decode(body)
    facts = accounting.reply(body)
    if facts is not None:
        assert codec(protocol).decode_error(read, 200) is None
        assert facts == accounting.facts(read, codec(protocol).model_field)


@every_protocol
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_at_a_glance(protocol: str, kind: FailureKind) -> None:
    body = jsontext.encode(codec(protocol).encode_error(Failure(kind, "why", 500))[1])
    assert server(protocol).accounting.reply(body) is None


@every_protocol
@given(request=requests(), response=responses())
def test_what_is_not_spoiled_needs_no_more(protocol: str, request: Request, response: Response) -> None:
    protocol_codec, accounting = codec(protocol), server(protocol).accounting
    body = jsontext.encode(protocol_codec.encode_request(request, Losses()))
    assert accounting.request is None or accounting.request.read(body) is not None
    wire = protocol_codec.encode_response(response, Losses())
    failed = protocol_codec.decode_error(wire, 200) is not None
    assert failed or accounting.reply(jsontext.encode(wire)) is not None


PADDING = {"role": "user", "content": "é" * 300}
entries = st.lists(st.dictionaries(st.sampled_from(["role", "content", "messages"]), values, max_size=3))
SPOILERS = st.sampled_from(["", ",", '"', "]", "}", "{}", "1", "\\"])


@every_protocol
@given(
    turns=st.lists(entries, min_size=2, max_size=6),
    tools=values,
    place=st.integers(0, 2000),
    size=st.integers(0, 3),
    spoiler=SPOILERS,
)
def test_a_known_body_at_a_glance(
    protocol: str, turns: list[Any], tools: Any, place: int, size: int, spoiler: str
) -> None:
    """A conversation that grows, and each of its requests damaged somewhere."""
    glance, field = server(protocol).accounting.request, codec(protocol).turns
    if glance is None:
        return
    known, sent = KnownBodies(), [PADDING] * 3
    for new in [[], [], *turns]:
        sent = [*sent, *new]
        body = jsontext.encode({"model": "m", field: sent, "tools": tools})
        check_reading(known, glance, field, body, place)
        at = max(len(body) - place, 0)
        spoilt = body[:at] + spoiler.encode() + body[at + size :]
        check_reading(known, glance, field, spoilt, place)


def check_reading(known: KnownBodies, glance: Glance[Any], field: str, body: bytes, place: int) -> None:
    """The fields, and what stands in it, wherever what is known ends."""
    seen, read = glance.read(body), known.read("", glance, field, body)
    assert (read.fields if read else None) == seen
    if read:
        for sought in (body[-place - 9 : -place], b'"name"', b'"file_id"'):
            assert read.holds(sought) == (sought in body)
