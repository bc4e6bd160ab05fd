"""The official SDKs as referees of requests: whatever the client, the upstream's types take what we send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter, ValidationError

import dragoman
from dragoman.core import jsontext
from goldens.pieces import MODELS
from goldens.scenarios import SCENARIOS
from seeds.wires import PAIRS, Wire, rows

_chat: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
_responses: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsNonStreaming)
_anthropic: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)


def check(protocol: str, body: Wire) -> None:
    match protocol:
        case "openai-chat":
            exhaust(_chat.validate_python(body))
        case "openai-responses":
            exhaust(_responses.validate_python(body))
        case "anthropic":
            exhaust(_anthropic.validate_python(body))
        case _:
            _check_gemini(body)


def exhaust(value: Any) -> None:
    """Iterables of the SDKs' types are checked when they are read."""
    if isinstance(value, Mapping):
        for inner in value.values():
            exhaust(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            exhaust(inner)


def _check_gemini(body: Wire) -> None:
    """Its models forbid what they do not know."""
    known = {"contents", "tools", "toolConfig", "generationConfig", "systemInstruction"}
    assert body.keys() <= known
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    types.Content.model_validate(body.get("systemInstruction", {}))
    types.ToolConfig.model_validate(body.get("toolConfig", {}))
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))


SENT = [name for name, scenario in SCENARIOS.items() if scenario.requests]


@rows("client, upstream, scenario", PAIRS, SENT)
def test_the_sdk_of_the_upstream_takes_what_we_send(client: str, upstream: str, scenario: str) -> None:
    body = SCENARIOS[scenario].requests[client]
    out = dragoman.Exchange(client, upstream).request(body, model=MODELS[upstream], stream=False)
    check(upstream, json.loads(jsontext.encode(out)))


WRONG: dict[str, Wire] = {
    "openai-chat": {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
    "openai-responses": {"model": "m", "input": [{"type": "function_call", "name": "f", "arguments": {}}]},
    "anthropic": {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": [{"type": "text"}]}],
    },
    "gemini": {"contents": [{"parts": [{"functionCall": {"nombre": "f"}}]}]},
}


@pytest.mark.parametrize("protocol", WRONG)
def test_the_referees_see_what_is_wrong(protocol: str) -> None:
    with pytest.raises(ValidationError):
        check(protocol, WRONG[protocol])
