"""The page at `/`: browsers get it, probes get JSON, and nobody without a key learns the names of models."""

from __future__ import annotations

import re
import shlex
from html import unescape

import pytest

from dragoman.cli.agents import AGENTS
from dragoman.cli.landing import mount_pages, render
from dragoman.gateway.config import load
from gateway.plain import send
from gateway.stands import gateway

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
LOCAL = '[providers.local]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
NAMED = LOCAL + '[models]\n"our model" = "local:m"\n"far-*" = "local:$1"\n'
URL = "http://127.0.0.1:8787"


def commands(html: str) -> dict[str, list[str]]:
    """The words of each agent's command, as a shell reads them."""
    found = re.findall(r"<h3>(.*?)</h3><pre[^>]*>(.*?)</pre>", html, re.DOTALL)
    return {unescape(title): shlex.split(unescape(text)) for title, text in found}


def test_a_browser_gets_the_page_and_a_probe_the_health():
    with gateway(NAMED) as stand:
        mount_pages(stand.gateway)
        page = send(stand.url, "GET", "/", headers=BROWSER, key="")
        probes = [send(stand.url, method, "/", key="") for method in ("GET", "HEAD")]
        json = send(stand.url, "GET", "/", headers={"accept": "application/json"}, key="")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in page.body.decode()
    assert stand.url in page.body.decode()
    assert [probe.status for probe in probes] == [200, 200]
    assert probes[0].json == json.json == {"status": "ok", "dragoman": probes[0].json["dragoman"]}


def test_a_gateway_that_does_not_record_says_how_to_see_the_inspector():
    with gateway(NAMED) as stand:
        mount_pages(stand.gateway)
        got = send(stand.url, "GET", "/inspect", headers=BROWSER, key="")
    assert (got.status, "dragoman serve --inspect" in got.body.decode()) == (404, True)


def test_each_agent_has_a_command_with_a_name_that_is_served():
    found = commands(render(load(NAMED, {}), URL, "", names_shown=True))
    assert set(found) == {agent.title for agent in AGENTS.values()}
    assert "ANTHROPIC_MODEL=our model" in found["Claude Code"]
    assert f"ANTHROPIC_BASE_URL={URL}" in found["Claude Code"]


def test_the_form_puts_a_model_into_each_command():
    html = render(load("", {}), URL, "groq:x", names_shown=True)
    assert 'value="groq:x"' in html
    assert all("groq:x" in " ".join(words) for words in commands(html).values())


def test_names_are_offered_to_those_who_may_see_them():
    config = load(NAMED, {})
    assert '<option value="our model">' in render(config, URL, "", names_shown=True)
    assert "far-*" not in render(config, URL, "", names_shown=True)
    assert "our model" not in render(config, URL, "", names_shown=False)


STRANGERS = {
    "a key is needed": ('[server]\nkeys = ["secret-key-of-ours"]\n', {}),
    "a page of another site asks": ("", {"origin": "https://elsewhere.example"}),
    "a public name was pointed at this machine": ("", {"host": "rebound.example"}),
}


@pytest.mark.parametrize("settings, headers", STRANGERS.values(), ids=STRANGERS)
def test_strangers_learn_no_names(settings: str, headers: dict[str, str]):
    with gateway(NAMED + settings) as stand:
        mount_pages(stand.gateway)
        page = send(stand.url, "GET", "/", headers=BROWSER | headers, key="")
    text = page.body.decode()
    assert page.status == 200
    assert "our model" not in text
    assert "MODEL" in text
    assert ("$DRAGOMAN_KEY" in text) == bool(settings)
    assert "secret" not in text


def test_what_a_visitor_sends_is_text():
    html = render(load("", {}), 'http://"><script>', '"><script>alert(1)</script>', names_shown=True)
    assert "<script" not in html


def test_the_inspector_is_linked_where_it_is_on():
    assert 'href="/inspect"' in render(load("[inspector]\nenabled = true\n", {}), URL, "", names_shown=True)
    assert "serve --inspect" in render(load("", {}), URL, "", names_shown=True)
