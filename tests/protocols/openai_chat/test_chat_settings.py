"""Chat settings: what each field means, what it becomes for which model, what is lost and said so."""

import copy
from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import Message, OutputFormat, Request, Settings, Text, ToolDeclaration, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.openai_chat import CODEC

HELLO = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ASKED = (Message("user", (Text("hi"),)),)


def decode(wire: Wire) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request({"model": "m", "messages": HELLO, **wire}, losses), [
        str(loss) for loss in losses
    ]


def encode(
    settings: Settings, model: str = "m", tools: tuple[ToolDeclaration, ...] = ()
) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, ASKED, tools=tools, settings=settings)
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    for key in ("model", "messages", "tools"):
        body.pop(key, None)
    return body, [str(loss) for loss in losses]


READ: dict[str, tuple[Wire, Settings, list[str]]] = {
    "max_completion_tokens": ({"max_completion_tokens": 9}, Settings(max_tokens=9), []),
    "max_tokens": ({"max_tokens": 9}, Settings(max_tokens=9), []),
    "both": ({"max_tokens": 9, "max_completion_tokens": 8}, Settings(max_tokens=8), []),
    "a whole number as a float": ({"max_tokens": 9.0}, Settings(max_tokens=9), []),
    "sampling": (
        {"temperature": 0.5, "top_p": 1, "frequency_penalty": 0.1, "presence_penalty": -1, "seed": 7},
        Settings(temperature=0.5, top_p=1, frequency_penalty=0.1, presence_penalty=-1, seed=7),
        [],
    ),
    "nulls": ({"temperature": None, "stop": None, "n": None, "parallel_tool_calls": None}, Settings(), []),
    "top_k of compatible servers": ({"top_k": 5}, Settings(top_k=5), []),
    "stop string": ({"stop": "END"}, Settings(stop=("END",)), []),
    "stop list": ({"stop": ["a", "b"]}, Settings(stop=("a", "b")), []),
    "n": ({"n": 2}, Settings(n=2), []),
    "effort": ({"reasoning_effort": "xhigh"}, Settings(effort="xhigh"), []),
    "an effort that nobody knows": (
        {"reasoning_effort": "default"},
        Settings(),
        ["dropped reasoning_effort: No other protocol has the effort 'default'."],
    ),
    "reasoning of OpenRouter": (
        {"reasoning": {"effort": "high", "max_tokens": 2000, "exclude": True}},
        Settings(effort="high", budget=2000, show_reasoning=False),
        [],
    ),
    "reasoning switched off": ({"reasoning": {"enabled": False}}, Settings(effort="none"), []),
    "user": ({"user": "u"}, Settings(user="u"), []),
    "safety_identifier": ({"safety_identifier": "s", "user": "s"}, Settings(user="s"), []),
    "d12 user beside safety_identifier": (
        {"safety_identifier": "s", "user": "u"},
        Settings(user="s"),
        ["dropped user: safety_identifier was sent as the user. 'u' was left out."],
    ),
    "d10 reasoning enabled": ({"reasoning": {"enabled": True}}, Settings(effort="medium"), []),
    "reasoning enabled with a budget": (
        {"reasoning": {"enabled": True, "max_tokens": 9}},
        Settings(budget=9),
        [],
    ),
    "bookkeeping": (
        {
            "metadata": {"a": "b"},
            "service_tier": "flex",
            "store": True,
            "prompt_cache_key": "k",
            "verbosity": "low",
        },
        Settings(metadata={"a": "b"}, service_tier="flex", store=True, cache_key="k", verbosity="low"),
        [],
    ),
    "logprobs": ({"logprobs": True, "top_logprobs": 3}, Settings(logprobs=True, top_logprobs=3), []),
    "text": ({"response_format": {"type": "text"}}, Settings(output=OutputFormat("text")), []),
    "json": ({"response_format": {"type": "json_object"}}, Settings(output=OutputFormat("json")), []),
    "json schema": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": SCHEMA, "strict": True},
            }
        },
        Settings(output=OutputFormat("schema", SCHEMA, "n", "d", True)),
        [],
    ),
    "another format": (
        {"response_format": {"type": "grammar", "grammar": "x"}},
        Settings(),
        ["dropped response_format: Only openai-chat understands a format of type grammar."],
    ),
    "what only Chat has": (
        {"logit_bias": {"50256": -100}, "modalities": ["text", "audio"], "prediction": {"type": "content"}},
        Settings(),
        [
            "dropped logit_bias: Only openai-chat has this field.",
            "dropped modalities: Only openai-chat has this field.",
            "dropped prediction: Only openai-chat has this field.",
        ],
    ),
    "stream options mean nothing elsewhere": ({"stream_options": {"include_usage": True}}, Settings(), []),
}


