"""Clients echo different slots of a reply. Reasoning comes back through any one that carries it.

A row is what a client of Gemini's protocol sends back of a reply: Gemini CLI keeps no thoughts, OpenCode
neither thoughts nor ids.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
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
