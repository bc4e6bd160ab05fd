"""The client library at a provider that speaks several protocols: it takes the one that loses least."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman import Provider, generate, stream, tool, web_search
from dragoman.client import Surface
from dragoman.core.errors import ConfigError, LossError, NotFoundError
from dragoman.demo import DemoApp
from gateway.running import running

CHAT, CLAUDE, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


class Recorded(DemoApp):
    """The demo, with what it was asked; the paths of `missing` answer 404."""

    def __init__(self, *missing: str) -> None:
        super().__init__()
        self.missing, self.paths, self.keys = missing, list[str](), list[dict[str, str]]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.paths.append(scope["path"])
            self.keys.append({name.decode(): value.decode() for name, value in scope["headers"]})
            if scope["path"] in self.missing:
                scope = {**scope, "path": "/nothing/here"}
        await super().__call__(scope, receive, send)


@contextmanager
def many(app: Recorded) -> Iterator[Provider]:
    with running(app) as url:
        surfaces = [
            Surface("openai-chat", f"{url}/v1"),
            Surface("anthropic", url, bearer=True),
            Surface("openai-responses", f"{url}/v1"),
        ]
        yield Provider("many", api_key="k", surfaces=surfaces)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the preferred one, where nothing is lost": ({"seed": 1}, CHAT),
    "one that has top_k": ({"top_k": 5}, CLAUDE),
    "one that runs the search": ({"tools": [web_search()], "verbosity": "low"}, RESPONSES),
    "one that some options are for": ({"provider_options": {"anthropic": {"container": "c"}}}, CLAUDE),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("settings, taken", CASES.values(), ids=CASES)
def test_which_surface_a_request_takes(settings: dict[str, Any], taken: str, streamed: bool) -> None:
    app = Recorded()
    with many(app) as provider:
        if streamed:
            with stream("hi", provider.model("m"), **settings) as events:
                assert [*events]
                result = events.result
        else:
            result = generate("hi", provider.model("m"), **settings)
    assert (app.paths, result.provider, result.finish_reason) == ([taken], "many", "stop")


def test_the_key_goes_as_the_surface_takes_it() -> None:
    app = Recorded()
    with many(app) as provider:
        generate("hi", provider.model("m"), top_k=5)
    assert app.keys[0]["authorization"] == "Bearer k"
    assert "x-api-key" not in app.keys[0]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_surface_that_the_server_lacks_is_asked_once(streamed: bool) -> None:
    app = Recorded(CHAT)
    with many(app) as provider:
        for _ in range(2):
            if streamed:
                with stream(
                    "What is the weather in Oslo?", provider.model("m"), tools=[get_weather]
                ) as events:
                    assert [*events]
                calls = events.result.tool_calls
            else:
                calls = generate(
                    "What is the weather in Oslo?", provider.model("m"), tools=[get_weather]
                ).tool_calls
            assert [call["function"]["name"] for call in calls] == ["get_weather"]
    assert app.paths == [CHAT, CLAUDE, CLAUDE]


def test_a_model_that_no_surface_has() -> None:
    app = Recorded(CHAT, CLAUDE, RESPONSES)
    with many(app) as provider, pytest.raises(NotFoundError):
        generate("hi", provider.model("m"))
    assert app.paths == [CHAT, CLAUDE, RESPONSES]


def test_strict_looks_at_all_of_them() -> None:
    app = Recorded()
    with many(app) as provider:
        assert generate("hi", provider.model("m"), top_k=5, max_tokens=9, strict=True).losses == []
        with pytest.raises(LossError):
            generate("hi", provider.model("m"), top_k=5, max_tokens=9, seed=1, strict=True)


def test_state_belongs_to_the_surface_that_made_it() -> None:
    provider = Provider("xai", api_key="k")
    assert [each.issuer for each in provider.surfaces] == ["xai.openai-responses", "xai.openai-chat"]


def test_a_typed_output_is_asked_for_as_the_surface_takes_it() -> None:
    """The tool that takes the answer at one surface is none at the other."""
    app = Recorded()
    with many(app) as provider:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        result = generate("hi", provider.model("m"), output=schema, top_k=5, output_retries=0)
    assert app.paths == [CLAUDE]
    assert set(result.output) == {"city"}


KNOWN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a known one": ({}, ["openai-chat", "anthropic", "openai-responses"]),
    "one protocol that is named": ({"protocol": "anthropic"}, ["anthropic"]),
    "a dialect": ({"dialect": "hermes"}, ["openai-chat"]),
    "another address": (
        {"base_url": "https://other.example/v1"},
        ["openai-chat", "anthropic", "openai-responses"],
    ),
    "an address that is something else": ({"base_url": "https://other.example/x"}, ["openai-chat"]),
}


@pytest.mark.parametrize("options, protocols", KNOWN.values(), ids=KNOWN)
def test_the_surfaces_of_a_known_provider(options: dict[str, Any], protocols: list[str]) -> None:
    provider = Provider("moonshot", api_key="k", **options)
    assert [each.protocol for each in provider.surfaces] == protocols


def test_one_protocol_of_a_known_provider_has_its_own_address() -> None:
    provider = Provider("moonshot", api_key="k", protocol="anthropic")
    assert provider.base_url == "https://api.moonshot.ai/anthropic"


def test_surfaces_instead_of_a_protocol() -> None:
    with pytest.raises(ConfigError, match="Surfaces replace"):
        Provider("many", protocol="openai-chat", surfaces=[Surface("anthropic", "http://127.0.0.1:9")])


def test_a_key_of_the_environment_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled, each surface too: the other process reads its own."""
    monkeypatch.setenv("MOONSHOT_API_KEY", "secret-1")
    provider = Provider("moonshot")
    assert len(provider.surfaces) == 3
    data = pickle.dumps(provider)
    assert b"secret-1" not in data
    monkeypatch.setenv("MOONSHOT_API_KEY", "secret-2")
    assert [[*each.credentials.secrets()] for each in pickle.loads(data).surfaces] == [["secret-2"]] * 3
