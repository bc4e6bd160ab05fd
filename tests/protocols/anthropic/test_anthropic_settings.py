"""Settings, both ways: the models' differences, and everything that Anthropic has no word for."""

from typing import Any

import pytest

import dragoman
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Settings,
    State,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.profiles import profile_of
from dragoman.protocols.anthropic import CODEC
from dragoman.protocols.anthropic.settings import JSON_INSTRUCTION

SCHEMA = {"type": "object", "properties": {}}
OLD, MIDDLE, NEW, UNKNOWN = "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-7", "some-model"
HELLO = Message("user", (Text("hi"),))

# name: (fields of the body, settings)
DECODED: dict[str, tuple[Wire, Settings]] = {
    "nothing": ({}, Settings()),
    "most tokens": ({"max_tokens": 100}, Settings(max_tokens=100)),
    "sampling": (
        {"temperature": 0.5, "top_p": 1, "top_k": 5},
        Settings(temperature=0.5, top_p=1, top_k=5),
    ),
    "stop": ({"stop_sequences": ["a", "b"]}, Settings(stop=("a", "b"))),
    "user": ({"metadata": {"user_id": "u"}}, Settings(user="u")),
    "tier": ({"service_tier": "auto"}, Settings(service_tier="auto")),
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        Settings(budget=2000, show_reasoning=True),
    ),
    "thinking without a budget": (
        {"thinking": {"type": "enabled"}},
        Settings(budget=-1, show_reasoning=True),
    ),
    "adaptive": ({"thinking": {"type": "adaptive"}}, Settings(budget=-1, show_reasoning=True)),
    "adaptive and hidden": (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        Settings(budget=-1, show_reasoning=False),
    ),
    "off": ({"thinking": {"type": "disabled"}}, Settings(budget=0, effort="none")),
    "effort": ({"output_config": {"effort": "xhigh"}}, Settings(effort="xhigh")),
    "schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        Settings(output=OutputFormat("schema", SCHEMA)),
    ),
    "schema under its old name": (
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        Settings(output=OutputFormat("schema", SCHEMA)),
    ),
}


def test_of_two_formats_the_newer_counts_and_the_older_is_reported() -> None:
    older = {"type": "json_schema", "schema": {"type": "array"}}
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    losses = Losses()
    body = {"model": "m", "messages": [], "output_config": config, "output_format": older}
    assert CODEC.decode_request(body, losses).settings == Settings(output=OutputFormat("schema", SCHEMA))
    assert [loss.where for loss in losses] == ["output_format"]


@pytest.mark.parametrize(
    "key, where", [("output_format", "output_format"), ("format", "output_config.format")]
)
def test_a_loss_names_the_format_as_the_client_does(key: str, where: str) -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    asked = {key: format} if key == "output_format" else {"output_config": {key: format}}
    exchange = dragoman.Exchange("anthropic", "openai-chat")
    exchange.request(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **asked}
    )
    assert [loss.where for loss in exchange.losses] == [where]


def test_an_effort_without_thinking_is_reported_and_goes_back() -> None:
    body = {
        "model": "m",
        "messages": [],
        "thinking": {"type": "disabled"},
        "output_config": {"effort": "high"},
    }
    losses = Losses()
    request = CODEC.decode_request(body, losses)
    assert request.settings == Settings(budget=0, effort="none")
    assert [loss.code for loss in losses] == ["setting.effort.dropped"]
    assert CODEC.encode_request(request, Losses()) == body


@pytest.mark.parametrize(("wire", "settings"), DECODED.values(), ids=DECODED)
def test_settings_are_read_and_go_back(wire: Wire, settings: Settings) -> None:
    losses = Losses()
    body = {"model": "m", "messages": [], **wire}
    request = CODEC.decode_request(body, losses)
    assert request.settings == settings
    assert not list(losses)
    assert CODEC.encode_request(request, Losses()) == body


