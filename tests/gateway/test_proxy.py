"""A provider that is reached through a proxy of its own; the others are not."""

from __future__ import annotations

import pytest

from dragoman.core.errors import ConfigError
from dragoman.gateway.config import load
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import ask
from gateway.running import running
from gateway.stands import gateway


def test_only_its_provider_uses_the_proxy():
    proxy, near = Canned(Answer(200, chat("far"))), Canned(Answer(200, chat("near")))
    with running(proxy) as through, running(near) as url:
        text = provider("far", "http://far.invalid", proxy=f'"{through}"') + provider("near", url)
        with gateway(text) as stand:
            answers = [
                ask(stand.url, "openai-chat", "hi", f"{name}:m").text("openai-chat")
                for name in ("far", "near")
            ]
    assert answers == ["far", "near"]
    assert [request.headers["host"] for request in proxy.requests] == ["far.invalid"]


@pytest.mark.parametrize("url", ["socks5://p:1", "p", "https://p:1"])
def test_other_kinds_are_refused_by_name(url: str):
    with pytest.raises(ConfigError, match=r"providers\.far\.proxy: Expected http://HOST:PORT"):
        load(provider("far", "http://far.invalid", proxy=f'"{url}"'), {})
