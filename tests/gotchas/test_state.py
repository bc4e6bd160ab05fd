"""G109-G113: what lies between requests: stored turns, prompt caches, storage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from goldens.echo import next_request
from gotchas.exchanges import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    others,
    request_body,
    sent,
    tools,
    translated,
)
from seeds.wires import PAIRS, Call, Wire, dumps, rows, whole_reply


@pytest.mark.parametrize("upstream", others(RESPONSES))
@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_G109_turns_that_only_a_server_holds_are_reported(upstream: str, field: str) -> None:
    """A store is the gateway's; without one the library says what is missing, and strict mode refuses."""
    body = request_body(RESPONSES, **{field: "resp_1"})
    out, losses = translated(RESPONSES, upstream, body)
    assert field not in out
    assert any(field in loss for loss in losses)
    with pytest.raises(dragoman.LossError, match=field):
        dragoman.Exchange(RESPONSES, upstream, strict=True).request(body, model="m")


# G111: the same request is the same bytes, in any process, so that prompt caches hit

LONG: Wire = request_body(
    ANTHROPIC,
    {"role": "user", "content": "Go"},
    {
        "role": "assistant",
        "content": [
            {
                "type": "tool_use",
                "id": "a b",
                "name": "z tool",
                "input": {"z": 1, "a": [1.10, {"y": 0, "b": 1}]},
            },
            {"type": "tool_use", "id": "a.b", "name": "a tool", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a b", "content": "one"},
            {"type": "tool_result", "tool_use_id": "a.b", "content": "two"},
        ],
    },
    tools=[
        {
            "name": "z tool",
            "input_schema": {"type": "object", "properties": {"z": {}, "a": {}}, "required": ["z", "a"]},
        },
        {"name": "a tool", "input_schema": {"type": "object", "properties": {"m": {"const": 1}}}},
    ],
)
PROGRAM = """
import sys, dragoman
body = sys.stdin.buffer.read()
for name in dragoman.protocols():
    print(dragoman.Exchange("anthropic", name).request_bytes(body, model="m").decode())
"""


def test_G111_the_same_bytes_in_every_process() -> None:
    source = str(Path(dragoman.__file__).parent.parent)
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=dumps(LONG).encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G111_order_is_kept(upstream: str) -> None:
    printed = dumps(sent(ANTHROPIC, upstream, LONG)).replace("\\", "")
    assert printed.index("z_tool") < printed.index("a_tool")
    assert '"z":1,"a":[1.1' in printed
    assert '{"y":0,"b":1}' in printed


@rows("client, upstream", PAIRS)
def test_G111_a_longer_conversation_begins_with_the_shorter_one(client: str, upstream: str) -> None:
    """Turns that were sent before are sent alike, whatever comes after them."""
    field = {RESPONSES: "input", GEMINI: "contents"}.get(upstream, "messages")
    body = whole_reply(upstream, "", [Call("c0", "f", {"n": 1})])
    translated = dragoman.Exchange(client, upstream).response(body)
    shorter = next_request(client, request_body(client), translated)
    more = (
        {"role": "user", "parts": [{"text": "More"}]}
        if client == GEMINI
        else {"role": "user", "content": "More"}
    )
    turns = {RESPONSES: "input", GEMINI: "contents"}.get(client, "messages")
    longer = {**shorter, turns: [*shorter[turns], more]}
    first, second = sent(client, upstream, shorter)[field], sent(client, upstream, longer)[field]
    *before, last = first
    assert dumps(second[: len(before)]) == dumps(before)
    assert dumps(last).split("]")[0] in dumps(second[len(before)])


MARK = {"type": "ephemeral"}
CACHED = request_body(
    ANTHROPIC,
    {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": MARK}]},
    system=[{"type": "text", "text": "Rules", "cache_control": {**MARK, "ttl": "1h"}}],
    tools=tools(ANTHROPIC, cache_control=MARK),
)


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G112_marks_of_the_cache_are_reported_where_nobody_reads_them(upstream: str) -> None:
    out, losses = translated(ANTHROPIC, upstream, CACHED)
    assert "cache_control" not in dumps(out)
    for place in ("messages[0].content[0]", "system[0]", "tools[0]"):
        assert any(f"{place}.cache_control" in loss for loss in losses), place


def test_G112_and_are_kept_at_home() -> None:
    assert sent(ANTHROPIC, ANTHROPIC, CACHED) == CACHED | {"model": "m"}


@pytest.mark.parametrize("client", others(RESPONSES))
def test_G113_nothing_is_stored_unless_somebody_asks(client: str) -> None:
    assert sent(client, RESPONSES, request_body(client))["store"] is False


def test_G113_a_chat_client_may_ask() -> None:
    assert sent(CHAT, RESPONSES, request_body(CHAT, store=True))["store"] is True
