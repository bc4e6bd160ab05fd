"""The known providers: each works from its usual variable alone."""

import re

import pytest

from dragoman.core.errors import ConfigError
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
        assert (target.provider.credentials.account, target.model) == ("sk-1", "some/model")
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
    assert (groq.recover, groq.credentials.account, groq.base_url) == (True, "k", known()["groq"].base_url)


def test_a_provider_of_the_file_may_lack_its_key_and_says_so():
    assert load("[providers.groq]\n", {}).providers["groq"].needs_key
    assert not load("[providers.groq]\npassthrough = true\n", {}).providers["groq"].needs_key
    assert not load("[providers.ollama]\n", {}).providers["ollama"].needs_key


AZURE = '[providers.azure]\nprotocol = "openai-responses"\nbase_url = "https://x.example.com/openai/v1"\n'


def test_facts_in_a_row_of_models_hold_for_its_targets():
    text = AZURE + '[models]\n"prod-1" = { to = "azure:prod-1", like = "gpt-5.2", images = false }\n'
    config = load(text, {})
    profile = config.providers["azure"].profile("prod-1")
    assert (profile.images, profile.context_window) == (False, 400_000)
    assert [(row.pattern, str(row)) for row in config.models] == [("prod-1", "azure:prod-1")]


def test_facts_in_a_provider_hold_for_the_models_that_fit():
    text = AZURE + '[providers.azure.profiles."eu-*"]\nlike = "gpt-5.1"\ncontext_window = 9000\n'
    azure = load(text, {}).providers["azure"]
    assert azure.profile("eu-1").context_window == 9000
    assert azure.profile("eu-1").efforts == ("none", "low", "medium", "high")
    assert azure.profile("us-1").efforts is None


def test_a_pattern_that_keeps_the_name_describes_the_names_that_fit_it():
    config = load('[models]\n"small-*" = { to = "ollama:*", context_window = 8000 }\n', {})
    assert config.providers["ollama"].profile("small-1").context_window == 8000
    assert config.providers["ollama"].profile("large").context_window is None


MISTAKES = {
    'x = { to = "ollama:m", imagess = false }': (
        "models.x.imagess: Unknown key 'imagess'. Did you mean 'images'?"
    ),
    'x = { to = "ollama:m", efforts = ["lo"] }': "models.x.efforts[0]: invalid enum value 'lo'",
    'x = { to = "ollama:m", like = 5 }': "models.x.like: expected the name of a model",
    'x = { to = "ollama:m", context_window = "big" }': "models.x.context_window: expected a whole number",
    "x = { images = false }": 'models.x: missing to = "provider:model"',
}


@pytest.mark.parametrize("row", MISTAKES)
def test_a_wrong_fact_is_named(row: str):
    with pytest.raises(ConfigError) as raised:
        load(f"[models]\n{row}\n", {})
    assert MISTAKES[row] in str(raised.value)


def test_facts_of_a_provider_are_a_table():
    with pytest.raises(ConfigError, match=r"providers\.azure\.profiles\.x: expected a table of facts"):
        load(AZURE + "profiles = { x = 1 }\n", {})
