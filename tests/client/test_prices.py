"""`result.cost`, `run.cost` and `models`."""

from typing import Any

import pytest

from client.upstreams import KEY, provider
from dragoman import (
    ConfigError,
    Provider,
    UpstreamError,
    UserMessage,
    generate,
    models,
    protocols,
    run,
    stream,
    tool,
)
from dragoman.core.model import Base64, Media, Message, Text

PRICE = {"price": {"input": 1_000_000, "output": 2_000_000}}
DEMO = Provider("demo", profiles={"priced*": PRICE, "alias": {"like": "priced"}})


def test_a_reply_costs_its_tokens():
    result = generate("Good morning", DEMO.model("priced"))
    assert result.cost == result.usage.input + 2 * result.usage.output
    with stream("Good morning", DEMO.model("priced")) as events:
        assert list(events)
    assert events.result.cost == result.cost


def test_a_run_costs_all_its_replies():
    @tool
    def get_weather(city: str) -> str:
        return "foggy"

    done = run("What is the weather in NYC?", DEMO.model("priced"), [get_weather])
    assert len(done.results) == 2
    assert done.cost == sum(result.cost or 0 for result in done.results) > 0


SOUND = Media("audio", "audio/wav", Base64("UklGRg=="))
UNKNOWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "flex processing": ("Hello", {"service_tier": "flex"}),
    "audio": (UserMessage("Hello", files=[SOUND]), {}),
    "a cache of an hour": ([Message("user", (Text("Hello", cache="1h"),))], {}),
}


@pytest.mark.parametrize("prompt, settings", UNKNOWN.values(), ids=UNKNOWN)
def test_what_has_another_price_has_none(prompt: Any, settings: dict[str, Any]):
    assert generate(prompt, DEMO.model("priced"), **settings).cost is None


def test_a_model_without_a_price_has_none(address: str):
    assert generate("Hello", provider(address, "openai-chat").model("x")).cost is None


WRONG = {
    "unknown facts": ({"*": {"prize": 1}}, "unknown facts: prize"),
    "a wrong type": ({"*": {"price": {"input": "a lot", "output": 1}}}, "price.input"),
}


@pytest.mark.parametrize("profiles, problem", WRONG.values(), ids=WRONG)
def test_wrong_profiles_are_refused(profiles: Any, problem: str):
    with pytest.raises(ConfigError, match=problem):
        Provider("demo", profiles=profiles)


@pytest.mark.parametrize("protocol", protocols())
def test_the_list_of_a_provider(address: str, protocol: str):
    model_provider = provider(address, protocol)
    listed = models(model_provider)
    assert [each.name for each in listed] == ["demo"]
    assert listed[0].id == f"{model_provider.name}:demo"
    assert listed[0].price is None


def test_facts_are_joined():
    listed = models(Provider("demo", profiles={"demo": {"context_window": 8192, **PRICE}}))
    assert repr(listed) == "[ModelInfo('demo:demo', context_window=8192, price=$1e+06 in, $2e+06 out)]"


def test_a_list_that_fails(address: str):
    with pytest.raises(UpstreamError):
        models(Provider("mine", protocol="anthropic", base_url=address, api_key=f"not {KEY}"))
    with pytest.raises(UpstreamError, match="mine"):
        models(Provider("mine", protocol="anthropic", base_url="http://127.0.0.1:1"))
    with pytest.raises(ConfigError, match="Unknown provider 'nobody'"):
        models("nobody")
