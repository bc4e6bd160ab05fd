"""Every loss has a known code and names a place of the source: `where` resolves in the body that was sent.

What is invented or emulated has no source: its place is the one in the target.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings

import dragoman
from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.loss_codes import CODES
from dragoman.core.losses import ABSENT, Losses, resolve
from dragoman.core.model import Message, Request, Settings, Text, ToolDeclaration, Wire
from dragoman.protocols import codec, names
from fuzz import samples
from laws.strategies import requests
from laws.test_setting_laws import CASES, SCHEMA

PAIRS = [*permutations(names(), 2)]
every_pair = pytest.mark.parametrize("source, target", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
few = settings(max_examples=12)


def wire_of(protocol: str, request: Request) -> Wire:
    return jsontext.decode(jsontext.encode(codec(protocol).encode_request(request, Losses())))


def with_settings(protocol: str) -> Iterator[Wire]:
    """One request for each setting, and one with a field that no protocol knows."""
    for name, value in CASES:
        yield wire_of(protocol, _request(Settings(**{name: value})))
    yield {**wire_of(protocol, _request(Settings())), "x_unknown": {"a": [1]}}


def _request(given: Settings) -> Request:
    tools = (ToolDeclaration("f", "d", SCHEMA, strict=True), ToolDeclaration("g", "d", SCHEMA, strict=True))
    return Request("m", (Message("user", (Text("go"),)),), tools=tools, settings=given)


def misplaced(body: Any, losses: list[dragoman.Loss]) -> list[str]:
    assert [loss.code for loss in losses if loss.code not in CODES] == []
    lost = [loss for loss in losses if loss.kind in ("dropped", "changed")]
    return [f"{loss.code} at {loss.where}" for loss in lost if resolve(body, loss.where) is ABSENT]


def misplaced_in_request(source: str, target: str, body: Wire) -> list[str]:
    exchange = dragoman.Exchange(source, target)
    exchange.request(body, model="m")
    return misplaced(body, exchange.losses)


@every_pair
def test_losses_of_settings(source: str, target: str) -> None:
    assert [bad for body in with_settings(source) for bad in misplaced_in_request(source, target, body)] == []


@every_pair
def test_losses_of_known_requests(source: str, target: str) -> None:
    bodies = samples.requests(source)
    assert bodies
    assert [bad for body in bodies for bad in misplaced_in_request(source, target, body)] == []


_SOURCE = {"title": "A", "url": "https://a.test", "start_index": 0, "end_index": 4}
_CITATION = {**_SOURCE, "type": "url_citation"}
_PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
CITED_AND_NAMED: dict[str, Wire] = {
    "openai-chat": {
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "Rain",
                "annotations": [{"type": "url_citation", "url_citation": _SOURCE}],
            },
            {"role": "user", "content": "on"},
        ],
    },
    "openai-responses": {
        "input": [
            {"role": "user", "content": "go"},
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "Rain",
                        "annotations": [{"type": "url_citation", **_SOURCE}],
                    }
                ],
            },
            {"role": "user", "content": "on"},
        ],
    },
    "anthropic": {
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "document", "title": "A", "source": _PDF}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "text",
                        "text": "Rain",
                        "citations": [
                            {
                                "type": "web_search_result_location",
                                "url": "https://a.test",
                                "title": "A",
                                "cited_text": "Rain",
                                "encrypted_index": "eA==",
                            }
                        ],
                    }
                ],
            },
            {"role": "user", "content": "on"},
        ],
    },
    "gemini": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {
                        "inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
                        "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
                    }
                ],
            }
        ]
    },
    "gemini-interactions": {
        "input": [
            {
                "type": "user_input",
                "content": [
                    {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo=", "resolution": "low"},
                    {"type": "video", "uri": "https://a.test/a.mp4", "resolution": "ultra_high"},
                ],
            },
            {
                "type": "model_output",
                "content": [{"type": "text", "text": "Rain", "annotations": [_CITATION]}],
            },
            {"type": "user_input", "content": [{"type": "text", "text": "on"}]},
        ]
    },
}


@every_pair
def test_losses_of_citations_and_names(source: str, target: str) -> None:
    assert misplaced_in_request(source, target, CITED_AND_NAMED[source]) == []


def test_a_dialect_loses_no_citation_behind_a_thought() -> None:
    """The thought and the text are one text there."""
    body = copy.deepcopy(CITED_AND_NAMED["anthropic"])
    body["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": ""})
    exchange = dragoman.Exchange("anthropic", "openai-chat", dialect="hermes")
    exchange.request(body, model="m")
    lost = [loss.where for loss in exchange.losses if loss.code == "citation.dropped"]
    assert lost == ["messages[1].content[1].citations[0]"]
    assert misplaced(body, exchange.losses) == []


def test_a_dialect_names_the_place_of_state() -> None:
    body = copy.deepcopy(CITED_AND_NAMED["openai-chat"])
    detail = {"type": "reasoning.encrypted", "data": "eA==", "format": "x", "index": 0}
    body["messages"][1]["reasoning_details"] = [detail]
    exchange = dragoman.Exchange("openai-chat", "openai-chat", dialect="hermes")
    exchange.request(body, model="m")
    (loss,) = exchange.losses
    assert (loss.code, loss.where) == ("reasoning.signature.dropped", "messages[1].reasoning_details")


_THINKING = {"type": "enabled", "budget_tokens": 4000}
_THINKS = {"max_tokens": 9000, "thinking": _THINKING, "output_config": {"effort": "high"}}
_LEVELS = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH", "thinkingBudget": 4000}}}
_EXTREME = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "EXTREME"}}}
_LEVEL = "generationConfig.thinkingConfig.thinkingLevel"
_NAMED = {"type": "function", "function": {"name": "f", "x": 1}, "y": 2}
_ALLOWED = {"mode": "auto", "tools": [{"type": "function", "name": "f", "x": 1}, {"type": "mcp"}]}
UNKNOWN = "field.unknown.dropped"
# client, fields of the request, upstream, model, losses
RARE: dict[str, tuple[str, Wire, str, str, list[tuple[str, str]]]] = {
    "a budget beside an effort, to Chat": (
        *("anthropic", _THINKS, "openai-chat", "gpt-5"),
        [("setting.budget.dropped", "thinking.budget_tokens")],
    ),
    "to Responses": (
        *("anthropic", _THINKS, "openai-responses", "gpt-5"),
        [("setting.budget.dropped", "thinking.budget_tokens")],
    ),
    "to Gemini with levels": (
        *("anthropic", _THINKS, "gemini", "gemini-3-pro-preview"),
        [("setting.budget.dropped", "thinking.budget_tokens")],
    ),
    "to Gemini with budgets": (
        *("anthropic", _THINKS, "gemini", "gemini-2.5-flash"),
        [("setting.effort.dropped", "output_config.effort")],
    ),
    "to Claude with budgets": (
        *("gemini", _LEVELS, "anthropic", "claude-sonnet-4-20250514"),
        [("setting.effort.dropped", _LEVEL)],
    ),
    "to Claude with efforts": (
        *("gemini", _LEVELS, "anthropic", "claude-opus-4-7"),
        [("setting.budget.changed", "generationConfig.thinkingConfig.thinkingBudget")],
    ),
    "an effort without thinking": (
        *("anthropic", {**_THINKS, "thinking": {"type": "disabled"}}, "openai-chat", "m"),
        [("setting.effort.dropped", "output_config.effort")],
    ),
    "a level that nobody knows": (
        *(
            "gemini",
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "EXTREME"}}},
            "openai-chat",
            "m",
        ),
        [("setting.effort.dropped", _LEVEL)],
    ),
    "Chat's tool choice": (
        *("openai-chat", {"tool_choice": _NAMED}, "anthropic", "m"),
        [(UNKNOWN, "tool_choice.function.x"), (UNKNOWN, "tool_choice.y")],
    ),
    "allowed tools": (
        *("openai-responses", {"tool_choice": {"type": "allowed_tools", **_ALLOWED, "y": 2}}, "gemini", "m"),
        [
            (UNKNOWN, "tool_choice.tools[0].x"),
            (UNKNOWN, "tool_choice.y"),
            ("tool.choice.dropped", "tool_choice.tools[1]"),
        ],
    ),
}


@pytest.mark.parametrize("client, fields, upstream, model, lost", RARE.values(), ids=RARE)
def test_rare_fields(
    client: str, fields: Wire, upstream: str, model: str, lost: list[tuple[str, str]]
) -> None:
    request = Request("m", (Message("user", (Text("go"),)),), tools=(ToolDeclaration("f", "d", SCHEMA),))
    body = {**wire_of(client, request), **fields}
    exchange = dragoman.Exchange(client, upstream)
    exchange.request(body, model=model)
    kinds = ("setting.effort", "setting.budget", "field", "tool.choice")
    found = [(loss.code, loss.where) for loss in exchange.losses if loss.code.startswith(kinds)]
    assert sorted(found) == sorted(lost)
    assert misplaced(body, exchange.losses) == []


@every_pair
@few
@given(request=requests())
def test_losses_of_any_request(source: str, target: str, request: Request) -> None:
    assert misplaced_in_request(source, target, wire_of(source, request)) == []


@every_pair
def test_losses_of_known_replies(source: str, target: str) -> None:
    bad: list[str] = []
    for body in samples.replies(source):
        exchange = dragoman.Exchange(target, source)
        try:
            exchange.response(body)
        except DragomanError:  # the body of an error
            continue
        bad += misplaced(body, exchange.losses)
    assert bad == []
