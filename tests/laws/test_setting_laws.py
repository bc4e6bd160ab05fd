"""Each setting, to each upstream and model: it is written, or its loss is reported."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Message, OutputFormat, Request, Settings, Text, ToolDeclaration
from dragoman.profiles import profile_of
from dragoman.protocols import upstream, upstream_names
from dragoman.transforms.restrictions import restrict

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
VALUES: dict[str, list[Any]] = {
    "max_tokens": [1234],
    "temperature": [0.25],
    "top_p": [0.75],
    "top_k": [7],
    "frequency_penalty": [0.5],
    "presence_penalty": [0.5],
    "seed": [99],
    "stop": [("END",), tuple(f"S{n}" for n in range(9))],
    "n": [2],
    "output": [OutputFormat("json"), OutputFormat("schema", SCHEMA, "reply")],
    "effort": ["none", "minimal", "low", "medium", "high", "xhigh", "max"],
    "budget": [0, 2048],
    "show_reasoning": [True],
    "verbosity": ["low"],
    "user": ["somebody"],
    "metadata": [{"k": "v"}],
    "service_tier": ["flex"],
    "logprobs": [True],
    "top_logprobs": [3],
    "store": [True],
    "cache_key": ["k"],
}
MODELS = {
    "some-model": "", "gpt-4o": "", "gpt-5.2": "", "gpt-5.5": "", "o3": "",
    "claude-opus-4-6": "", "claude-opus-5": "", "claude-3-5-haiku-latest": "",
    "gemini-3-pro": "", "gemini-2.5-flash": "", "gemini-2.0-flash": "",
    "openai/gpt-oss-120b": "groq", "gpt-oss-120b": "cerebras", "mistral-large": "mistral",
    "kimi-k2": "moonshot", "grok-4": "xai",
}  # fmt: skip
BARE = Request("some-model", (Message("user", (Text("go"),)),), tools=(ToolDeclaration("f", "d", SCHEMA),))
CASES = [(name, value) for name, values in VALUES.items() for value in values]


def test_every_setting_has_values_here() -> None:
    assert set(VALUES) == set(Settings.__struct_fields__) - {"extras", "where"}


def says_nothing(name: str, value: Any, model: str) -> bool:
    """What is already so: no thinking by a model that has none; reasoning that servers show by default."""
    profile = profile_of(model)
    thinkless = profile.efforts == () or profile.tools_without_reasoning
    return (name in ("effort", "budget") and value in ("none", 0) and thinkless) or name == "show_reasoning"


def written(name: str, request: Request) -> tuple[bytes, Losses]:
    losses, profile = Losses(), profile_of(request.model, MODELS[request.model], name)
    request = restrict(request, profile, losses)
    return jsontext.encode(upstream(name).encode_request(request, losses, profile)), losses


@pytest.mark.parametrize("target", upstream_names())
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name, value", CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_a_setting_is_written_or_reported(target: str, model: str, name: str, value: Any) -> None:
    if says_nothing(name, value, model):
        return
    more: dict[str, Any] = {"logprobs": True} if name == "top_logprobs" else {}
    bare = replace(BARE, model=model, settings=Settings(**more))
    body, _ = written(target, bare)
    full, losses = written(target, replace(bare, settings=Settings(**more, **{name: value})))
    assert full != body or any(loss.where == name for loss in losses)
