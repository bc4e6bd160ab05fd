"""Settings, instructions and the rest of a Responses request, both ways."""

import copy
from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import Message, OutputFormat, Request, Settings, Text, ToolDeclaration, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.openai_responses import CODEC

SCHEMA = {"type": "object", "properties": {}}


def decode(**body: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    request = CODEC.decode_request({"model": "gpt-5", "input": "hi", **body}, losses)
    return request, [str(loss) for loss in losses]


def encode(model: str = "some-model", **settings: Any) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, (Message("user", (Text("hi"),)),), settings=Settings(**settings))
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    return body, [str(loss) for loss in losses]


SAME: dict[str, Wire] = {
    "nothing but input": {"model": "m", "input": "hi"},
    "no input": {"model": "m", "prompt": {"id": "pmpt_1"}},
    "nulls": {
        "model": "m",
        "input": None,
        "instructions": None,
        "tools": None,
        "tool_choice": None,
        "reasoning": None,
        "text": None,
        "metadata": None,
        "include": None,
        "stream": None,
        "store": None,
        "parallel_tool_calls": None,
        "max_output_tokens": None,
        "previous_response_id": None,
    },
    "falsehoods": {
        "model": "",
        "input": [],
        "instructions": "",
        "tools": [],
        "stream": False,
        "parallel_tool_calls": False,
        "store": False,
        "background": False,
        "include": [],
        "metadata": {},
        "temperature": 0,
        "reasoning": {},
        "text": {},
    },
    "everything": {
        "model": "m",
        "input": "hi",
        "instructions": "be brief",
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "max_output_tokens": 100,
        "temperature": 0.50,
        "top_p": 1,
        "top_logprobs": 3,
        "reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"},
        "text": {
            "verbosity": "low",
            "format": {
                "type": "json_schema",
                "name": "x",
                "schema": SCHEMA,
                "strict": None,
                "description": "d",
            },
        },
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs", "web_search_call.results"],
        "metadata": {"a": "b"},
        "user": "u",
        "safety_identifier": "s",
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "auto"},
        "client_metadata": {"id": "x"},
        "store": True,
        "parallel_tool_calls": True,
        "truncation": "auto",
        "background": True,
        "conversation": {"id": "conv_1"},
        "max_tool_calls": 3,
        "moderation": {},
        "something_new": [1],
    },
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_requests_return_unchanged(body: Wire):
    before = copy.deepcopy(body)
    assert CODEC.encode_request(CODEC.decode_request(body, Losses()), Losses()) == before
    assert body == before


DECODED: dict[str, tuple[Wire, Settings, list[str]]] = {
    "numbers": (
        {"max_output_tokens": 10, "temperature": 0.5, "top_p": 0.9, "top_logprobs": 2},
        Settings(max_tokens=10, temperature=0.5, top_p=0.9, top_logprobs=2),
        [],
    ),
    "reasoning": (
        {"reasoning": {"effort": "xhigh", "summary": "detailed"}},
        Settings(effort="xhigh", show_reasoning=True),
        [],
    ),
    "effort alone": ({"reasoning": {"effort": "low", "summary": None}}, Settings(effort="low"), []),
    "reasoning that only this protocol has": (
        {"reasoning": {"effort": "hyper", "context": "all_turns"}},
        Settings(),
        [
            "dropped reasoning.effort hyper: Only openai-responses has this effort.",
            "dropped reasoning.context: Only openai-responses has this field.",
        ],
    ),
    "a schema": (
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "n",
                    "schema": SCHEMA,
                    "strict": True,
                    "description": "d",
                }
            }
        },
        Settings(output=OutputFormat("schema", SCHEMA, "n", "d", True)),
        [],
    ),
    "JSON": ({"text": {"format": {"type": "json_object"}}}, Settings(output=OutputFormat("json")), []),
    "text": (
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
        Settings(output=OutputFormat("text"), verbosity="low"),
        [],
    ),
    "a format that only this protocol has": (
        {"text": {"format": {"type": "grammar"}}},
        Settings(),
        ["dropped text.format grammar: Only openai-responses has this format."],
    ),
    "who and what": (
        {
            "user": "u",
            "metadata": {"a": "b"},
            "service_tier": "flex",
            "prompt_cache_key": "k",
            "store": False,
        },
        Settings(user="u", metadata={"a": "b"}, service_tier="flex", cache_key="k", store=False),
        [],
    ),
    "the newer name of the user": ({"user": "u", "safety_identifier": "s"}, Settings(user="s"), []),
    "include": (
        {
            "include": [
                "reasoning.encrypted_content",
                "message.output_text.logprobs",
                "file_search_call.results",
            ]
        },
        Settings(logprobs=True),
        ["dropped include file_search_call.results: Only openai-responses has this item."],
    ),
    "bookkeeping is not reported": (
        {
            "stream": False,
            "stream_options": {},
            "client_metadata": {},
            "truncation": "disabled",
            "background": False,
        },
        Settings(),
        [],
    ),
    "G109 turns that only the server has": (
        {"previous_response_id": "resp_1"},
        Settings(),
        ["dropped previous_response_id: It stands for earlier turns, which are not in this request."],
    ),
    "a conversation": (
        {"conversation": "conv_1"},
        Settings(),
        ["dropped conversation: It stands for earlier turns, which are not in this request."],
    ),
    "the rest is reported": (
        {"truncation": "auto", "max_tool_calls": 2, "something_new": 0},
        Settings(),
        [
            "dropped truncation: Only openai-responses has this field.",
            "dropped max_tool_calls: Only openai-responses has this field.",
            "dropped something_new: Only openai-responses has this field.",
        ],
    ),
}


