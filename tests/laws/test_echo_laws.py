"""Clients echo different slots of a reply. Reasoning comes back through any one that carries it.

A row is what a client sends back of a reply. `MEASURED` is what real ones did with a reply that has something
of its own in each slot.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from goldens.echo import next_request
from goldens.pieces import MODELS as UPSTREAMS
from goldens.scenarios import SCENARIOS
from laws.test_chain_laws import SIGNED, as_stream, signed_reply
from seeds.wires import gathered

Wire = dict[str, Any]
ROWS = {
    "all": {"thoughts", "ids", "signatures"},
    "no thoughts": {"ids", "signatures"},
    "signatures alone": {"signatures"},
    "ids alone": {"ids"},
    "no ids": {"thoughts", "signatures"},
}
TOOLS = [{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": {"type": "object"}}]}]
MODELS = {"anthropic": "claude-sonnet-4-5", "openai-responses": "gpt-5.2"}


def echoed(reply: Wire, slots: set[str]) -> list[Wire]:
    parts: list[Wire] = []
    for part in reply["candidates"][0]["content"]["parts"]:
        if part.get("thought") and "thoughts" not in slots:
            continue
        part = dict(part)
        if "signatures" not in slots:
            part.pop("thoughtSignature", None)
        if "functionCall" in part and "ids" not in slots:
            part["functionCall"] = {key: value for key, value in part["functionCall"].items() if key != "id"}
        parts.append(part)
    return parts


def results(parts: list[Wire]) -> list[Wire]:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    named = [{key: call[key] for key in ("id", "name") if key in call} for call in calls]
    return [{"functionResponse": {**name, "response": {"output": "sunny"}}} for name in named]


@pytest.mark.parametrize("upstream", MODELS)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_reasoning_comes_back_through_any_slot(upstream: str, row: str, streamed: bool) -> None:
    contents: list[Wire] = [{"role": "user", "parts": [{"text": "q"}]}]
    for turn in range(1, 4):
        exchange = dragoman.Exchange("gemini", upstream)
        thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048}}
        body = {"contents": contents, "tools": TOOLS, "generationConfig": thinking}
        sent = jsontext.dumps(exchange.request(body, model=MODELS[upstream]))
        for earlier in range(1, turn):
            assert sent.count(f'"{SIGNED[upstream]}{earlier}{earlier}{earlier}{earlier}"') == 1, sent
        if upstream == "anthropic":
            assert '"type":"enabled"' in sent
        reply = signed_reply(upstream, turn)
        stream = exchange.stream()
        got = (
            gathered("gemini", stream.feed(as_stream(upstream, reply)) + stream.close())
            if streamed
            else exchange.response(reply)
        )
        parts = echoed(got, ROWS[row])
        contents = [*contents, {"role": "model", "parts": parts}, {"role": "user", "parts": results(parts)}]


# (client, its protocol) -> the slots of a reply that come back in its next request, measured on 2026-11-18
MEASURED: dict[tuple[str, str], set[str]] = {
    ("Claude Code 2.1.325", "anthropic"): {"id", "thinking", "signature", "redacted"},
    ("Codex 0.166", "openai-responses"): {"id", "item ids", "summary", "encrypted"},
    ("Gemini CLI 0.61", "gemini"): {"id", "call signature"},
    ("OpenCode 1.18.33", "anthropic"): {"id", "thinking", "signature", "redacted"},
    ("OpenCode 1.18.33", "gemini"): {"thought", "thought signature", "call signature"},
    ("OpenCode 1.18.33", "openai-chat"): {"id", "reasoning_content"},
    ("OpenCode 1.18.33", "openai-responses"): {"id", "summary", "encrypted"},
}
FIELDS = {
    "thinking": "thinking",
    "signature": "signature",
    "data": "redacted",
    "summary": "summary",
    "encrypted_content": "encrypted",
    "reasoning_content": "reasoning_content",
    "reasoning_details": "reasoning_details",
    "extra_content": "extra_content",
}


def kept(value: Any, slots: set[str]) -> Any:
    """What such a client keeps of a reply: fields that it does not echo are gone, ids of items too."""
    if isinstance(value, list):
        parts = [kept(item, slots) for item in value]
        return [part for part in parts if part is not None]
    if not isinstance(value, dict):
        return value
    if value.get("thought") is True and "thought" not in slots:
        return None
    wire = {key: kept(item, slots) for key, item in value.items() if FIELDS.get(key, "id") in slots | {"id"}}
    signature = "thought signature" if wire.get("thought") else "call signature"
    if "thoughtSignature" in wire and signature not in slots:
        del wire["thoughtSignature"]
    if "args" in wire and "id" not in slots:
        wire.pop("id", None)
    if wire.get("type") in ("reasoning", "function_call") and "item ids" not in slots:
        wire.pop("id", None)
    return wire


@pytest.mark.parametrize("upstream", SIGNED)
@pytest.mark.parametrize("client", MEASURED, ids=" ".join)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_what_a_real_client_echoes_is_enough(client: tuple[str, str], upstream: str, streamed: bool) -> None:
    protocol, slots = client[1], MEASURED[client]
    body = SCENARIOS["reasoning"].requests[protocol]
    for turn in range(1, 4):
        exchange = dragoman.Exchange(protocol, upstream)
        sent = jsontext.dumps(exchange.request(body, model=UPSTREAMS[upstream]))
        for earlier in range(1, turn):
            assert sent.count(f'"{SIGNED[upstream]}{earlier}{earlier}{earlier}{earlier}"') == 1, sent
        reply = signed_reply(upstream, turn)
        stream = exchange.stream()
        if streamed:
            got = gathered(protocol, stream.feed(as_stream(upstream, reply)) + stream.close())
        else:
            got = exchange.response(reply)
        body = next_request(protocol, body, kept(got, slots))
        if "id" not in slots:
            for part in body["contents"][-1]["parts"]:
                del part["functionResponse"]["id"]
