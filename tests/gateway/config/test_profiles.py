"""The known providers: each works from its usual variable alone."""

import re

import pytest

from dragoman.gateway.config import load
from dragoman.gateway.upstreams.routing import route
from dragoman.http.client.address import address_of
from dragoman.profiles import known
from dragoman.protocols import codec

REMOTE = {name: provider for name, provider in known().items() if provider.key_env}
LOCAL = {name: provider for name, provider in known().items() if not provider.key_env}


def test_the_promised_ones_are_there():
    promised = "anthropic openai google-ai-studio groq openrouter mistral deepseek xai together fireworks"
    assert set(promised.split()) <= REMOTE.keys()
    assert {"ollama", "vllm", "lmstudio", "demo"} <= LOCAL.keys()


@pytest.mark.parametrize("name", REMOTE)
def test_a_key_in_the_usual_variable_is_enough(name: str):
    provider = REMOTE[name]
    for variable in (provider.key_env, *provider.other_key_envs):
        (target,) = route(load("", {variable: "sk-1"}), f"{name}:some/model")
        assert (target.provider.api_key, target.model) == ("sk-1", "some/model")
        assert not target.provider.needs_key


@pytest.mark.parametrize("name", known())
def test_addresses_pass_as_if_they_stood_in_a_file(name: str):
    provider = known()[name]
    text = f'[providers.copy]\nprotocol = "{provider.protocol}"\nbase_url = "{provider.base_url}"\n'
    assert load(text, {}).providers["copy"].base_url == provider.base_url


@pytest.mark.parametrize("name", REMOTE)
def test_remote_ones_are_reached_by_tls(name: str):
    url = REMOTE[name].base_url + codec(REMOTE[name].protocol).http.path("m", True)
    assert address_of(url)[0].tls
    assert re.fullmatch(r"[A-Z0-9_]+_(API_KEY|TOKEN)", REMOTE[name].key_env)


@pytest.mark.parametrize("name", LOCAL)
def test_local_ones_stay_on_this_machine(name: str):
    assert re.match(r"http://127\.0\.0\.1:\d+|demo:", LOCAL[name].base_url)


def test_a_file_changes_only_what_it_says():
    config = load("[providers.groq]\nrecover = true\n", {"GROQ_API_KEY": "k"})
    groq = config.providers["groq"]
    assert (groq.recover, groq.api_key, groq.base_url) == (True, "k", known()["groq"].base_url)


def test_a_provider_of_the_file_may_lack_its_key_and_says_so():
    assert load("[providers.groq]\n", {}).providers["groq"].needs_key
    assert not load("[providers.groq]\npassthrough = true\n", {}).providers["groq"].needs_key
    assert not load("[providers.ollama]\n", {}).providers["ollama"].needs_key
