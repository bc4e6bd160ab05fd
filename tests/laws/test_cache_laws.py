"""A request translates alike however often its tools were seen, and nobody can write into what is shared.

`Exchange.request` remembers nothing, so it is the measure for `request_bytes`, which does.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Request, Response, Stop, Text, ToolChoice, ToolDeclaration
from dragoman.protocols import codec, names
from goldens.scenarios import SCENARIOS
from laws.strategies import requests
from laws.test_exchange_laws import stream_wire
from seeds.wires import scribble

few = settings(max_examples=5)  # of each pair: there are sixteen
PAIRS = list(product(names(), names()))
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
HOW: list[dict[str, Any]] = [{}, {"strict": True}, {"dialect": "hermes"}, {"dialect": "roo-xml"}]

ODD: tuple[ToolDeclaration | HostedTool, ...] = (
    ToolDeclaration(
        "plain", "", {"type": "object", "properties": {"n": {"type": "number", "multipleOf": 0.5}}}
    ),
    ToolDeclaration("patch", "Freeform.", kind="custom", grammar=("lark", "start: /a/")),
    ToolDeclaration("read", "In a namespace.", {"type": "object"}, namespace="files"),
    ToolDeclaration("files__read", "Clashes with it.", {"type": "object"}),
    ToolDeclaration("a.dotted/name", "Illegal in most places.", {"type": "object"}),
    ToolDeclaration("long" * 40, "Too long.", None),
    ToolDeclaration("strict", "", {"type": "object", "properties": {"x": {"type": "string"}}}, strict=True),
    ToolDeclaration("open", "", {"type": "object", "additionalProperties": {"type": "string"}}, strict=True),
    ToolDeclaration(
        "later", "Deferred.", {"type": "object", "properties": {"a": {"$ref": "#/x"}}}, deferred=True
    ),
    HostedTool("web_search", "web_search", {"blocked_domains": ["a.test"]}),
    HostedTool("bash", "bash"),
    HostedTool("tool_search", "search"),
    HostedTool("mcp", "", {"label": "m", "url": "https://m.test", "headers": {"Authorization": "Bearer k"}}),
    ToolDeclaration("plain", "A second one of this name.", {"type": "object"}),
)


@every_pair
@few
@given(request=requests(), odd=st.lists(st.sampled_from(ODD), max_size=5), data=st.data())
def test_seen_before_or_not(
    client: str, upstream: str, request: Request, odd: list[ToolDeclaration | HostedTool], data: st.DataObject
) -> None:
    request = replace(request, tools=(*request.tools, *odd))
    others = data.draw(st.permutations(request.tools))[1:]
    choice = ToolChoice("auto", tuple(tool.name for tool in others if isinstance(tool, ToolDeclaration))[:2])
    bodies = [
        written(client, each)
        for each in (request, replace(request, tools=tuple(others)), replace(request, tool_choice=choice))
    ]
    for how in HOW:
        agrees(client, upstream, bodies * 3, how)


@every_pair
def test_every_scenario(client: str, upstream: str) -> None:
    bodies = [scenario.requests[client] for scenario in SCENARIOS.values() if client in scenario.requests]
    for how in HOW:
        agrees(client, upstream, [jsontext.encode(body) for body in bodies] * 3, how)


@pytest.mark.parametrize("upstream", names())
def test_a_reply_that_echoes_the_tools_is_its_readers_own(upstream: str) -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    body = jsontext.encode({"model": "m", "input": "x", "tools": tools})
    whole = Response("id", "m", (Text("hi"),), Stop("end"))
    reply = jsontext.encode(codec(upstream).encode_response(whole, Losses()))
    stream = b"".join(stream_wire(upstream, whole))
    reported: list[Any] = []
    for remember in (False, True, True, True, True):
        exchange = dragoman.Exchange(  # `recover`: or the reply would pass
            "openai-responses", upstream, recover=True, reply_created=1
        )
        if remember:
            exchange.request_bytes(body)
        else:
            exchange.request(body)
        answer, streamed = exchange.response(reply), exchange.stream()
        reported.append((jsontext.encode(answer), streamed.feed(stream) + streamed.close()))
        scribble(answer)
    assert reported == reported[:1] * 5
    assert (
        upstream == "openai-responses" or reported[0][1].count(b'"tools":[{"type":"function","name":"f"') == 3
    )


def agrees(client: str, upstream: str, bodies: list[bytes], how: dict[str, Any]) -> None:
    for body in bodies:
        expected = outcome(dragoman.Exchange(client, upstream, **how), body, remember=False)
        found = outcome(dragoman.Exchange(client, upstream, **how), body, remember=True)
        assert found == expected


def outcome(exchange: dragoman.Exchange, body: bytes, remember: bool) -> Any:
    """The body and the losses, or the error; afterwards the caller writes into all that it was given."""
    wire = jsontext.decode(body)
    try:
        if remember:
            out = exchange.request_bytes(body, "some-model", wire=wire)
        else:
            made = exchange.request(wire, "some-model")
            out = jsontext.encode(made)
            scribble(made)
    except DragomanError as error:
        return repr(error), exchange.bare_losses
    finally:
        scribble(wire)
    if exchange.client is exchange.upstream and remember:
        out = jsontext.encode(jsontext.decode(out))
    return out, exchange.bare_losses, exchange.path, exchange.headers


def written(client: str, request: Request) -> bytes:
    return jsontext.encode(codec(client).encode_request(request, Losses()))