# name: (settings, model, fields of the body, losses)
REFUSED = "The model takes no sampling settings."
ENCODED: dict[str, tuple[Settings, str, Wire, list[str]]] = {
    "sampling on older models": (
        Settings(temperature=0.5, top_k=5),
        OLD,
        {"temperature": 0.5, "top_k": 5},
        [],
    ),
    "sampling on newer models": (
        Settings(temperature=0.5, top_p=0.9, top_k=5),
        NEW,
        {},
        [f"dropped temperature: {REFUSED}", f"dropped top_p: {REFUSED}", f"dropped top_k: {REFUSED}"],
    ),
    "sampling where nobody knows the model": (
        Settings(temperature=0.5, top_p=0.9),
        UNKNOWN,
        {"temperature": 0.5, "top_p": 0.9},
        [],
    ),
    "temperature beside top_p": (
        Settings(temperature=0.5, top_p=0.9),
        OLD,
        {"temperature": 0.5},
        ["dropped top_p: The model takes temperature or top_p, not both."],
    ),
    "both on the oldest": (
        Settings(temperature=0.5, top_p=0.9),
        "claude-3-5-sonnet-20241022",
        {"temperature": 0.5, "top_p": 0.9},
        [],
    ),
    "too hot": (
        Settings(temperature=1.7),
        OLD,
        {"temperature": 1},
        ["changed temperature: Anthropic takes at most 1."],
    ),
    "stop": (Settings(stop=("a", "b")), OLD, {"stop_sequences": ["a", "b"]}, []),
    "blank stop": (
        Settings(stop=("\n", "b")),
        OLD,
        {"stop_sequences": ["b"]},
        ["dropped stop: Anthropic refuses blank stop sequences."],
    ),
    "only blank stops": (
        Settings(stop=("\n",)),
        OLD,
        {},
        ["dropped stop: Anthropic refuses blank stop sequences."],
    ),
    "user": (Settings(user="u"), OLD, {"metadata": {"user_id": "u"}}, []),
    "tier": (Settings(service_tier="default"), OLD, {"service_tier": "standard_only"}, []),
    "unknown tier": (
        Settings(service_tier="flex"),
        OLD,
        {},
        ["dropped service_tier: Anthropic has no tier 'flex'."],
    ),
    "effort": (
        Settings(effort="high"),
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        [],
    ),
    "least effort": (
        Settings(effort="minimal"),
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        [],
    ),
    "G107 extra effort where there is none": (
        Settings(effort="xhigh"),
        MIDDLE,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ["changed effort: The model takes no effort xhigh. It gets high."],
    ),
    "G107 no effort": (Settings(effort="none"), NEW, {"thinking": {"type": "disabled"}}, []),
    "no budget": (Settings(budget=0), OLD, {"thinking": {"type": "disabled"}}, []),
    "effort as a budget": (
        Settings(effort="medium"),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 8000}},
        [],
    ),
    "an effort leaves a fifth of max_tokens for the answer": (
        Settings(max_tokens=9000, effort="high"),
        OLD,
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 7200}},
        [],
    ),
    "least effort as a budget": (
        Settings(effort="minimal"),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        [],
    ),
    "a budget": (Settings(budget=2000), OLD, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, []),
    "G107 a budget on newer models": (
        Settings(budget=9000),
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}},
        ["changed budget: The model takes an effort and no budget."],
    ),
    "a small budget on newer models": (
        Settings(budget=100),
        NEW,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ["changed budget: The model takes an effort and no budget."],
    ),
    "a budget as the model likes": (
        Settings(budget=-1),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 8192}},
        [],
    ),
    "a budget that is too small": (
        Settings(budget=10),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        ["changed budget: Anthropic takes 1024 or more, and less than max_tokens. 1024 was sent."],
    ),
    "G107 a budget that is too big": (
        Settings(budget=99_999),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 8000}},
        ["changed budget: Anthropic takes 1024 or more, and less than max_tokens. 8000 was sent."],
    ),
    "no room to think": (
        Settings(max_tokens=500, effort="high"),
        OLD,
        {"max_tokens": 500},
        ["dropped effort: max_tokens leaves no room for thinking. The least budget is 1024."],
    ),
    "thinking that is shown": (
        Settings(effort="high", show_reasoning=True),
        NEW,
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
        [],
    ),
    "thinking that is hidden": (
        Settings(effort="high", show_reasoning=False),
        NEW,
        {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "high"}},
        [],
    ),
    "thinking beside sampling": (
        Settings(budget=2000, temperature=0.5, top_p=0.97, top_k=5),
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "top_p": 0.97},
        [
            "dropped temperature: It cannot be set while the model thinks.",
            "dropped top_k: It cannot be set while the model thinks.",
        ],
    ),
    "schema": (
        Settings(output=OutputFormat("schema", SCHEMA, "answer")),
        OLD,
        {"output_config": {"format": {"type": "json_schema", "schema": {"title": "answer", **SCHEMA}}}},
        [],
    ),
    "schema with a description": (
        Settings(output=OutputFormat("schema", SCHEMA, "answer", "say it")),
        OLD,
        {
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {"description": "say it", "title": "answer", **SCHEMA},
                }
            }
        },
        [],
    ),
    "JSON without a schema": (
        Settings(output=OutputFormat("json")),
        OLD,
        {"system": JSON_INSTRUCTION},
        ["changed output.mode: Anthropic has no JSON mode without a schema. The prompt asks for JSON."],
    ),
    "plain text": (Settings(output=OutputFormat("text")), OLD, {}, []),
    "what Anthropic has no word for": (
        Settings(
            frequency_penalty=1,
            presence_penalty=1,
            seed=1,
            verbosity="low",
            metadata={"a": "b"},
            logprobs=True,
            top_logprobs=3,
            cache_key="k",
            store=True,
            n=2,
        ),
        OLD,
        {},
        [
            *(
                f"dropped {name}: Anthropic has no such setting."
                for name in (
                    *("frequency_penalty", "presence_penalty", "seed", "verbosity", "metadata"),
                    *("logprobs", "top_logprobs", "cache_key", "store"),
                )
            ),
            "dropped n: Anthropic gives one answer.",
        ],
    ),
    "what is off anyway": (Settings(logprobs=False, store=False, n=1), OLD, {}, []),
}


