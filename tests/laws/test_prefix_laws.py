"""A conversation that grows keeps its beginning: the translated request of the next turn begins with that of
this turn, byte for byte, so that prompt caches of the upstream match.

Each turn is a whole exchange: the reply goes back into the client's history as its SDK keeps it. What marks a
cache breakpoint is not part of the prompt and may move.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.model import (
    AnyPart,
    Base64,
    Media,
    Message,
    Reasoning,
    Request,
    Response,
    Settings,
    State,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.profiles import profile_of
from dragoman.protocols import codec, names
from goldens.echo import next_request
from laws.test_exchange_laws import plain, request_wire, response_wire
from seeds.wires import read_calls

PAIRS = [(client, upstream) for client in names() for upstream in names()]
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
# A model of each upstream's own vendor: reasoning, signatures and cache breakpoints included
MODELS = {
    "openai-chat": ("openai-chat", "gpt-5.6"),
    "openai-responses": ("openai", "gpt-5.6"),
    "anthropic": ("anthropic", "claude-sonnet-4-5"),
    "gemini": ("google-ai-studio", "gemini-3-pro"),
    "gemini-interactions": ("google-ai-studio", "gemini-3-pro"),
}
DIALECTS = (None, "hermes", "roo-xml")
PNG = Media("image", "image/png", Base64("iVBORw0KGgo="))
OPEN = {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}}
FIRST = Request(
    "m",
    (Message("user", (Text("What is here?", cache="5m"), PNG)),),
    (Text("You are an agent.", cache="1h"),),
    (
        ToolDeclaration("read.file", "A name that is illegal in most places.", OPEN),
        ToolDeclaration("list", "Another.", {"type": "object"}),
    ),
    settings=Settings(max_tokens=9000, effort="high"),
)
# What the model answers, turn by turn; reasoning is signed by whoever serves it
TURNS: tuple[tuple[AnyPart, ...], ...] = (
    (Reasoning("Look around."), Text("I look."), ToolCall("c1", "list", "{}")),
    (
        Reasoning("Read both."),
        ToolCall("c2", "read.file", '{"path":"a","n":1}'),
        ToolCall("c3", "read.file", '{"path": "b", "n": 1.0}'),
    ),
    (Reasoning("Enough."), Text("There are two files.\n\n")),
    (Reasoning("Once more."), ToolCall("c4", "list", ""), ToolCall("c5", "unknown", '{"é": "→"}')),
    (Text(" Done: \u2028 é. "),),
)
_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})


@pytest.mark.parametrize("dialect", DIALECTS)
@every_pair
def test_the_next_turn_begins_with_this_one(client: str, upstream: str, dialect: str | None) -> None:
    provider, model = MODELS[upstream]
    body, sent = request_wire(client, FIRST), None
    for number, parts in enumerate(TURNS):
        exchange = dragoman.Exchange(
            client, upstream, dialect, profile=profile_of(model, provider, upstream), reply_id=str(number)
        )
        after = plain(exchange.request(body, model, False))
        if sent is not None:
            check_prefix(upstream, sent, after)
        sent = after
        reply = plain(exchange.response(response_wire(upstream, answer(upstream, number, parts, dialect))))
        body = asked_more(client, next_request(client, body, reply), reply, f"And then? ({number})")


def answer(upstream: str, number: int, parts: tuple[AnyPart, ...], dialect: str | None) -> Response:
    if dialect:  # calls would have to be written as text
        parts = tuple(part for part in parts if not isinstance(part, ToolCall)) or (Text("I see."),)
    signed = [
        Reasoning(part.text, state=State(upstream, f"c2lnbmVkLWJ5LXZlbmRvci0{number}"))
        if isinstance(part, Reasoning)
        else part
        for part in parts
    ]
    called = any(isinstance(part, ToolCall) for part in signed)
    return Response(
        f"r{number}", "m", tuple(signed), Stop("tool_calls" if called else "end"), Usage(9, 9), created=1
    )


def asked_more(client: str, body: Any, reply: Any, text: str) -> Any:
    """The user says something where the model made no call; an SDK sends no message without content."""
    if read_calls(client, reply):
        return body
    field = codec(client).turns
    if client in ("anthropic", "gemini"):
        body[field].pop()
    return {
        **body,
        field: body[field] + request_wire(client, Request("m", (Message("user", (Text(text),)),)))[field],
    }


def check_prefix(upstream: str, sent: Any, after: Any) -> None:
    field = codec(upstream).turns
    assert sent.keys() - _MARKS == after.keys() - _MARKS
    for key in sent.keys() - {field} - _MARKS:
        assert jsontext.encode(sent[key]) == jsontext.encode(after[key]), key
    before = [printed(message) for message in sent[field]]
    longer = [printed(message) for message in after[field]]
    assert longer[: len(before)] == before


def printed(message: Any) -> bytes:
    return jsontext.encode(unmarked(message))


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key not in _MARKS}
    return value