@pytest.mark.parametrize("row", READ.values(), ids=READ)
def test_what_a_setting_means(row: tuple[Wire, Settings, list[str]]) -> None:
    wire, settings, lost = row
    request, losses = decode(copy.deepcopy(wire))
    assert request.settings == settings
    assert losses == lost


@pytest.mark.parametrize("wire", [row[0] for row in READ.values()], ids=READ)
def test_settings_go_back_unchanged(wire: Wire) -> None:
    body = {"model": "m", "messages": HELLO, **copy.deepcopy(wire)}
    assert CODEC.encode_request(CODEC.decode_request(copy.deepcopy(body), Losses()), Losses()) == body


BODIES: dict[str, Wire] = {
    "stream false": {"stream": False},
    "stream true without usage": {"stream": True},
    "empty lists": {"tools": [], "functions": []},
    "without a model": {"model": None},
    "unknown": {"x": {"y": [1, 1.10, None]}},
}


@pytest.mark.parametrize("more", BODIES.values(), ids=BODIES)
def test_a_body_goes_back_unchanged(more: Wire) -> None:
    body = {"messages": HELLO, **more}
    assert CODEC.encode_request(CODEC.decode_request(copy.deepcopy(body), Losses()), Losses()) == body


def test_an_override_of_stream_wins_over_the_body() -> None:
    from msgspec.structs import replace

    request, _ = decode({"stream": False})
    assert CODEC.encode_request(replace(request, stream=True), Losses())["stream"] is True
    request, _ = decode({"stream": True})
    assert "stream" not in CODEC.encode_request(replace(request, stream=False), Losses())


def test_usage_is_always_asked_of_an_upstream_that_streams() -> None:
    body = CODEC.encode_request(Request("m", ASKED, stream=True), Losses())
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in CODEC.encode_request(Request("m", ASKED), Losses())


