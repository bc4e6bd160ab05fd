"""Settings for Converse, from clients of other protocols: by model, because Claude's are its own."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core.model_profile import ModelProfile

SONNET = "anthropic.claude-sonnet-4-5-v1:0"  # a budget, no effort
OPUS = "anthropic.claude-opus-4-8-v1:0"  # an effort, and thinks as it likes
NOVA = "us.amazon.nova-pro-v1:0"
ASKED = [{"role": "user", "content": "hi"}]
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
Case = tuple[str, dict[str, Any], dict[str, Any], list[str]]


def thinks(budget: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


# model, fields of a Chat client -> what stands beside messages and tools, codes of the losses
CHAT: dict[str, Case] = {
    "an effort is a budget": (
        SONNET,
        {"reasoning_effort": "low", "max_tokens": 9000},
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(2048)},
        [],
    ),
    "an effort is an effort": (
        OPUS,
        {"reasoning_effort": "high"},
        {
            "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
            "outputConfig": {"effort": "high"},
        },
        [],
    ),
    "no thinking": (
        SONNET,
        {"reasoning_effort": "none"},
        {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
        [],
    ),
    "no room for thinking": (
        SONNET,
        {"reasoning_effort": "low", "max_tokens": 1000},
        {"inferenceConfig": {"maxTokens": 1000}},
        ["setting.effort.dropped"],
    ),
    "a forced tool excludes thinking": (
        SONNET,
        {
            "reasoning_effort": "low",
            "max_tokens": 9000,
            "tools": [FUNCTION],
            "tool_choice": "required",
        },
        {"inferenceConfig": {"maxTokens": 9000}},
        ["setting.effort.dropped"],
    ),
    "thinking excludes a temperature": (
        SONNET,
        {"reasoning_effort": "low", "max_tokens": 9000, "temperature": 0.5},
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(2048)},
        ["setting.temperature.dropped"],
    ),
    "temperature or top_p": (
        SONNET,
        {"temperature": 0.5, "top_p": 0.9},
        {"inferenceConfig": {"temperature": 0.5}},
        ["setting.top_p.dropped"],
    ),
    "a model that takes neither": (
        OPUS,
        {"temperature": 0.5},
        {},
        ["setting.temperature.dropped"],
    ),
    "Claude takes at most 1": (
        SONNET,
        {"temperature": 1.5},
        {"inferenceConfig": {"temperature": 1}},
        ["setting.temperature.changed"],
    ),
    "another model takes both": (
        NOVA,
        {"temperature": 1.5, "top_p": 0.9},
        {"inferenceConfig": {"temperature": 1.5, "topP": 0.9}},
        [],
    ),
    "an effort of another model": (
        NOVA,
        {"reasoning_effort": "minimal"},
        {"outputConfig": {"effort": "low"}},
        [],
    ),
    "another model thinks anyway": (
        NOVA,
        {"reasoning_effort": "none"},
        {},
        ["setting.effort.dropped"],
    ),
    "what Bedrock does not have": (
        NOVA,
        {"seed": 1, "frequency_penalty": 0.5, "presence_penalty": 0.5, "logprobs": True, "user": "u", "n": 2},
        {},
        [
            "setting.frequency_penalty.dropped",
            "setting.presence_penalty.dropped",
            "setting.seed.dropped",
            "setting.user.dropped",
            "setting.logprobs.dropped",
            "setting.n.dropped",
        ],
    ),
    "a tier": (NOVA, {"service_tier": "priority"}, {"serviceTier": {"type": "priority"}}, []),
    "the usual tier": (NOVA, {"service_tier": "auto"}, {}, []),
    "labels are text": (NOVA, {"metadata": {"a": "b"}}, {"requestMetadata": {"a": "b"}}, []),
    "blank stop sequences": (
        NOVA,
        {"stop": ["END", "\n"]},
        {"inferenceConfig": {"stopSequences": ["END"]}},
        ["setting.stop.dropped"],
    ),
    "JSON without a schema": (
        NOVA,
        {"response_format": {"type": "json_object"}},
        {
            "system": [
                {"text": "Respond with one valid JSON object and nothing else: no prose, no code fence."}
            ]
        },
        ["setting.output.changed"],
    ),
    "a schema with a name": (
        NOVA,
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "mood", "description": "How it is.", "schema": {"type": "object"}},
            }
        },
        {
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {
                        "jsonSchema": {
                            "schema": '{"type":"object"}',
                            "name": "mood",
                            "description": "How it is.",
                        }
                    },
                }
            }
        },
        [],
    ),
    "plain text is what it gives": (NOVA, {"response_format": {"type": "text"}}, {}, []),
}
# The same of an Anthropic client, which says budgets
CLAUDE: dict[str, Case] = {
    "a budget of a model without": (
        OPUS,
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {
            "inferenceConfig": {"maxTokens": 9000},
            "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
            "outputConfig": {"effort": "low"},
        },
        ["setting.budget.changed"],
    ),
    "a budget and an effort, of which one is taken": (
        SONNET,
        {
            "max_tokens": 9000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "output_config": {"effort": "high"},
        },
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(2000)},
        ["setting.effort.dropped"],
    ),
    "a small budget": (
        SONNET,
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 100}},
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(1024)},
        ["setting.budget.changed"],
    ),
    "a budget above the limit": (
        SONNET,
        {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 5000}},
        {"inferenceConfig": {"maxTokens": 2000}, "additionalModelRequestFields": thinks(1600)},
        ["setting.budget.changed"],
    ),
    "thinking as it likes, of a model with budgets": (
        SONNET,
        {"max_tokens": 9000, "thinking": {"type": "adaptive"}},
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(7200)},
        [],
    ),
    "thinking excludes top_k": (
        SONNET,
        {"max_tokens": 9000, "top_k": 5, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"inferenceConfig": {"maxTokens": 9000}, "additionalModelRequestFields": thinks(2000)},
        ["setting.top_k.dropped"],
    ),
    "a budget for another model": (
        NOVA,
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"inferenceConfig": {"maxTokens": 9000}, "outputConfig": {"effort": "low"}},
        ["setting.budget.changed"],
    ),
    "a budget beside an effort, for another model": (
        NOVA,
        {
            "max_tokens": 9000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "output_config": {"effort": "high"},
        },
        {"inferenceConfig": {"maxTokens": 9000}, "outputConfig": {"effort": "high"}},
        ["setting.budget.dropped"],
    ),
    "as it likes, for another model": (
        NOVA,
        {"max_tokens": 9000, "thinking": {"type": "adaptive"}},
        {"inferenceConfig": {"maxTokens": 9000}},
        ["setting.budget.changed"],
    ),
    "top_k of another model": (
        NOVA,
        {"max_tokens": 9, "top_k": 5},
        {"inferenceConfig": {"maxTokens": 9}},
        ["setting.top_k.dropped"],
    ),
}


def settings(
    client: str, case: Case, profile: ModelProfile | None = None
) -> tuple[dict[str, Any], list[str]]:
    model, fields, _, _ = case
    exchange = Exchange(client, "bedrock-converse", profile=profile)
    wire = exchange.request({"model": "m", "messages": ASKED, **fields}, model=model)
    beside = {name: value for name, value in wire.items() if name not in ("messages", "toolConfig")}
    return beside, [loss.code for loss in exchange.losses]


@pytest.mark.parametrize("name", CHAT)
def test_settings_of_a_chat_client(name: str) -> None:
    assert settings("openai-chat", CHAT[name]) == (CHAT[name][2], CHAT[name][3])


@pytest.mark.parametrize("name", CLAUDE)
def test_settings_of_an_anthropic_client(name: str) -> None:
    assert settings("anthropic", CLAUDE[name]) == (CLAUDE[name][2], CLAUDE[name][3])


def test_an_effort_that_the_model_lacks() -> None:
    case = (OPUS, {"reasoning_effort": "xhigh"}, {}, [])
    beside, codes = settings("openai-chat", case, ModelProfile(efforts=("low", "high")))
    assert (beside["outputConfig"], codes) == ({"effort": "high"}, ["setting.effort.changed"])


def test_thinking_in_the_middle_of_a_turn() -> None:
    """Claude refuses it where the turn that goes on does not begin with thinking."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [*ASKED, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}]
    messages[-1]["content"] = "18 C"
    fields = {"messages": messages, "tools": [FUNCTION], "reasoning_effort": "low", "max_tokens": 9000}
    beside, codes = settings("openai-chat", (SONNET, fields, {}, []))
    assert (beside, codes) == ({"inferenceConfig": {"maxTokens": 9000}}, ["setting.effort.dropped"])
