"""Gateways with a store, over the demo or over an upstream that answers what a test says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import anthropic
import openai

from gateway.canned import Canned, provider
from gateway.running import running
from gateway.stands import CLIENT_KEY, Stand, configuration, gateway

OTHER_KEY = "another-key-55"


def stored_at(url: str, more: str = "") -> str:
    return f'\n[store]\nurl = "{url}"\n{more}'


@contextlib.contextmanager
def over_demo(upstream: str, store: str) -> Iterator[Stand]:
    """A provider for each protocol; two clients with a key each."""
    text = configuration(upstream, f'"{CLIENT_KEY}", "{OTHER_KEY}"') + stored_at(store)
    with gateway(text) as stand:
        yield stand


@contextlib.contextmanager
def over_canned(canned: Canned, store: str, protocol: str = "openai-chat", **more: str) -> Iterator[Stand]:
    """One provider, `up`; no keys."""
    with running(canned) as url, gateway(provider("up", url, protocol, **more) + stored_at(store)) as stand:
        yield stand


def responses(stand: Stand | str, key: str = CLIENT_KEY) -> openai.OpenAI:
    url = stand if isinstance(stand, str) else stand.url
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def messages(stand: Stand | str, key: str = CLIENT_KEY) -> anthropic.Anthropic:
    url = stand if isinstance(stand, str) else stand.url
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def respond(client: openai.OpenAI, mode: str, **request: Any) -> Any:
    """One response, whole or streamed, as the SDK puts it together."""
    if mode == "whole":
        return client.responses.create(**request)
    with client.responses.stream(**request) as stream:
        return stream.get_final_response()