WEATHER = ToolDeclaration("weather", "", {"type": "object", "properties": {}})
WRITTEN: dict[str, tuple[Settings, str, Wire, list[str]]] = {
    "max tokens at OpenAI": (Settings(max_tokens=9), "gpt-4o", {"max_completion_tokens": 9}, []),
    "max tokens at OpenAI, o-series": (Settings(max_tokens=9), "o3-mini", {"max_completion_tokens": 9}, []),
    "max tokens elsewhere": (Settings(max_tokens=9), "llama-3.3-70b", {"max_tokens": 9}, []),
    "max tokens of open weights": (Settings(max_tokens=9), "gpt-oss-120b", {"max_tokens": 9}, []),
    "sampling": (
        Settings(temperature=0.5, top_p=0.9, frequency_penalty=1, presence_penalty=1, seed=3, stop=("a",)),
        "gpt-4o",
        {
            "temperature": 0.5,
            "top_p": 0.9,
            "frequency_penalty": 1,
            "presence_penalty": 1,
            "seed": 3,
            "stop": ["a"],
        },
        [],
    ),
    "five stops": (
        Settings(stop=("a", "b", "c", "d", "e")),
        "m",
        {"stop": ["a", "b", "c", "d"]},
        ["changed stop: Chat takes at most four."],
    ),
    "sampling while a model reasons": (
        Settings(temperature=0.5, top_p=1, stop=("a",), logprobs=True),
        "o3",
        {},
        [
            "dropped temperature: The model refuses it while it reasons.",
            "dropped logprobs: The model refuses it while it reasons.",
            "dropped stop: The model refuses it while it reasons.",
        ],
    ),
    "sampling while a model does not reason": (
        Settings(temperature=0.5, effort="none"),
        "gpt-5.2",
        {"reasoning_effort": "none", "temperature": 0.5},
        [],
    ),
    "sampling at a chat variant": (Settings(temperature=0.5), "gpt-5-chat-latest", {"temperature": 0.5}, []),
    "top_k": (Settings(top_k=5), "m", {}, ["dropped top_k: Chat has no such setting."]),
    "n": (Settings(n=2), "m", {"n": 2}, []),
    "n of one": (Settings(n=1), "m", {}, []),
    "user": (Settings(user="u"), "gpt-5", {"user": "u"}, []),
    "metadata, store": (
        Settings(metadata={"a": "b"}, store=True),
        "m",
        {"metadata": {"a": "b"}, "store": True},
        [],
    ),
    "store false is what Chat does anyway": (Settings(store=False), "m", {}, []),
    "tier": (Settings(service_tier="flex"), "m", {"service_tier": "flex"}, []),
    "tier of Anthropic": (Settings(service_tier="standard_only"), "m", {"service_tier": "default"}, []),
    "tier of nobody": (
        Settings(service_tier="warp"),
        "m",
        {},
        ["dropped service_tier: Chat has no tier 'warp'."],
    ),
    "cache key": (Settings(cache_key="k"), "m", {"prompt_cache_key": "k"}, []),
    "verbosity": (Settings(verbosity="low"), "gpt-5.1", {"verbosity": "low"}, []),
    "verbosity elsewhere": (
        Settings(verbosity="low"),
        "llama",
        {},
        ["dropped verbosity: This model has no such setting."],
    ),
    "logprobs": (Settings(logprobs=True, top_logprobs=2), "m", {"logprobs": True, "top_logprobs": 2}, []),
    "hidden reasoning": (
        Settings(show_reasoning=False),
        "m",
        {},
        ["dropped show_reasoning: Chat cannot hide reasoning."],
    ),
    "shown reasoning": (Settings(show_reasoning=True), "m", {}, []),
    "text": (Settings(output=OutputFormat("text")), "m", {}, []),
    "json": (Settings(output=OutputFormat("json")), "m", {"response_format": {"type": "json_object"}}, []),
    "json schema without a name": (
        Settings(output=OutputFormat("schema", SCHEMA)),
        "m",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}}},
        ["invented output: Chat needs a name for the schema. It got response."],
    ),
    "json schema": (
        Settings(output=OutputFormat("schema", SCHEMA, "n", "d", False)),
        "m",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": SCHEMA, "strict": False},
            }
        },
        [],
    ),
    "effort": (Settings(effort="high"), "gpt-5.2", {"reasoning_effort": "high"}, []),
    "effort of an unknown model": (Settings(effort="max"), "m", {"reasoning_effort": "max"}, []),
    "G107 effort from a budget": (
        Settings(budget=9000),
        "m",
        {"reasoning_effort": "medium"},
        ["changed budget: Chat takes an effort and no budget. medium was sent."],
    ),
    "d12 reasoning cannot be shown": (
        Settings(show_reasoning=True),
        "gpt-5",
        {},
        ["dropped show_reasoning: Chat shows no summary of reasoning."],
    ),
    "reasoning is shown anyway": (Settings(show_reasoning=True), "deepseek-reasoner", {}, []),
    "B1 a long user": (
        Settings(user="u" * 65),
        "m",
        {"user": "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"},
        ["changed user: It has more than 64 characters. Its hash was sent."],
    ),
    "B11 top_logprobs alone": (
        Settings(top_logprobs=3),
        "gpt-4o",
        {"top_logprobs": 3, "logprobs": True},
        [],
    ),
    "B11 no top_logprobs": (Settings(top_logprobs=0), "gpt-4o", {}, []),
    "G107 budget of zero": (Settings(budget=0), "m", {"reasoning_effort": "none"}, []),
    "G107 budget as the model likes": (Settings(budget=-1), "m", {}, []),
    "G107 effort clamped down": (
        Settings(effort="max"),
        "o3",
        {"reasoning_effort": "high"},
        ["changed effort: The model takes no effort max. It gets high."],
    ),
    "G107 effort clamped up": (
        Settings(effort="none"),
        "gpt-5",
        {"reasoning_effort": "minimal"},
        ["changed effort: The model takes no effort none. It gets minimal."],
    ),
    "G107 effort of a model that does not reason": (
        Settings(effort="high"),
        "gpt-4o",
        {},
        ["dropped effort: This model has no such setting."],
    ),
    "G107 budget of a model that does not reason": (
        Settings(budget=9000),
        "gpt-4o",
        {},
        ["dropped budget: This model has no such setting."],
    ),
    "no effort of a model that does not reason": (Settings(effort="none"), "gpt-4o", {}, []),
}


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN)
def test_how_a_setting_is_written(row: tuple[Settings, str, Wire, list[str]]) -> None:
    settings, model, wire, lost = row
    assert encode(settings, model) == (wire, lost)


