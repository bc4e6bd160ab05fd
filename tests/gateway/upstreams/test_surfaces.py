"""Providers that speak several protocols: which one a request takes, and what happens where one lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.demo import DemoApp
from dragoman.gateway.config import load
from dragoman.inspector.plan import plan_all
from dragoman.profiles import known
from gateway.plain import send
from gateway.running import running
from gateway.stands import Stand, gateway

SURFACES = (
    'surfaces = [{ protocol = "openai-chat", base_url = "URL/v1" }, '
    '{ protocol = "anthropic", base_url = "URL", bearer = true }, '
    '{ protocol = "openai-responses", base_url = "URL/v1" }]'
)
ASKED = [{"role": "user", "content": "hi"}]
GEMINI = "/v1beta/models/many:m:generateContent"
TURNS: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CHAT, CLAUDE, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a Chat client": (CHAT, {"messages": ASKED}, CHAT),
    "an Anthropic client": (CLAUDE, {"messages": ASKED, "max_tokens": 9}, CLAUDE),
    "a Responses client": (RESPONSES, {"input": "hi", "store": False}, RESPONSES),
    "a client of another protocol": (GEMINI, TURNS, CHAT),
    "what the first surface would lose": (GEMINI, {**TURNS, "tools": [{"googleSearch": {}}]}, CLAUDE),
    "what only the last one carries": (
        GEMINI,
        {
            **TURNS,
            "generationConfig": {"responseLogprobs": True, "logprobs": 2},
            "tools": [{"googleSearch": {}}],
        },
        RESPONSES,
    ),
    "a token count": ("/v1/messages/count_tokens", {"messages": ASKED}, "/v1/messages/count_tokens"),
}


class Recorded(DemoApp):
    """The demo, with the paths that it was asked for; those of `missing` answer 404."""

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
def many(app: Recorded) -> Iterator[Stand]:
    with running(app) as url:
        text = f'[providers.many]\napi_key = "k"\n{SURFACES.replace("URL", url)}'
        with gateway(text) as stand:
            yield stand


def ask(stand: Stand, path: str, body: dict[str, Any]) -> Any:
    return send(stand.url, "POST", path, jsontext.encode({"model": "many:m", **body}))


@pytest.mark.parametrize("name", CASES)
def test_which_surface_a_request_takes(name: str) -> None:
    path, body, taken = CASES[name]
    app = Recorded()
    with many(app) as stand:
        assert ask(stand, path, body).status == 200
    assert app.paths == [taken]


def test_the_log_names_the_surface() -> None:
    with many(Recorded()) as stand:
        ask(stand, CLAUDE, {"messages": ASKED, "max_tokens": 9})
        assert (stand.last()["provider"], stand.last()["upstream"]) == ("many", "anthropic")


def test_a_key_that_goes_as_a_bearer_token() -> None:
    app = Recorded()
    with many(app) as stand:
        ask(stand, CLAUDE, {"messages": ASKED, "max_tokens": 9})
    assert app.keys[0]["authorization"] == "Bearer k"
    assert "x-api-key" not in app.keys[0]


def test_a_surface_that_the_server_lacks_is_asked_once() -> None:
    app = Recorded(CLAUDE)
    with many(app) as stand:
        for _ in range(2):
            got = ask(stand, CLAUDE, {"messages": ASKED, "max_tokens": 9})
            assert (got.status, got.json["type"]) == (200, "message")
    assert app.paths == [CLAUDE, CHAT, CHAT]


def test_a_model_that_no_surface_has() -> None:
    app = Recorded(CLAUDE, CHAT, RESPONSES)
    with many(app) as stand:
        got = ask(stand, CLAUDE, {"messages": ASKED, "max_tokens": 9})
        assert (got.status, "error" in got.json) == (404, True)
        ask(stand, CLAUDE, {"messages": ASKED, "max_tokens": 9})
    assert app.paths == [CLAUDE, CHAT, RESPONSES] * 2


def test_state_stays_with_the_surface_that_made_it() -> None:
    """Each surface has an origin of its own: what Responses sealed is no signature of Messages."""
    provider = load('[providers.xai]\napi_key = "k"', {}).providers["xai"]
    assert [each.issuer for each in provider.each_surface("")] == ["xai.openai-responses", "xai.openai-chat"]


def test_plan_shows_every_surface() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": ASKED}
    (first, *others) = plan_all(body, "anthropic", [known()["deepseek"]], "m")
    assert (first.protocol, first.taken, first.worst) == ("anthropic", True, "")
    assert [each.taken for each in others] == [False, False]


READ: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "the known ones": (
        "[providers.deepseek]",
        [
            ("openai-chat", "https://api.deepseek.com"),
            ("anthropic", "https://api.deepseek.com/anthropic"),
            ("openai-responses", "https://api.deepseek.com"),
        ],
    ),
    "one of them by name": (
        '[providers.deepseek]\nprotocol = "anthropic"',
        [("anthropic", "https://api.deepseek.com/anthropic")],
    ),
    "a local server elsewhere": (
        '[providers.vllm]\nbase_url = "http://gpu:8000/v1"',
        [
            ("openai-chat", "http://gpu:8000/v1"),
            ("anthropic", "http://gpu:8000"),
            ("openai-responses", "http://gpu:8000/v1"),
        ],
    ),
    "another path": ('[providers.vllm]\nbase_url = "http://gpu/x/v1"', [("openai-chat", "http://gpu/x/v1")]),
    "a dialect": (
        '[providers.vllm]\ndialect = "hermes"',
        [("openai-chat", "http://127.0.0.1:8000/v1")],
    ),
    "listed": (
        '[providers.xai]\nsurfaces = [{ protocol = "anthropic", base_url = "https://api.x.ai/" }]',
        [("anthropic", "https://api.x.ai/")],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_the_configuration_says(name: str) -> None:
    text, expected = READ[name]
    (provider,) = load(text, {}).providers.values()
    assert [(each.protocol, each.base_url) for each in provider.each_surface("")] == expected


CLAUDE_ROW = '{ protocol = "anthropic", base_url = "http://h" }'
WRONG = {
    'protocol = "anthropic"\nsurfaces = []': "expected at least one surface",
    f'base_url = "http://h"\nsurfaces = [{CLAUDE_ROW}]': "replaces protocol and base_url",
    f"surfaces = [{CLAUDE_ROW}, {CLAUDE_ROW}]": "a protocol is there twice",
    'surfaces = [{ protocol = "antropic", base_url = "http://h" }]': "Unknown protocol 'antropic'",
    'surfaces = [{ protocol = "anthropic", base_url = "http://h/v1" }]': "leave out /v1 at the end",
    f'surfaces = [{CLAUDE_ROW}, {{ protocol = "openai-chat", base_url = "" }}]': "missing",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=WRONG[text]):
        load(f"[providers.many]\n{text}", {})


def test_each_known_surface_has_its_own_protocol() -> None:
    for provider in known().values():
        protocols = [each.protocol for each in provider.surfaces]
        assert len(set(protocols)) == len(protocols)
        for each in provider.each_surface("anthropic"):
            Exchange("anthropic", each.protocol)


def test_plan_knows_the_facts_about_a_surface() -> None:
    """DeepSeek runs no hosted tools behind its Anthropic address."""
    body = {**TURNS, "tools": [{"googleSearch": {}}]}
    plans = plan_all(body, "gemini", [known()["deepseek"]], "m")
    assert (plans[0].protocol, plans[0].taken) == ("openai-responses", True)
    assert {each.protocol: each.worst for each in plans}["anthropic"] == "material"
