"""Goldens: what becomes of each scenario between all pairs of protocols, losses included.

`<scenario>.json` holds for each pair, named client -> upstream, the request as the upstream gets it, the
whole reply as the client gets it, the stream likewise, and where the scenario goes on, the next request, in
which the client sends back what it was given. Within a protocol the wire passes as it is, and is "unchanged".

    DRAGOMAN_GOLDENS=write pytest tests/goldens

writes them anew. Read the diff: a golden that freezes a mistake is worse than none.

To keep them readable the frames of a stream leave out what the frame before said alike (ids, model, created),
numbers that only count on, and a Responses object the settings that it repeats at their defaults.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.framing.sse import Decoder
from dragoman.protocols import codec
from dragoman.protocols import upstream as upstream_codec
from goldens.echo import next_request
from goldens.layout import pretty
from goldens.pieces import CONVERSE, MODELS
from goldens.scenarios import SCENARIOS, Scenario
from seeds.wires import frames, gathered
from spoken import SPOKEN, Wire

HERE = Path(__file__).parent
WRITE = os.environ.get("DRAGOMAN_GOLDENS") == "write"


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden(name: str) -> None:
    made = {
        f"{client} -> {upstream}": outcome(SCENARIOS[name], client, upstream)
        for client in SPOKEN
        for upstream in (*SPOKEN, CONVERSE)
    }
    path = HERE / f"{name}.json"
    if WRITE:
        path.write_text(pretty(made) + "\n")
    golden = json.loads(path.read_text())
    assert golden.keys() == made.keys()
    for pair, expected in golden.items():
        assert json.loads(json.dumps(made[pair])) == expected, pair


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in HERE.glob("*.json")} == set(SCENARIOS)


def outcome(scenario: Scenario, client: str, upstream: str) -> Wire:
    found: Wire = {}
    if client in scenario.requests:
        exchange = dragoman.Exchange(client, upstream, reply_created=0)
        body = scenario.requests[client]
        out = exchange.request(body, model=MODELS[upstream])
        found |= {"request": UNCHANGED if out == body else plain(out), **losses_of(exchange, "request")}
    if upstream in scenario.replies:
        exchange = begun(scenario, client, upstream)
        known = exchange.losses
        body = scenario.replies[upstream]
        out = exchange.response(body)
        found |= {"reply": UNCHANGED if out == body else terse(out), **losses_of(exchange, "reply", known)}
        if scenario.again and client != upstream:
            found |= returned(scenario, client, upstream, out, "next request")
    if upstream in scenario.streams:
        exchange = begun(scenario, client, upstream)
        known = exchange.losses
        data = scenario.streams[upstream]
        stream = exchange.stream()
        out = stream.feed(data) + stream.close()
        if client != upstream:
            check(client, out)
        found |= {"stream": UNCHANGED if out == data else shown(out), **losses_of(exchange, "stream", known)}
        if scenario.again:
            found |= returned(
                scenario, client, upstream, gathered(client, out), "next request after the stream", found
            )
    return found


UNCHANGED = "unchanged"


def begun(scenario: Scenario, client: str, upstream: str) -> dragoman.Exchange:
    """An exchange whose request, where the scenario has one, is made."""
    exchange = dragoman.Exchange(client, upstream, reply_created=0)
    if client in scenario.requests:
        exchange.request(scenario.requests[client], model=MODELS[upstream])
    return exchange


def returned(
    scenario: Scenario, client: str, upstream: str, reply: Wire, what: str, before: Wire | None = None
) -> Wire:
    """The conversation after the client has sent `reply` back, with a result for each call."""
    exchange = dragoman.Exchange(client, upstream, reply_created=0)
    out = exchange.request(next_request(client, scenario.requests[client], reply), model=MODELS[upstream])
    turns = plain(out[upstream_codec(upstream).turns][-3:])
    if before and before.get("next request") == turns:
        return {what: "the same"}
    return {what: turns, **losses_of(exchange, what)}


def losses_of(exchange: dragoman.Exchange, what: str, known: list[dragoman.Loss] | None = None) -> Wire:
    losses = [str(loss) for loss in exchange.losses if loss not in (known or ())]
    return {f"losses of the {what}": losses} if losses else {}


def plain(value: Any) -> Any:
    """As a peer would parse it."""
    return json.loads(json.dumps(value))


def check(protocol: str, data: bytes) -> None:
    grammar, decoder = codec(protocol).grammar(), Decoder()
    for frame in [*decoder.feed(data), *decoder.close()]:
        list(grammar.feed(frame))
    list(grammar.close())


# Less to read

_COUNTED = ("sequence_number",)
_REPEATED = {
    "background": False,
    "error": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "user": None,
    "incomplete_details": None,
}


def terse(body: Any) -> Any:
    """A Responses object without the settings that stand at their defaults."""
    body = plain(body)
    if body.get("object") != "response":
        return body
    return {key: value for key, value in body.items() if key not in _REPEATED or value != _REPEATED[key]}


def shown(data: bytes) -> list[Any]:
    """The frames of a stream, each without what the one before it said alike at its top."""
    before: Wire = {}
    response: Wire = {}
    listed: list[Any] = []
    for frame in frames(data):
        if isinstance(frame, str):
            listed.append(frame)
            continue
        fields = {key: value for key, value in frame.items() if key not in _COUNTED}
        if "response" in fields:
            body = terse(fields["response"])
            fields["response"] = {
                key: value for key, value in body.items() if response.get(key, ...) != value
            }
            response = body
        new = {key: value for key, value in fields.items() if key == "type" or before.get(key, ...) != value}
        listed.append(new)
        before = fields
    return listed