NONE = {"reasoning_effort": "none"}
WITH_TOOLS: dict[str, tuple[str, Settings, Wire, list[str]]] = {
    "before 5.4": ("gpt-5.2", Settings(effort="high"), {"reasoning_effort": "high"}, []),
    "5.4 with an effort": (
        "gpt-5.4",
        Settings(effort="high"),
        NONE,
        ["changed effort: On Chat gpt-5.4 takes tools only with effort none."],
    ),
    "5.4 without": ("gpt-5.4", Settings(), {}, []),
    "5.5 without": (
        "gpt-5.5-mini",
        Settings(),
        NONE,
        ["changed effort: On Chat gpt-5.5-mini takes tools only with effort none."],
    ),
    "5.6 with none": ("gpt-5.6", Settings(effort="none"), NONE, []),
    "a later family": (
        "gpt-6",
        Settings(effort="low"),
        NONE,
        ["changed effort: On Chat gpt-6 takes tools only with effort none."],
    ),
    "another's model": ("glm-5.5", Settings(effort="low"), {"reasoning_effort": "low"}, []),
}


@pytest.mark.parametrize("row", WITH_TOOLS.values(), ids=WITH_TOOLS)
def test_effort_beside_tools(row: tuple[str, Settings, Wire, list[str]]) -> None:
    model, settings, wire, lost = row
    assert encode(settings, model, (WEATHER,)) == (wire, lost)


def test_every_neutral_setting_is_written_or_reported() -> None:
    """A field that is added to Settings must be thought of here."""
    values: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.3,
        "top_p": 0.3,
        "top_k": 3,
        "frequency_penalty": 0.3,
        "presence_penalty": 0.3,
        "seed": 3,
        "stop": ("x",),
        "n": 3,
        "output": OutputFormat("json"),
        "effort": "low",
        "budget": 5,
        "show_reasoning": False,
        "verbosity": "low",
        "user": "x",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "logprobs": True,
        "top_logprobs": 3,
        "store": True,
        "cache_key": "x",
    }
    assert set(values) == set(Settings.__struct_fields__) - {"extras", "where"}
    for name, value in values.items():
        body, losses = encode(Settings(**{name: value}), "m")
        assert body or losses, name
