"""generationConfig and the settings beside it, both ways; and what models take by their names."""

from typing import Any

import pytest

from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import Message, OutputFormat, Request, Settings, Text, ToolDeclaration, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.gemini import CODEC

HELLO = {"role": "user", "parts": [{"text": "hello"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
UPPER = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}


def config(**values: Any) -> Wire:
    return {"generationConfig": values}


def decode(body: Wire) -> tuple[Settings, list[str]]:
    losses = Losses()
    return CODEC.decode_request({"contents": [HELLO], **body}, losses).settings, [
        str(loss) for loss in losses
    ]


def encode(
    settings: Settings, model: str = "gemini-3-flash", tools: tuple[ToolDeclaration, ...] = ()
) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, (Message("user", (Text("hello"),)),), tools=tools, settings=settings)
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    return {key: value for key, value in body.items() if key not in ("contents", "tools")}, [
        str(loss) for loss in losses
    ]


BOTH_WAYS = {
    "max tokens": (config(maxOutputTokens=100), Settings(max_tokens=100)),
    "temperature": (config(temperature=0), Settings(temperature=0)),
    "top_p": (config(topP=0.5), Settings(top_p=0.5)),
    "top_k": (config(topK=40), Settings(top_k=40)),
    "penalties": (
        config(frequencyPenalty=0.1, presencePenalty=-0.1),
        Settings(frequency_penalty=0.1, presence_penalty=-0.1),
    ),
    "seed": (config(seed=7), Settings(seed=7)),
    "stop": (config(stopSequences=["a", "b"]), Settings(stop=("a", "b"))),
    "n": (config(candidateCount=2), Settings(n=2)),
    "log probabilities": (config(responseLogprobs=True, logprobs=3), Settings(logprobs=True, top_logprobs=3)),
    "JSON": (config(responseMimeType="application/json"), Settings(output=OutputFormat("json"))),
    "schema": (
        config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        Settings(output=OutputFormat("schema", SCHEMA)),
    ),
    "level": (config(thinkingConfig={"thinkingLevel": "LOW"}), Settings(effort="low")),
    "thoughts": (config(thinkingConfig={"includeThoughts": True}), Settings(show_reasoning=True)),
    "labels": ({"labels": {"team": "a"}}, Settings(metadata={"team": "a"})),
    "tier": ({"serviceTier": "flex"}, Settings(service_tier="flex")),
    "usual tier": ({"serviceTier": "standard"}, Settings(service_tier="default")),
    "store": ({"store": True}, Settings(store=True)),
}


@pytest.mark.parametrize("body, settings", BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_both_ways(body: Wire, settings: Settings):
    assert decode(body) == (settings, [])
    assert encode(settings) == (body, [])


DECODED = {
    "schema in Gemini's own form": (
        config(responseMimeType="application/json", responseSchema=UPPER),
        Settings(output=OutputFormat("schema", SCHEMA)),
        [],
    ),
    "upper-case types in a JSON Schema": (
        config(responseMimeType="application/json", responseJsonSchema=UPPER),
        Settings(output=OutputFormat("schema", SCHEMA)),
        [],
    ),
    "schema without a type": (
        config(responseJsonSchema=SCHEMA),
        Settings(output=OutputFormat("schema", SCHEMA)),
        [],
    ),
    "text": (config(responseMimeType="text/plain"), Settings(output=OutputFormat("text")), []),
    "text with a schema": (
        config(responseMimeType="text/plain", responseSchema=UPPER),
        Settings(output=OutputFormat("text")),
        ["dropped generationConfig.responseSchema: Plain text has no schema."],
    ),
    "enum": (
        config(responseMimeType="text/x.enum", responseSchema={"type": "STRING", "enum": ["a"]}),
        Settings(),
        ["dropped generationConfig.responseMimeType: Only gemini can answer in text/x.enum."],
    ),
    "only text": (config(responseModalities=["TEXT"]), Settings(), []),
    "images": (
        config(responseModalities=["TEXT", "IMAGE"]),
        Settings(),
        ["dropped generationConfig.responseModalities: Only gemini has this field."],
    ),
    "budget": (config(thinkingConfig={"thinkingBudget": 1000}), Settings(budget=1000), []),
    "no thinking": (config(thinkingConfig={"thinkingBudget": 0}), Settings(budget=0, effort="none"), []),
    "thinking as the model likes": (config(thinkingConfig={"thinkingBudget": -1}), Settings(budget=-1), []),
    "lower-case level": (config(thinkingConfig={"thinking_level": "high"}), Settings(effort="high"), []),
    "no level": (config(thinkingConfig={"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}), Settings(), []),
    "snake_case": (
        {"generation_config": {"max_output_tokens": 5, "thinking_config": {"include_thoughts": False}}},
        Settings(max_tokens=5, show_reasoning=False),
        [],
    ),
    "whole number with a point": (config(maxOutputTokens=5.0), Settings(max_tokens=5), []),
    "unspecified tier": ({"serviceTier": "unspecified"}, Settings(service_tier="auto"), []),
    "what only Gemini understands": (
        {"safetySettings": [], "cachedContent": "x", **config(speechConfig={}, thinkingConfig={"new": 1})},
        Settings(),
        [
            "dropped generationConfig.thinkingConfig.new: Only gemini has this field.",
            "dropped generationConfig.speechConfig: Only gemini has this field.",
            "dropped safetySettings: Only gemini has this field.",
            "dropped cachedContent: Only gemini has this field.",
        ],
    ),
}


@pytest.mark.parametrize("body, settings, losses", DECODED.values(), ids=DECODED)
def test_decoded(body: Wire, settings: Settings, losses: list[str]):
    assert decode(body) == (settings, losses)


ENCODED = {
    "nothing": (Settings(), {}, []),
    "too many stop sequences": (
        Settings(stop=tuple("abcdef")),
        config(stopSequences=list("abcde")),
        ["dropped stop: Gemini takes at most 5 stop sequences."],
    ),
    "text": (Settings(output=OutputFormat("text")), {}, []),
    "described schema": (
        Settings(output=OutputFormat("schema", SCHEMA, "n", "what it is", True)),
        config(
            responseMimeType="application/json",
            responseJsonSchema={"title": "n", "description": "what it is", **SCHEMA},
        ),
        [],
    ),
    "settings that Gemini has not": (
        Settings(verbosity="low", user="u", cache_key="k"),
        {},
        [
            "dropped verbosity: Gemini has no such setting.",
            "dropped user: Gemini has no such setting.",
            "dropped cache_key: Gemini has no such setting.",
        ],
    ),
    "labels are strings": (
        Settings(metadata={"a": "x", "b": 1}),
        {"labels": {"a": "x"}},
        ["dropped metadata.b: Gemini's labels are strings."],
    ),
    "no store": (Settings(store=False), {}, []),
    "automatic tier": (Settings(service_tier="auto"), {}, []),
    "Anthropic's standard tier": (Settings(service_tier="standard_only"), {"serviceTier": "standard"}, []),
    "unknown tier": (
        Settings(service_tier="scale"),
        {},
        ["dropped service_tier: Gemini has no tier 'scale'."],
    ),
    "thoughts are not asked for": (Settings(show_reasoning=False), {}, []),
}


@pytest.mark.parametrize("settings, body, losses", ENCODED.values(), ids=ENCODED)
def test_encoded(settings: Settings, body: Wire, losses: list[str]):
    assert encode(settings) == (body, losses)


# G107: thinking in words or in tokens

NEAREST = "changed effort: The model takes no effort {}. It gets {}."
THINKING = {
    "level": ("gemini-3-flash", Settings(effort="medium"), {"thinkingLevel": "MEDIUM"}, []),
    "unknown names are current": ("some-model", Settings(effort="high"), {"thinkingLevel": "HIGH"}, []),
    "highest": (
        "gemini-3-flash",
        Settings(effort="max"),
        {"thinkingLevel": "HIGH"},
        [NEAREST.format("max", "HIGH")],
    ),
    "none": (
        "gemini-3-flash",
        Settings(effort="none"),
        {"thinkingLevel": "MINIMAL"},
        [NEAREST.format("none", "MINIMAL")],
    ),
    "minimal": ("gemini-3-flash", Settings(effort="minimal"), {"thinkingLevel": "MINIMAL"}, []),
    "Pro always thinks": (
        "gemini-3-pro",
        Settings(effort="none"),
        {"thinkingLevel": "LOW"},
        [NEAREST.format("none", "LOW")],
    ),
    "Pro thinks more than minimally": (
        "gemini-3.1-pro-preview",
        Settings(effort="minimal"),
        {"thinkingLevel": "LOW"},
        [NEAREST.format("minimal", "LOW")],
    ),
    "budget for a model that takes levels": (
        "gemini-3-flash",
        Settings(budget=8000),
        {"thinkingLevel": "MEDIUM"},
        ["changed budget: The model takes a level and no budget. It gets medium for 8000 tokens."],
    ),
    "as the model likes": ("gemini-3-flash", Settings(budget=-1), None, []),
    "shown": (
        "gemini-3-flash",
        Settings(effort="low", budget=-1, show_reasoning=True),
        {"thinkingLevel": "LOW", "includeThoughts": True},
        [],
    ),
    "budget": ("gemini-2.5-flash", Settings(budget=1000), {"thinkingBudget": 1000}, []),
    "dynamic budget": ("gemini-2.5-flash", Settings(budget=-1), {"thinkingBudget": -1}, []),
    "effort as budget": ("gemini-2.5-flash", Settings(effort="low", budget=-1), {"thinkingBudget": 2048}, []),
    "off": ("gemini-2.5-flash", Settings(effort="none"), {"thinkingBudget": 0}, []),
    "Pro is never off": (
        "gemini-2.5-pro",
        Settings(effort="none"),
        {"thinkingBudget": 128},
        ["changed budget: The model takes 128 to 32768 tokens of thinking, not 0."],
    ),
    "too much": (
        "gemini-2.5-flash",
        Settings(budget=100_000),
        {"thinkingBudget": 24_576},
        ["changed budget: The model takes 0 to 24576 tokens of thinking, not 100000."],
    ),
    "a model that does not think": (
        "gemini-2.0-flash",
        Settings(effort="high"),
        None,
        ["dropped effort: The model does not think."],
    ),
    "and need not": ("gemini-1.5-pro", Settings(effort="none", show_reasoning=True), None, []),
}


@pytest.mark.parametrize("model, settings, thinking, losses", THINKING.values(), ids=THINKING)
def test_thinking(model: str, settings: Settings, thinking: Wire | None, losses: list[str]):
    body, lost = encode(settings, model)
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking
    assert lost == losses


def test_output_format_beside_functions():
    settings, tools = Settings(output=OutputFormat("schema", SCHEMA)), (ToolDeclaration("f"),)
    body, losses = encode(settings, "gemini-2.5-pro", tools)
    assert (body, losses) == ({}, ["dropped output: The model takes no output format beside functions."])
    body, losses = encode(settings, "gemini-3-pro", tools)
    assert body["generationConfig"]["responseJsonSchema"] == SCHEMA
    assert losses == []


MALFORMED = {
    "temperature": (
        config(temperature="hot"),
        "generationConfig.temperature",
        "expected a number, got the string 'hot'",
    ),
    "max tokens": (
        config(maxOutputTokens=1.5),
        "generationConfig.maxOutputTokens",
        "expected a whole number, got the number 1.5",
    ),
    "stop": (
        config(stopSequences="a"),
        "generationConfig.stopSequences",
        "expected an array, got the string 'a'",
    ),
    "thinking": (
        config(thinkingConfig=1),
        "generationConfig.thinkingConfig",
        "expected an object, got the number 1",
    ),
    "budget": (
        config(thinkingConfig={"thinkingBudget": "x"}),
        "generationConfig.thinkingConfig.thinkingBudget",
        "expected a number, got the string 'x'",
    ),
    "schema": (
        config(responseSchema=1),
        "generationConfig.responseSchema",
        "expected an object, got the number 1",
    ),
    "labels": ({"labels": []}, "labels", "expected an object, got an array"),
    "tier": ({"serviceTier": 1}, "serviceTier", "expected a string, got the number 1"),
}


@pytest.mark.parametrize("body, path, problem", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: Wire, path: str, problem: str):
    with pytest.raises(WireError) as error:
        decode(body)
    assert (error.value.path, error.value.problem) == (path, problem)