def encode(settings: Settings, model: str, **more: Any) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, (HELLO,), settings=settings, **more)
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


@pytest.mark.parametrize(("settings", "model", "wire", "lost"), ENCODED.values(), ids=ENCODED)
def test_settings_from_elsewhere(settings: Settings, model: str, wire: Wire, lost: list[str]) -> None:
    from msgspec.structs import replace

    limited = replace(settings, max_tokens=settings.max_tokens or 10_000)
    body, losses = encode(limited, model)
    assert body == {
        "model": model,
        "max_tokens": 10_000,
        "messages": [{"role": "user", "content": "hi"}],
        **wire,
    }
    assert losses == lost


@pytest.mark.parametrize(
    ("model", "most"),
    [("claude-3-haiku-20240307", 4096), ("claude-3-5-haiku-latest", 8192), (NEW, 32_000), (UNKNOWN, 32_000)],
)
def test_most_tokens_are_required(model: str, most: int) -> None:
    body, losses = encode(Settings(), model)
    assert body["max_tokens"] == most
    assert losses == [f"invented max_tokens: Anthropic requires it. {most} was sent."]


THOUGHT = Reasoning("hm", state=State("anthropic", "sig"))
FOREIGN = Reasoning("hm", state=State("gemini", "sig"))


@pytest.mark.parametrize(
    ("model", "thoughts", "thinks"),
    [
        (OLD, (THOUGHT,), True),
        (OLD, (FOREIGN,), False),
        (OLD, (), False),
        (OLD, (Text("Let me see."),), False),
        (MIDDLE, (), True),
    ],
)
def test_no_budget_where_the_turn_that_goes_on_began_without_thinking(
    model: str, thoughts: tuple[Reasoning | Text, ...], thinks: bool
) -> None:
    call, result = ToolCall("call_1", "f", "{}"), ToolResult("call_1", content=(Text("done"),))
    messages = (HELLO, Message("assistant", (*thoughts, call)), Message("user", (result,)))
    request = Request(
        model, messages, tools=(ToolDeclaration("f"),), settings=Settings(max_tokens=10_000, effort="high")
    )
    losses = Losses()
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    assert ("thinking" in body) is thinks
    assert any("goes on" in loss.why for loss in losses) is not thinks


@pytest.mark.parametrize(("model", "thinks"), [(OLD, False), (MIDDLE, True), (UNKNOWN, True)])
def test_g107_no_budget_together_with_a_forced_tool(model: str, thinks: bool) -> None:
    settings = Settings(max_tokens=10_000, effort="high")
    body, losses = encode(settings, model, tools=(ToolDeclaration("f"),), tool_choice=ToolChoice("required"))
    assert body["tool_choice"] == {"type": "any"}
    assert ("thinking" in body) is thinks
    assert losses == (
        [] if thinks else ["dropped effort: The model cannot think when a tool choice is forced."]
    )


def test_the_limit_that_is_invented_is_one_that_the_model_takes() -> None:
    profile = ModelProfile(max_output=8000)
    assert CODEC.encode_request(Request("m", (HELLO,)), Losses(), profile)["max_tokens"] == 8000