@pytest.mark.parametrize("body, settings, losses", DECODED.values(), ids=DECODED)
def test_settings_become_neutral(body: Wire, settings: Settings, losses: list[str]):
    request, reported = decode(**body)
    assert request.settings == settings
    assert reported == losses


def test_instructions_stream_and_parallel_calls():
    request, losses = decode(instructions="be brief", stream=True, parallel_tool_calls=False)
    assert request.system == (Text("be brief"),)
    assert request.stream
    assert request.parallel is False
    assert losses == []
    assert decode(parallel_tool_calls=None)[0].parallel is None  # G63


ENCODED: dict[str, tuple[str, dict[str, Any], Wire, list[str]]] = {
    "G113 storing is never left open": ("some-model", {}, {"store": False}, []),
    "storing on request": ("some-model", {"store": True}, {"store": True}, []),
    "numbers": (
        "some-model",
        {"max_tokens": 10, "temperature": 0.5, "top_p": 0.9, "top_logprobs": 2},
        {"max_output_tokens": 10, "temperature": 0.5, "top_p": 0.9, "top_logprobs": 2},
        [],
    ),
    "sampling of a model that does not reason by default": (
        "gpt-5.2",
        {"temperature": 0.5},
        {"temperature": 0.5},
        [],
    ),
    "sampling of a model that reasons": (
        "gpt-5.5",
        {"temperature": 0.5, "top_p": 0.9},
        {},
        [
            "dropped temperature: A model that reasons takes no sampling settings.",
            "dropped top_p: A model that reasons takes no sampling settings.",
        ],
    ),
    "its reasoning is off": (
        "gpt-5.2",
        {"temperature": 0.5, "effort": "none"},
        {"temperature": 0.5, "reasoning": {"effort": "none"}},
        [],
    ),
    "sampling of a chat model": ("gpt-5-chat-latest", {"temperature": 0.5}, {"temperature": 0.5}, []),
    "effort and a summary": (
        "gpt-5.2",
        {"effort": "high", "show_reasoning": True},
        {"reasoning": {"effort": "high", "summary": "auto"}},
        [],
    ),
    "a summary alone": ("some-model", {"show_reasoning": True}, {"reasoning": {"summary": "auto"}}, []),
    "G107 an effort that the model does not know": (
        "gpt-5",
        {"effort": "xhigh"},
        {"reasoning": {"effort": "high"}},
        ["changed effort: The model takes no effort xhigh. It gets high."],
    ),
    "G107 no effort for an older model": (
        "o3",
        {"effort": "none"},
        {"reasoning": {"effort": "low"}},
        ["changed effort: The model takes no effort none. It gets low."],
    ),
    "effort for a model that does not reason": (
        "gpt-4o",
        {"effort": "high", "show_reasoning": True},
        {},
        ["dropped effort: The model does not reason."],
    ),
    "a budget": (
        "some-model",
        {"budget": 8000},
        {"reasoning": {"effort": "medium"}},
        ["changed budget: openai-responses takes an effort and no budget. medium was sent."],
    ),
    "a budget of nothing": (
        "some-model",
        {"budget": 0, "effort": "none"},
        {"reasoning": {"effort": "none"}},
        [],
    ),
    "as the model likes": (
        "some-model",
        {"budget": -1, "show_reasoning": True},
        {"reasoning": {"summary": "auto"}},
        [],
    ),
    "a schema": (
        "some-model",
        {"output": OutputFormat("schema", SCHEMA, description="d")},
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "response",
                    "schema": SCHEMA,
                    "description": "d",
                    "strict": False,
                }
            }
        },
        [],
    ),
    "JSON and verbosity": (
        "some-model",
        {"output": OutputFormat("json"), "verbosity": "low"},
        {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
        [],
    ),
    "plain text": ("some-model", {"output": OutputFormat("text")}, {}, []),
    "who and what": (
        "some-model",
        {"user": "u", "metadata": {"a": "b"}, "service_tier": "standard", "cache_key": "k"},
        {
            "safety_identifier": "u",
            "metadata": {"a": "b"},
            "service_tier": "default",
            "prompt_cache_key": "k",
        },
        [],
    ),
    "a long user": (
        "some-model",
        {"user": "x" * 65},
        {"safety_identifier": "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
        ["changed user: It has more than 64 characters. Its hash was sent."],
    ),
    "metadata that is no text": (
        "some-model",
        {"metadata": {"a": 1}},
        {"metadata": {"a": "1"}},
        ["changed metadata: openai-responses takes texts only."],
    ),
    "a tier that it does not have": (
        "some-model",
        {"service_tier": "platinum"},
        {},
        ["dropped service_tier: openai-responses has no tier 'platinum'."],
    ),
    "logprobs": (
        "some-model",
        {"logprobs": True},
        {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        [],
    ),
    "what it cannot say": (
        "some-model",
        {"stop": ("x",), "seed": 1, "top_k": 5, "frequency_penalty": 0.1, "presence_penalty": 0.1, "n": 2},
        {},
        [
            "dropped top_k: openai-responses has no such setting.",
            "dropped frequency_penalty: openai-responses has no such setting.",
            "dropped presence_penalty: openai-responses has no such setting.",
            "dropped seed: openai-responses has no such setting.",
            "dropped stop: openai-responses has no such setting.",
            "dropped n: openai-responses gives one answer.",
        ],
    ),
    "one answer": ("some-model", {"n": 1}, {}, []),
}


@pytest.mark.parametrize("model, settings, expected, losses", ENCODED.values(), ids=ENCODED)
def test_neutral_settings_are_written(
    model: str, settings: dict[str, Any], expected: Wire, losses: list[str]
):
    body, reported = encode(model, **settings)
    written = {key: value for key, value in body.items() if key not in ("model", "input")}
    reasons = {} if model == "gpt-4o" or "chat" in model else {"include": ["reasoning.encrypted_content"]}
    assert written == {"store": False, **reasons, **expected}
    assert reported == losses


def test_g55_all_system_texts_are_instructions():
    request = Request("m", (Message("user", (Text("hi"),)),), (Text("a"), Text("b")), stream=True)
    body = CODEC.encode_request(request, Losses())
    assert body["instructions"] == "a\n\nb"
    assert body["stream"] is True


def test_the_parallel_switch_needs_tools():
    request = Request("m", (Message("user", (Text("hi"),)),), tools=(ToolDeclaration("f"),), parallel=False)
    assert CODEC.encode_request(request, Losses())["parallel_tool_calls"] is False


def test_routing_may_change_model_and_stream():
    from msgspec.structs import replace

    request, _ = decode(stream=False, temperature=1)
    body = CODEC.encode_request(replace(request, model="other", stream=True), Losses())
    assert body == {"model": "other", "input": "hi", "stream": True, "temperature": 1}
