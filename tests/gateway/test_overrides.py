"""Settings by alias and by provider: one line of configuration holds for every client and every upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Response, Settings, Stop, Text, Usage
from dragoman.gateway.config import load
from dragoman.protocols import codec
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import PROTOCOLS, gateway
from laws.test_exchange_laws import request_wire, response_wire
from spoken import addressed

REQUEST = Request("", (Message("user", (Text("hi"),)),), settings=Settings(max_tokens=50, temperature=1))
SAID = {client: request_wire(client, REQUEST) for client in PROTOCOLS}
ROW = 'alias = { to = "up:m", set = { temperature = 0.25 }, default = { top_p = 0.5, max_tokens = 9 } }\n'
REPLY = Response("r", "m", (Text("hello"),), Stop("end"), Usage(1, 1))


def post(url: str, client: str, to: str = "alias", **body: Any) -> Got:
    path, body = addressed(client, body, to)
    return send(url, "POST", path, jsontext.encode(body))


def settings_of(protocol: str, body: dict[str, Any]) -> Settings:
    request: Request = codec(protocol).decode_request(body, Losses())
    return request.settings


@pytest.mark.parametrize("upstream", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_one_line_holds_between_all_protocols(client: str, upstream: str):
    """`set` wins, `default` counts only where the client said nothing, and both are reported."""
    behind = Canned(Answer(200, jsontext.encode(response_wire(upstream, REPLY))))
    with running(behind) as url, gateway(provider("up", url, upstream) + "[models]\n" + ROW) as stand:
        got = post(stand.url, client, **SAID[client])
    assert got.status == 200
    sent = settings_of(upstream, behind.requests[0].json)
    assert (sent.temperature, sent.top_p, sent.max_tokens) == (0.25, 0.5, 50)
    record = stand.last()
    assert record["loss_codes"]["minor"] == ["setting.configured.changed"], record
    assert got.headers["x-dragoman-losses"].count("setting.configured.changed") == 2


def test_effort_replaces_a_budget_of_thinking():
    behind = Canned(Answer(200, chat("hello")))
    rows = '[models]\nalias = { to = "up:m", set = { effort = "low" } }\n'
    body = {**SAID["anthropic"], "max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1500}}
    body.pop("temperature")
    with running(behind) as url, gateway(provider("up", url) + rows) as stand:
        assert post(stand.url, "anthropic", **body).status == 200
    assert behind.requests[0].json["reasoning_effort"] == "low"


def test_an_alias_says_more_than_its_provider_and_extra_fields_pass_as_they_are():
    behind = Canned(Answer(200, chat("hello")))
    rows = provider("up", "URL", set="{ seed = 1, top_k = 3 }", extra="{ safe_prompt = true, top_k = 40 }")
    rows += (
        '[models]\nalias = { to = "up:m", set = { seed = 2 }, extra = { provider = { order = ["a"] } } }\n'
    )
    with running(behind) as url, gateway(rows.replace("URL", url)) as stand:
        assert post(stand.url, "openai-chat", **SAID["openai-chat"]).status == 200
        assert post(stand.url, "openai-chat", "up:m", **SAID["openai-chat"]).status == 200
    first, second = (request.json for request in behind.requests)
    assert [first.get(name) for name in ("seed", "provider", "safe_prompt")] == [2, {"order": ["a"]}, True]
    assert [second.get(name) for name in ("seed", "provider", "top_k")] == [1, None, 40]


def test_fields_that_are_not_decided_pass_between_equal_protocols():
    behind = Canned(Answer(200, chat("hello")))
    rows = provider("up", "URL") + '[models]\nalias = { to = "up:m", default = { seed = 7 } }\n'
    body = {**SAID["openai-chat"], "max_completion_tokens": 5, "odd": {"of": [1, None]}, "stop": "x"}
    with running(behind) as url, gateway(rows.replace("URL", url)) as stand:
        assert post(stand.url, "openai-chat", **body).status == 200
    assert behind.requests[0].json == {**body, "model": "m", "seed": 7}


def test_another_spelling_of_a_setting_does_not_stay_beside_it():
    behind = Canned(Answer(200, chat("hello")))
    rows = provider("up", "URL") + '[models]\nalias = { to = "up:m", set = { max_tokens = 7 } }\n'
    body = {"messages": SAID["openai-chat"]["messages"], "max_completion_tokens": 5}
    with running(behind) as url, gateway(rows.replace("URL", url)) as stand:
        assert post(stand.url, "openai-chat", **body).status == 200
    sent = behind.requests[0].json
    assert [sent.get(name) for name in ("max_tokens", "max_completion_tokens")] == [7, None]


WRONG = {
    "a setting that is none": (
        "set = { temprature = 1 }",
        "models.a.set.temprature: Unknown setting 'temprature'. Did you mean 'temperature'?",
    ),
    "a value of another type": (
        'default = { max_tokens = "many" }',
        "models.a.default.max_tokens: expected a whole number",
    ),
    "an effort that is none": ('set = { effort = "huge" }', "models.a.set.effort: "),
    "no table": ("set = 3", "models.a.set: expected a table of settings"),
    "extra without fields": ("extra = 3", "models.a.extra: expected a table of fields"),
}


@pytest.mark.parametrize("given, message", WRONG.values(), ids=WRONG)
def test_mistakes_are_named(given: str, message: str):
    with pytest.raises(ConfigError) as caught:
        load(f'[models]\na = {{ to = "demo:x", {given} }}\n', {})
    assert message in str(caught.value)
